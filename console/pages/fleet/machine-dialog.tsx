/** Changes a machine. Only changed values are sent; the reason is recorded in the audit log. */
import { gpuLabel, gpusLabel } from '../../../src/view/gpu.ts'
import { editableUsd } from '../../../src/view/money.ts'
import { useCall } from '../../api/query.ts'
import { CallDialog } from '../../form/dialog.tsx'
import { optionalNumber } from '../../form/read.ts'
import { Facts } from '../../ui/card.tsx'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import type { FleetMachine } from './read.tsx'

const MAX_SUPPLIERS = 1_000

export function MachineDialog({ machine, onClose }: { machine: FleetMachine; onClose: () => void }) {
  const isDraining = machine.status === 'node_draining'
  const mayDrain = machine.status === 'node_ready' || isDraining
  const sickByEngine = machine.gpusSick.filter((gpu) => !machine.gpusWithdrawn.includes(gpu))
  return (
    <CallDialog
      operation="changeMachine"
      input={{ params: { id: machine.id } }}
      refreshes={['listFleet', 'listHosts']}
      title={machine.id}
      action="Save changes"
      disabledReason="unchanged"
      initial={{
        listed: machine.listed,
        draining: isDraining,
        supplierId: machine.supplierId ?? '',
        pricePerGpuHourUsd: editableUsd(machine.pricePerGpuHourUsd),
        gpusSick: machine.gpusWithdrawn.join(', '),
        reason: '',
      }}
      body={(values) => changeOf(machine, values)}
      done={`Changed ${machine.id}.`}
      onClose={onClose}
    >
      {(form) => (
        <>
          <Facts
            facts={[
              ['GPUs', `${gpusLabel(machine.gpusTotal, gpuLabel(machine.gpuModel))}, ${machine.gpusInUse} in use`],
              ['Cluster', machine.clusterName],
              ['Engine', machine.driver],
              ['Faulty (reported by the engine)', sickByEngine.length > 0 && sickByEngine.join(', ')],
            ]}
          />
          <CheckField label="On sale" hint="Current rentals continue either way." {...form.check('listed')} />
          <CheckField
            label="Draining"
            hint={
              mayDrain
                ? 'Accepts no new tenants. Current rentals continue.'
                : `The machine is ${machine.status.slice(5)}.`
            }
            disabled={!mayDrain}
            {...form.check('draining')}
          />
          <SupplierField {...form.text('supplierId')} onChange={(supplierId) => form.set({ supplierId })} />
          {isPriced(machine, form.values.supplierId) && (
            <TextField
              label="Price per GPU-hour (USD)"
              hint="Current rentals keep their price."
              inputMode="decimal"
              {...form.text('pricePerGpuHourUsd')}
            />
          )}
          <TextField
            label="GPUs withdrawn from sale"
            hint={`Numbers from 0 to ${machine.gpusTotal - 1}, such as 0, 3.`}
            {...form.text('gpusSick')}
          />
          <ReasonField {...form.text('reason')} />
        </>
      )}
    </CallDialog>
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

/** Only changed values. */
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
      choices={[{ value: '', label: 'Operator' }, ...choices, ...(isKnown ? [] : [{ value, label: value }])]}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      error={error}
    />
  )
}

/** Text that is not a number becomes NaN, which the schema rejects. */
function readIndexes(text: string): number[] {
  const parts = text.split(/[\s,]+/).filter((part) => part !== '')
  return [...new Set(parts.map((part) => optionalNumber(part) ?? Number.NaN))].sort((a, b) => a - b)
}
