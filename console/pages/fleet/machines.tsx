/** All machines. The filters are in the URL; each change needs a reason. */
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import { count } from '../../../src/view/number.ts'
import { gpuLabel } from '../../../src/view/gpu.ts'
import { money } from '../../../src/view/money.ts'
import { offeringLabels } from '../../../src/view/supply.ts'
import { relativeTime } from '../../../src/view/time.ts'
import { machineStatus } from '../../../src/contract/operator.ts'
import { useCall } from '../../api/query.ts'
import { optionalText } from '../../form/read.ts'
import { PAGE_ROWS, Pager, usePages } from '../../ui/pager.tsx'
import type { Tone } from '../../../src/view/tone.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { useNow } from '../../ui/now.ts'
import { Skeleton } from '../../ui/skeleton.tsx'
import { VirtualTable, type Column } from '../../ui/table.tsx'
import { MachineDialog } from './machine-dialog.tsx'
import type { FleetMachine } from './read.ts'

const route = getRouteApi('/shell/operator/fleet')
const EVERY_MS = 15_000
const any = { value: '', label: 'Any' }
const offerings = ['marketplace', 'virtual-machine', 'bare-metal'] as const

export function FleetMachines() {
  const { q = '', offering, status } = route.useSearch()
  const navigate = route.useNavigate()
  const pages = usePages(JSON.stringify([q, offering, status]))
  const query = { limit: PAGE_ROWS, cursor: pages.cursor, q: optionalText(q), offering, status }
  const fleet = useCall('listFleet', { query }, { everyMs: EVERY_MS, keepsLast: true })
  const [chosen, setChosen] = useState<FleetMachine | undefined>()
  const columns = columnsOf(useNow(), setChosen)
  const narrow = (change: { q?: string; offering?: string; status?: string }): void => {
    const given = Object.fromEntries(Object.entries(change).map(([name, value]) => [name, value || undefined]))
    void navigate({ search: (before) => ({ ...before, ...given }), replace: true })
  }
  return (
    <div className="flex flex-col gap-4">
      <div className="grid gap-3 sm:grid-cols-3" role="search" aria-label="Machines">
        <TextField
          label="Search"
          placeholder="Name, cluster, region or GPU"
          value={q}
          onChange={(event) => narrow({ q: event.target.value })}
        />
        <SelectField
          label="Offered as"
          choices={[any, ...offerings.map((value) => ({ value, label: offeringLabels[value] }))]}
          value={offering ?? ''}
          onChange={(event) => narrow({ offering: event.target.value })}
        />
        <SelectField
          label="Status"
          choices={[any, ...machineStatus.options.map((value) => ({ value, label: statusLabel(value) }))]}
          value={status ?? ''}
          onChange={(event) => narrow({ status: event.target.value })}
        />
      </div>
      <Answer of={fleet} skeleton={<Skeleton rows={12} />}>
        {({ machines, nextCursor }) => (
          <>
            <VirtualTable
              label="Machines"
              columns={columns}
              rows={machines}
              rowKey={(machine) => machine.id}
              empty={<NoMachine isFiltered={[query.q, offering, status].some((value) => value !== undefined)} />}
            />
            <Pager pages={pages} nextCursor={nextCursor} />
          </>
        )}
      </Answer>
      {chosen !== undefined && <MachineDialog machine={chosen} onClose={() => setChosen(undefined)} />}
    </div>
  )
}

function NoMachine({ isFiltered }: { isFiltered: boolean }) {
  return isFiltered ? (
    <Empty title="No machines match">Change the search text or the filters.</Empty>
  ) : (
    <Empty title="No machines yet">
      Machines come from the engines in BERTH_ENGINES and from hosts that join. See the Hosts tab.
    </Empty>
  )
}

function columnsOf(now: number, choose: (machine: FleetMachine) => void): ReadonlyArray<Column<FleetMachine>> {
  return [
    {
      name: 'id',
      header: 'Machine',
      width: 'minmax(0, 1.7fr)',
      cell: (machine) => <span title={`${machine.id}, engine ${machine.driver}`}>{machine.id}</span>,
    },
    {
      name: 'offering',
      header: 'Offered as',
      width: '8rem',
      cell: (machine) => offeringLabels[machine.offering],
    },
    {
      name: 'gpu',
      header: 'GPUs',
      width: 'minmax(0, 1.5fr)',
      cell: (machine) => <span title={machine.gpuModel}>{gpuLabel(machine.gpuModel)}</span>,
    },
    { name: 'use', header: 'In use', align: 'right', width: '4.8rem', cell: (machine) => <InUse machine={machine} /> },
    { name: 'region', header: 'Region', width: 'minmax(0, 0.95fr)', cell: (machine) => machine.region },
    {
      name: 'price',
      header: <span title="USD per GPU-hour">Price</span>,
      align: 'right',
      width: '5.6rem',
      cell: (machine) => (machine.pricePerGpuHourUsd === null ? 'Price book' : money(machine.pricePerGpuHourUsd)),
    },
    {
      name: 'supplier',
      header: 'Supplier',
      width: 'minmax(0, 1.3fr)',
      cell: (machine) => machine.supplierName ?? 'Operator',
    },
    {
      name: 'status',
      header: 'Status',
      width: '7.5rem',
      cell: (machine) => <MachineBadge machine={machine} now={now} />,
    },
    {
      name: 'change',
      header: <span className="sr-only">Change</span>,
      width: '5.5rem',
      cell: (machine) => (
        <Button look="quiet" aria-label={`Change ${machine.id}`} onClick={() => choose(machine)}>
          Change
        </Button>
      ),
    },
  ]
}

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

function MachineBadge({ machine, now }: { machine: FleetMachine; now: number }) {
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
