/** What an operator changes about one machine. Only what was touched is sent; the reason stands in the audit log. */
import { useState, type FormEvent } from 'react'
import type { CallInput } from '../../../src/client/client.ts'
import { editableUsd } from '../../../src/view/money.ts'
import { useAction } from '../../api/query.ts'
import { Facts } from '../../ui/card.tsx'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import { toast } from '../../ui/toast.tsx'
import { useEveryAccount, type FleetMachine } from './read.ts'

type Change = Omit<CallInput<'changeMachine'>['body'], 'reason'>

const fields = ['supplierId', 'pricePerGpuHourUsd', 'gpusSick', 'reason']

export function MachineDialog({ machine, onClose }: { machine: FleetMachine; onClose: () => void }) {
  const action = useAction('changeMachine', ['listFleet', 'listHosts'])
  const [listed, setListed] = useState(machine.listed)
  const [draining, setDraining] = useState(machine.status === 'node_draining')
  const [supplier, setSupplier] = useState(machine.supplierId ?? '')
  const before = editableUsd(machine.pricePerGpuHourUsd)
  const [price, setPrice] = useState(before)
  const [sick, setSick] = useState(machine.gpusWithdrawn.join(', '))
  const [reason, setReason] = useState('')
  const mayDrain = machine.status === 'node_ready' || machine.status === 'node_draining'
  const isPriced = machine.offering === 'marketplace' && supplier === ''
  const sickGpus = readIndexes(sick)
  const sickByEngine = machine.gpusSick.filter((gpu) => !machine.gpusWithdrawn.includes(gpu))
  const change: Change = {
    ...(listed === machine.listed ? {} : { listed }),
    ...(draining === (machine.status === 'node_draining') ? {} : { draining }),
    ...(supplier === (machine.supplierId ?? '') ? {} : { supplierId: supplier === '' ? null : supplier }),
    ...(isPriced && price !== before ? { pricePerGpuHourUsd: price } : {}),
    ...(sickGpus === undefined || sickGpus.join() === machine.gpusWithdrawn.join() ? {} : { gpusSick: sickGpus }),
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    action.mutate(
      { params: { id: machine.id }, body: { ...change, reason: reason.trim() } },
      {
        onSuccess: () => {
          toast(`${machine.id} is changed.`)
          onClose()
        },
      },
    )
  }
  const beside = errorBesideFields(action.error, fields)
  return (
    <Dialog title={machine.id} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <Facts
          facts={[
            ['GPUs', `${machine.gpusTotal} × ${machine.gpuModel}, ${machine.gpusInUse} in use`],
            ['Cluster', machine.clusterName],
            ['Engine', machine.driver],
            ...(sickByEngine.length === 0 ? [] : [['Sick, its engine says', sickByEngine.join(', ')] as const]),
          ]}
        />
        <CheckField
          label="On sale"
          hint="What runs on it goes on either way."
          checked={listed}
          onChange={(event) => setListed(event.target.checked)}
        />
        <CheckField
          label="Draining"
          hint={mayDrain ? 'Takes no more tenants; those it has stay.' : `It is ${machine.status.slice(5)}.`}
          disabled={!mayDrain}
          checked={draining}
          onChange={(event) => setDraining(event.target.checked)}
        />
        <SupplierField value={supplier} onChange={setSupplier} error={fieldError(action.error, 'supplierId')} />
        {isPriced && (
          <TextField
            label="Price of a GPU and hour in USD"
            hint="What runs on it keeps its price."
            inputMode="decimal"
            value={price}
            onChange={(event) => setPrice(event.target.value.trim())}
            error={fieldError(action.error, 'pricePerGpuHourUsd')}
          />
        )}
        <TextField
          label="GPUs that you withdraw from sale"
          hint={`Their numbers, from 0 to ${machine.gpusTotal - 1}: 0, 3`}
          value={sick}
          onChange={(event) => setSick(event.target.value)}
          error={sickGpus === undefined ? 'Numbers with commas between them.' : fieldError(action.error, 'gpusSick')}
        />
        <ReasonField value={reason} onChange={setReason} error={fieldError(action.error, 'reason')} required />
        {beside !== null && <ErrorNotice error={beside} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={action.isPending} disabled={Object.keys(change).length === 0 || sickGpus === undefined}>
            Change it
          </SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

function SupplierField({
  value,
  onChange,
  error,
}: {
  value: string
  onChange: (id: string) => void
  error: string | undefined
}) {
  const accounts = useEveryAccount()
  const suppliers = (accounts.data?.rows ?? []).filter((account) => account.platformFeePercentage !== null)
  const choices = suppliers.map(({ id, name }) => ({ value: id, label: name }))
  const isKnown = value === '' || suppliers.some((account) => account.id === value)
  return (
    <SelectField
      label="Supplier"
      choices={[{ value: '', label: 'The house' }, ...choices, ...(isKnown ? [] : [{ value, label: value }])]}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      error={error}
    />
  )
}

/** undefined: these are no numbers. */
function readIndexes(text: string): number[] | undefined {
  const words = text.split(/[\s,]+/).filter((word) => word !== '')
  if (!words.every((word) => /^\d{1,2}$/.test(word))) return undefined
  return [...new Set(words.map((word) => Number.parseInt(word, 10)))].sort((a, b) => a - b)
}
