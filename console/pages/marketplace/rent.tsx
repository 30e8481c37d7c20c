/** Renting GPUs of one machine: what it costs and how long the balance lasts stand there before anything is ordered. */
import { count, number } from '../../../src/view/number.ts'
import { useNavigate } from '@tanstack/react-router'
import { useState, type FormEvent } from 'react'
import { systemClock } from '../../../src/base/instant.ts'
import { formatUsd, type NanoUsd } from '../../../src/base/money.ts'
import { shareOfMachine } from '../../../src/domain/machine.ts'
import { pricePerHour } from '../../../src/domain/term.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { useAction, refresh } from '../../api/query.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import type { MachineRow } from './machine.ts'
import { GuardFields, hasFaults, noGuards, readGuards, type GuardTexts } from '../rent/guards.tsx'
import { PriceFacts, TooLittle, useAffordable } from '../rent/money.tsx'
import { portsHint, readPorts } from '../rent/ports.ts'
import { isPriceChange, OrderRefusal } from '../rent/refusal.tsx'
import { NoSshKey } from '../rent/ssh.tsx'
import { SimulatedNotice } from '../rental/simulated-notice.tsx'

/** What suppliers give when an order names none. */
const USUAL_IMAGE = 'debian:12'
const fields = ['gpu_count', 'image.name', 'ports', 'label', 'auto_terminate_at', 'spending_limit_usd'] as const

/** As it is chosen and typed. */
interface Draft {
  readonly gpus: number
  readonly image: string
  readonly ports: string
  readonly guards: GuardTexts
}

const usualDraft: Draft = { gpus: 1, image: USUAL_IMAGE, ports: '', guards: noGuards }

/** What an order says, or what is wrong at which field. */
function readDraft({ gpus, image, ports: portsText, guards: texts }: Draft, machine: MachineRow, perHour: NanoUsd) {
  const { faults, guards } = readGuards(texts, systemClock.now())
  const { ports, fault } = readPorts(portsText)
  const name = image.trim()
  return {
    body: {
      cluster_name: machine.cluster,
      node_name: machine.id,
      gpu_count: gpus,
      // As it stands in the dialog: its supplier may have raised it since.
      max_cost_per_hour_usd: formatUsd(perHour),
      ...(name === '' ? {} : { image: { name } }),
      ...(ports.length === 0 ? {} : { ports }),
      ...(guards.label === undefined ? {} : { label: guards.label }),
      ...(guards.endsAt === undefined ? {} : { auto_terminate_at: guards.endsAt }),
      ...(guards.limitUsd === undefined ? {} : { spending_limit_usd: guards.limitUsd }),
    },
    faults: {
      ...faults,
      ports: fault,
    },
  }
}

type Faults = { readonly [name in 'gpus' | 'image' | 'ports' | 'label' | 'endsAt' | 'limitUsd']?: string | undefined }

export function RentDialog({ machine, onClose }: { machine: MachineRow; onClose: () => void }) {
  const [draft, setDraft] = useState<Draft>(usualDraft)
  const [isTried, setTried] = useState(false)
  const navigate = useNavigate()
  const rent = useAction('createInstance', ['listMachines', 'listInstances', 'getCustomerBalance'])
  const perHour = pricePerHour(machine.pricePerGpu, draft.gpus)
  const affordable = useAffordable(perHour)
  const { body, faults } = readDraft(draft, machine, perHour)
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setTried(true)
    if (hasFaults(faults)) return
    const onSuccess = ({ instance_id: id }: { instance_id: string }): void => {
      toast(`${body.label ?? id} is starting`)
      void navigate({ to: '/rentals/containers/$id', params: { id } })
    }
    const onError = (error: ClientError): void => {
      if (isPriceChange(error)) void refresh(['listMachines'])
    }
    rent.mutate({ body }, { onSuccess, onError })
  }
  const local: Faults = isTried ? faults : {}
  const said = errorBesideFields(rent.error, fields)
  return (
    <Dialog title={`Rent ${machine.gpu}`} onClose={onClose} wide>
      <form onSubmit={submit} noValidate className="flex flex-col gap-4">
        <AboutMachine machine={machine} gpus={draft.gpus} />
        <NoSshKey />
        <DraftFields
          draft={draft}
          machine={machine}
          onChange={(changed) => {
            // A price that has changed is that of as many GPUs as were ordered.
            if (changed.gpus !== undefined && isPriceChange(rent.error)) rent.reset()
            setDraft({ ...draft, ...changed })
          }}
          faults={{
            gpus: fieldError(rent.error, 'gpu_count'),
            image: fieldError(rent.error, 'image.name'),
            ports: local.ports ?? fieldError(rent.error, 'ports'),
            label: local.label ?? fieldError(rent.error, 'label'),
            endsAt: local.endsAt ?? fieldError(rent.error, 'auto_terminate_at'),
            limitUsd: local.limitUsd ?? fieldError(rent.error, 'spending_limit_usd'),
          }}
        />
        <div className="rounded-md border border-line bg-sunken p-3" aria-live="polite">
          <PriceFacts perHour={perHour} isWide />
        </div>
        <TooLittle of={affordable} />
        {said !== null && (
          <OrderRefusal error={said} asked={rent.variables?.body.max_cost_per_hour_usd} now={perHour} />
        )}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton
            busy={rent.isPending}
            disabledReason={affordable.isEnough === false ? 'The balance does not cover the first hour' : undefined}
          >
            Rent {count(draft.gpus, 'GPU')}
          </SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

function AboutMachine({ machine, gpus }: { machine: MachineRow; gpus: number }) {
  const hardware = {
    cpuModel: machine.cpu,
    virtualCores: machine.virtualCores,
    ramGb: machine.ramGb,
    storageGb: machine.diskGb,
  }
  const share = shareOfMachine(hardware, gpus, machine.total)
  return (
    <>
      <p className="text-sm text-muted">
        Machine <span className="font-mono">{machine.id}</span> of {machine.supplier} in {machine.region}.{' '}
        {count(gpus, 'GPU')} come{gpus === 1 ? 's' : ''} with {count(share.cpuCount, 'CPU')}, {number(share.ramGb)} GB
        of memory and {number(share.storageGb)} GB of disk.
      </p>
      <SimulatedNotice simulated={machine.simulated} />
    </>
  )
}

interface DraftFieldsProps {
  readonly draft: Draft
  readonly machine: MachineRow
  readonly faults: Faults
  readonly onChange: (changed: Partial<Draft>) => void
}

function DraftFields({ draft, machine, faults, onChange }: DraftFieldsProps) {
  return (
    <>
      <div className="grid items-start gap-3 sm:grid-cols-3">
        <SelectField
          label="GPUs"
          value={String(draft.gpus)}
          onChange={(event) => onChange({ gpus: Number(event.target.value) })}
          choices={Array.from({ length: machine.free }, (_, n) => ({
            value: String(n + 1),
            label: count(n + 1, 'GPU'),
          }))}
          hint={`${machine.free} of ${machine.total} are free.`}
          error={faults.gpus}
        />
        <TextField
          label="Image"
          value={draft.image}
          onChange={(event) => onChange({ image: event.target.value })}
          placeholder="the supplier’s usual one"
          hint="As Docker spells it: name:tag."
          error={faults.image}
        />
        <TextField
          label="Ports"
          value={draft.ports}
          onChange={(event) => onChange({ ports: event.target.value })}
          placeholder="8080, 8888"
          hint={portsHint}
          error={faults.ports}
        />
      </div>
      <GuardFields texts={draft.guards} onChange={(guards) => onChange({ guards })} faults={faults} />
    </>
  )
}
