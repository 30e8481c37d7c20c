/** What an operator changes about one machine. Only what was touched is sent; the reason stands in the audit log. */
import { editableUsd } from '../../../src/view/money.ts'
import { useCall } from '../../api/query.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { optionalNumber } from '../../form/read.ts'
import { useCallForm } from '../../form/use-form.ts'
import { Facts } from '../../ui/card.tsx'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import { toast } from '../../ui/toast.tsx'
import type { FleetMachine } from './read.ts'

const MAX_SUPPLIERS = 1_000

export function MachineDialog({ machine, onClose }: { machine: FleetMachine; onClose: () => void }) {
  const isDraining = machine.status === 'node_draining'
  const mayDrain = machine.status === 'node_ready' || isDraining
  const sickByEngine = machine.gpusSick.filter((gpu) => !machine.gpusWithdrawn.includes(gpu))
  const form = useCallForm('changeMachine', {
    input: { params: { id: machine.id } },
    refreshes: ['listFleet', 'listHosts'],
    initial: {
      listed: machine.listed,
      draining: isDraining,
      supplierId: machine.supplierId ?? '',
      pricePerGpuHourUsd: editableUsd(machine.pricePerGpuHourUsd),
      gpusSick: machine.gpusWithdrawn.join(', '),
      reason: '',
    },
    body: (values) => changeOf(machine, values),
    onDone: () => {
      toast(`${machine.id} is changed.`)
      onClose()
    },
  })
  const supplier = form.text('supplierId')
  return (
    <FormDialog
      title={machine.id}
      form={form}
      action="Change it"
      disabledReason={form.isDirty ? undefined : 'Nothing is changed'}
      onClose={onClose}
    >
      <Facts
        facts={[
          ['GPUs', `${machine.gpusTotal} × ${machine.gpuModel}, ${machine.gpusInUse} in use`],
          ['Cluster', machine.clusterName],
          ['Engine', machine.driver],
          ...(sickByEngine.length === 0 ? [] : [['Sick, its engine says', sickByEngine.join(', ')] as const]),
        ]}
      />
      <CheckField label="On sale" hint="What runs on it goes on either way." {...form.check('listed')} />
      <CheckField
        label="Draining"
        hint={mayDrain ? 'Takes no more tenants; those it has stay.' : `It is ${machine.status.slice(5)}.`}
        disabled={!mayDrain}
        {...form.check('draining')}
      />
      <SupplierField {...supplier} onChange={(supplierId) => form.set({ supplierId })} />
      {isPriced(machine, form.values.supplierId) && (
        <TextField
          label="Price of a GPU and hour in USD"
          hint="What runs on it keeps its price."
          inputMode="decimal"
          {...form.text('pricePerGpuHourUsd')}
        />
      )}
      <TextField
        label="GPUs that you withdraw from sale"
        hint={`Their numbers, from 0 to ${machine.gpusTotal - 1}: 0, 3`}
        {...form.text('gpusSick')}
      />
      <ReasonField {...form.text('reason')} />
    </FormDialog>
  )
}

/** Suppliers price their own machines. */
function isPriced(machine: FleetMachine, supplierId: string): boolean {
  return machine.offering === 'marketplace' && supplierId === ''
}

interface Values {
  readonly listed: boolean
  readonly draining: boolean
  readonly supplierId: string
  readonly pricePerGpuHourUsd: string
  readonly gpusSick: string
  readonly reason: string
}

/** Only what was touched. */
function changeOf(machine: FleetMachine, values: Values) {
  const { listed, draining, supplierId, pricePerGpuHourUsd: price, gpusSick, reason } = values
  const sick = readIndexes(gpusSick)
  return {
    reason,
    listed: listed === machine.listed ? undefined : listed,
    draining: draining === (machine.status === 'node_draining') ? undefined : draining,
    supplierId: supplierId === (machine.supplierId ?? '') ? undefined : supplierId || null,
    pricePerGpuHourUsd:
      isPriced(machine, supplierId) && price !== editableUsd(machine.pricePerGpuHourUsd) ? price.trim() : undefined,
    gpusSick: sick.join() === machine.gpusWithdrawn.join() ? undefined : sick,
  }
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
  const query = { supplier: true, limit: MAX_SUPPLIERS }
  const suppliers = useCall('listAccounts', { query }).data?.accounts ?? []
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

/** What is no number stays in the list as NaN, which the schema refuses. */
function readIndexes(text: string): number[] {
  const words = text.split(/[\s,]+/).filter((word) => word !== '')
  return [...new Set(words.map((word) => optionalNumber(word) ?? Number.NaN))].sort((a, b) => a - b)
}
