/** Renting GPUs of one machine: what it costs and how long the balance lasts stand there before anything is ordered. */
import { useNavigate } from '@tanstack/react-router'
import { useState, type FormEvent } from 'react'
import { systemClock } from '../../src/base/instant.ts'
import { pricePerHour } from '../../src/domain/term.ts'
import { useAction } from '../api/query.ts'
import { Button } from '../ui/button.tsx'
import { Dialog, DialogButtons } from '../ui/dialog.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { errorBesideFields, fieldError } from '../ui/field-error.ts'
import { SelectField, TextField } from '../ui/field.tsx'
import { count, number } from '../ui/format.ts'
import { Notice } from '../ui/notice.tsx'
import { toast } from '../ui/toast.tsx'
import type { MachineRow } from './marketplace-machine.ts'
import { GuardFields, hasFaults, noGuards, readGuards, type GuardTexts } from './rent-guards.tsx'
import { PriceFacts, TooLittle, useAffordable } from './rent-money.tsx'
import { portsHint, readPorts } from './rent-ports.ts'
import { NoSshKey } from './rent-ssh.tsx'

/** What suppliers give when an order names none. */
const USUAL_IMAGE = 'debian:12'
const fields = ['gpu_count', 'image.name', 'label', 'auto_terminate_at', 'spending_limit_usd'] as const

export function RentDialog({ machine, onClose }: { machine: MachineRow; onClose: () => void }) {
  const [gpus, setGpus] = useState(1)
  const [image, setImage] = useState(USUAL_IMAGE)
  const [portsText, setPortsText] = useState('')
  const [guardTexts, setGuardTexts] = useState<GuardTexts>(noGuards)
  const [isTried, setTried] = useState(false)
  const [idempotencyKey] = useState(() => crypto.randomUUID())
  const navigate = useNavigate()
  const rent = useAction('createInstance', ['listMachines', 'listInstances', 'getCustomerBalance'])
  const perHour = pricePerHour(machine.pricePerGpu, gpus)
  const affordable = useAffordable(perHour)
  const { faults, guards } = readGuards(guardTexts, systemClock.now())
  const { ports, fault } = readPorts(portsText)
  const imageFault = image.trim() === '' && ports.length > 0 ? 'Ports belong to an image: name it' : undefined

  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setTried(true)
    if (hasFaults({ ...faults, fault, imageFault })) return
    const name = image.trim()
    const body = {
      cluster_name: machine.cluster,
      node_name: machine.id,
      gpu_count: gpus,
      ...(name === '' ? {} : { image: { name, ...(ports.length === 0 ? {} : { ports }) } }),
      ...(guards.label === undefined ? {} : { label: guards.label }),
      ...(guards.endsAt === undefined ? {} : { auto_terminate_at: guards.endsAt }),
      ...(guards.limitUsd === undefined ? {} : { spending_limit_usd: guards.limitUsd }),
    }
    rent.mutate(
      { body, idempotencyKey },
      {
        onSuccess: ({ instance_id: id }) => {
          toast(`${guards.label ?? id} is starting`)
          void navigate({ to: '/instances/$id', params: { id } })
        },
      },
    )
  }
  const said = errorBesideFields(rent.error, fields)
  return (
    <Dialog title={`Rent ${machine.gpu}`} onClose={onClose} wide>
      <form onSubmit={submit} noValidate className="flex flex-col gap-4">
        <p className="text-sm text-muted">
          Machine <span className="font-mono">{machine.id}</span> of {machine.supplier} in {machine.region}. Each GPU
          comes with its share of {machine.cores} cores, {number(machine.ramGb)} GB of memory and
          {` ${number(machine.diskGb)}`} GB of disk.
        </p>
        {machine.isSimulated && (
          <Notice>This machine is simulated: it can be tried, and nothing real runs on it.</Notice>
        )}
        <NoSshKey />
        <div className="grid items-start gap-3 sm:grid-cols-3">
          <SelectField
            label="GPUs"
            value={String(gpus)}
            onChange={(event) => setGpus(Number(event.target.value))}
            choices={Array.from({ length: machine.free }, (_, n) => ({
              value: String(n + 1),
              label: count(n + 1, 'GPU'),
            }))}
            hint={`${machine.free} of ${machine.total} are free.`}
            error={fieldError(rent.error, 'gpu_count')}
          />
          <TextField
            label="Image"
            value={image}
            onChange={(event) => setImage(event.target.value)}
            placeholder="the supplier’s usual one"
            hint="As Docker spells it: name:tag."
            error={isTried ? (imageFault ?? fieldError(rent.error, 'image.name')) : undefined}
          />
          <TextField
            label="Ports"
            value={portsText}
            onChange={(event) => setPortsText(event.target.value)}
            placeholder="8080, 8888"
            hint={portsHint}
            error={isTried ? fault : undefined}
          />
        </div>
        <GuardFields
          texts={guardTexts}
          onChange={setGuardTexts}
          faults={{
            label: (isTried ? faults.label : undefined) ?? fieldError(rent.error, 'label'),
            endsAt: (isTried ? faults.endsAt : undefined) ?? fieldError(rent.error, 'auto_terminate_at'),
            limitUsd: (isTried ? faults.limitUsd : undefined) ?? fieldError(rent.error, 'spending_limit_usd'),
          }}
        />
        <div className="rounded-md border border-line bg-sunken p-3" aria-live="polite">
          <PriceFacts perHour={perHour} isWide />
        </div>
        <TooLittle of={affordable} />
        {said !== null && <ErrorNotice error={said} />}
        <DialogButtons>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            look="primary"
            busy={rent.isPending}
            disabled={affordable.isEnough === false}
            title={affordable.isEnough === false ? 'The balance does not cover the first hour' : undefined}
          >
            Rent {count(gpus, 'GPU')}
          </Button>
        </DialogButtons>
      </form>
    </Dialog>
  )
}
