/** All machines. The filters are in the URL; each change needs a reason. */
import { getRouteApi } from '@tanstack/react-router'
import { count } from '../../../src/view/number.ts'
import { gpuLabel } from '../../../src/view/gpu.ts'
import { money } from '../../../src/view/money.ts'
import { offeringLabels } from '../../../src/view/supply.ts'
import { relativeTime } from '../../../src/view/time.ts'
import { machineStatus } from '../../../src/contract/operator.ts'
import { optionalText } from '../../form/read.ts'
import type { Tone } from '../../../src/view/tone.ts'
import { actionColumn, textColumn, type Columns } from '../../list/column.tsx'
import { choicesIn, choicesOf, FilterBar } from '../../list/filter.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Badge } from '../../ui/badge.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { useNow } from '../../ui/now.ts'
import { MachineDialog } from './machine-dialog.tsx'
import type { FleetMachine } from './read.tsx'

const route = getRouteApi('/shell/operator/fleet')
const EVERY_MS = 15_000

export function FleetMachines() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const dialog = useDialog()
  const { offering, status } = search
  const q = optionalText(search.q ?? '')
  const change = (machine: FleetMachine): void =>
    dialog.open((close) => <MachineDialog machine={machine} onClose={close} />)
  return (
    <div className="flex flex-col gap-4">
      <FilterBar
        label="Machines"
        fields={[
          { name: 'q', label: 'Search', placeholder: 'Name, cluster, region or GPU' },
          { name: 'offering', label: 'Offered as', choices: choicesIn(offeringLabels) },
          { name: 'status', label: 'Status', choices: choicesOf(machineStatus.options, statusLabel) },
        ]}
        search={search}
        onChange={(changed) => void navigate({ search: (before) => ({ ...before, ...changed }), replace: true })}
      />
      <PagedTable
        label="Machines"
        call="listFleet"
        query={{ q, offering, status }}
        everyMs={EVERY_MS}
        rows={({ machines }) => machines}
        rowKey="id"
        columns={[...columns, actionColumn('Change', ({ id }) => id, change, { look: 'quiet', width: '5.5rem' })]}
        virtual
        skeleton={12}
        empty={<NoMachine isFiltered={[q, offering, status].some((value) => value !== undefined)} />}
      />
      {dialog.shown}
    </div>
  )
}

function NoMachine({ isFiltered }: { isFiltered: boolean }) {
  return isFiltered ? (
    <Empty title="No machines match">Change the search text or the filters.</Empty>
  ) : (
    <Empty title="No machines yet">
      Machines come from the engines in BERTH_DRIVERS and from hosts that join. See the Hosts tab.
    </Empty>
  )
}

const columns: Columns<FleetMachine> = [
  textColumn('Machine', ({ id, driver }) => <span title={`${id}, engine ${driver}`}>{id}</span>, {
    width: 'minmax(0, 1.7fr)',
  }),
  textColumn('Offered as', ({ offering }) => offeringLabels[offering], { width: '8rem' }),
  textColumn('GPUs', ({ gpuModel }) => <span title={gpuModel}>{gpuLabel(gpuModel)}</span>, {
    width: 'minmax(0, 1.5fr)',
  }),
  textColumn('In use', (machine) => <InUse machine={machine} />, { align: 'right', width: '4.8rem' }),
  textColumn('Region', 'region', { width: 'minmax(0, 0.95fr)' }),
  textColumn(
    'Price',
    ({ pricePerGpuHourUsd: price }) => (
      <span title="USD per GPU-hour">{price === null ? 'Price book' : money(price)}</span>
    ),
    { align: 'right', width: '5.6rem' },
  ),
  textColumn('Supplier', ({ supplierName }) => supplierName ?? 'Operator', { width: 'minmax(0, 1.3fr)' }),
  textColumn('Status', (machine) => <MachineBadge machine={machine} />, { width: '7.5rem' }),
]

function InUse({ machine }: { machine: FleetMachine }) {
  const sick = machine.gpusSick.length
  return (
    <span title={sick === 0 ? undefined : `${count(sick, 'faulty GPU')}: ${machine.gpusSick.join(', ')}`}>
      {machine.gpusInUse} / {machine.gpusTotal}
      {sick > 0 && <span className="text-warn"> −{sick}</span>}
    </span>
  )
}

const statusTones: Readonly<Record<string, Tone>> = {
  node_ready: 'good',
  node_draining: 'warn',
  node_cleaning: 'info',
  node_quarantined: 'bad',
  node_lost: 'bad',
}

function MachineBadge({ machine }: { machine: FleetMachine }) {
  const now = useNow()
  const isOffSale = !machine.listed && machine.status === 'node_ready'
  return (
    <span title={`Last seen ${relativeTime(machine.seenAt, now)}`}>
      <Badge tone={isOffSale ? 'plain' : (statusTones[machine.status] ?? 'plain')}>
        {isOffSale ? 'off sale' : statusLabel(machine.status)}
      </Badge>
    </span>
  )
}

function statusLabel(status: string): string {
  return status.replace(/^node_/, '')
}
