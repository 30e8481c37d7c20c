/** Changes a machine. Only changed values are sent; the reason is recorded in the audit log. */
import { gpuLabel, gpusLabel } from '../../../src/view/gpu.ts'
import { useCall } from '../../api/query.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import type { ControlProps } from '../../form/entry.ts'
import { Facts } from '../../ui/card.tsx'
import { SelectField } from '../../ui/field.tsx'
import type { FleetMachine } from './read.tsx'

const MAX_SUPPLIERS = 1_000

export function MachineDialog({ machine, onClose }: { machine: FleetMachine; onClose: () => void }) {
  const isDraining = machine.status === 'node_draining'
  const mayDrain = machine.status === 'node_ready' || isDraining
  const sickByReport = machine.gpusSick.filter((gpu) => !machine.gpusWithdrawn.includes(gpu))
  return (
    <FieldDialog
      operation="changeMachine"
      input={{ params: { id: machine.id } }}
      refreshes={['listFleet', 'listHosts']}
      title={machine.id}
      action="Save changes"
      before={{ ...machine, draining: isDraining, gpusSick: machine.gpusWithdrawn }}
      fields={({ supplierId }) => [
        'listed',
        ['draining', mayDrain ? {} : { disabled: true, hint: `The machine is ${machine.status.slice(5)}.` }],
        ['supplierId', { as: SupplierField }],
        // Suppliers price their own machines.
        machine.offering === 'marketplace' && supplierId === '' && 'pricePerGpuHourUsd',
        ['gpusSick', { hint: `Numbers from 0 to ${machine.gpusTotal - 1}, such as 0, 3.` }],
        'reason',
      ]}
      done={`Changed ${machine.id}.`}
      onClose={onClose}
    >
      <Facts
        facts={[
          ['GPUs', `${gpusLabel(machine.gpusTotal, gpuLabel(machine.gpuModel))}, ${machine.gpusInUse} in use`],
          ['Cluster', machine.clusterName],
          ['Engine', machine.driver],
          ['Faulty (reported by the engine)', sickByReport.length > 0 && sickByReport.join(', ')],
        ]}
      />
    </FieldDialog>
  )
}

function SupplierField({ value, ...props }: ControlProps) {
  const query = { supplier: true, limit: MAX_SUPPLIERS }
  const suppliers = useCall('listAccounts', { query }).data?.accounts ?? []
  const choices = suppliers.map(({ id, name }) => ({ value: id, label: name }))
  const isKnown = value === '' || suppliers.some((account) => account.id === value)
  return (
    <SelectField
      {...props}
      value={value}
      choices={[{ value: '', label: 'Operator' }, ...choices, ...(isKnown ? [] : [{ value, label: value }])]}
    />
  )
}
