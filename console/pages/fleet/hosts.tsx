/** Hosts: machines with an agent, and bare metal over SSH. */
import { getRouteApi } from '@tanstack/react-router'
import { gpuLabel, gpusLabel } from '../../../src/view/gpu.ts'
import { hostStateLabels } from '../../../src/view/host.ts'
import type { ComponentProps } from 'react'
import { useCall } from '../../api/query.ts'
import { optionalText } from '../../form/read.ts'
import { actionColumn, Ago, badgeColumn, textColumn, type Columns } from '../../list/column.tsx'
import { choicesOf, FilterBar } from '../../list/filter.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { HostActionDialog } from './host-action.tsx'
import { HostDialog } from './host-dialog.tsx'
import { HostForm } from './host-form.tsx'
import type { FleetHost } from './read.tsx'

const route = getRouteApi('/shell/operator/fleet')
/** Hosts report every three seconds. */
const EVERY_MS = 3_000
const states = choicesOf(['ready', 'draining', 'cleaning', 'quarantined', 'left'], (state) => hostStateLabels[state][0])

export function FleetHosts() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const dialog = useDialog()
  const q = optionalText(search.q ?? '')
  const { state } = search
  const manage = (host: FleetHost): void =>
    dialog.open((close) => (
      <LiveHost
        host={host}
        onAct={(action) => dialog.open((done) => <HostActionDialog host={host} action={action} onClose={done} />)}
        onClose={close}
      />
    ))
  return (
    <div className="flex flex-col gap-4">
      <FilterBar
        label="Hosts"
        fields={[
          { name: 'q', label: 'Search', placeholder: 'Name, cluster or region' },
          { name: 'state', label: 'State', choices: states },
        ]}
        search={search}
        onChange={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
      >
        <ButtonLink to="/supply/join">Join a machine</ButtonLink>
        <Button look="primary" onClick={() => dialog.open((close) => <HostForm onClose={close} />)}>
          Add bare metal
        </Button>
      </FilterBar>
      <PagedTable
        label="Hosts"
        call="listHosts"
        query={{ q, state }}
        everyMs={EVERY_MS}
        rows={({ hosts }) => hosts}
        rowKey="id"
        columns={[...columns, actionColumn('Manage', ({ id }) => id, manage, { look: 'quiet' })]}
        empty={<NoHost isFiltered={q !== undefined || state !== undefined} />}
      />
      {dialog.shown}
    </div>
  )
}

/** A search can match other hosts too. */
const MATCHES = 20

/** The host's metrics change while the dialog is open. */
function LiveHost({ host, ...rest }: ComponentProps<typeof HostDialog>) {
  const { data } = useCall('listHosts', { query: { q: host.id, limit: MATCHES } }, { everyMs: EVERY_MS })
  return <HostDialog host={data?.hosts.find(({ id }) => id === host.id) ?? host} {...rest} />
}

function NoHost({ isFiltered }: { isFiltered: boolean }) {
  return isFiltered ? (
    <Empty title="No hosts match">Change the search text or the state.</Empty>
  ) : (
    <Empty title="No hosts yet" action={<ButtonLink to="/supply/join">Join a machine</ButtonLink>}>
      A machine with Docker or QEMU joins with one command. Add bare metal here; the server reaches it over SSH.
    </Empty>
  )
}

const columns: Columns<FleetHost> = [
  textColumn('Host', (host) => (
    <div>
      <div className="font-medium">{host.id}</div>
      <div className="text-muted">
        {gpusLabel(host.gpusTotal, gpuLabel(host.gpuModel))}
        {host.simulated && ' (simulated)'}
      </div>
    </div>
  )),
  badgeColumn('State', ({ state }) => hostStateLabels[state]),
  textColumn('Last seen', (host) => <LastSeen host={host} />),
  textColumn('Access', ({ address }) => (address === null ? 'agent' : `SSH, ${address.hostname}:${address.sshPort}`), {
    wideOnly: true,
  }),
  textColumn('Tenants', 'tenants', { align: 'right' }),
  textColumn('Load', loadLabel, { wideOnly: true }),
  textColumn('Supplier', ({ supplierName }) => supplierName ?? 'Operator', {
    wideOnly: true,
    className: 'whitespace-nowrap',
  }),
]

function LastSeen({ host }: { host: FleetHost }) {
  if (host.state === 'left') return <span className="text-muted">—</span>
  return (
    <span className="whitespace-nowrap">
      {host.seenAt === null ? 'never' : <Ago at={host.seenAt} />} {host.isSilent && <Badge tone="bad">offline</Badge>}
      {host.fault !== null && <Badge tone="bad">fault</Badge>}
    </span>
  )
}

/** Shows the busiest GPU. */
function loadLabel({ metrics, state }: FleetHost): string {
  if (metrics === null || state === 'left') return '—'
  const highest = (values: ReadonlyArray<number | null>): number | undefined => {
    const utilizations = values.filter((value) => value !== null)
    return utilizations.length === 0 ? undefined : Math.max(...utilizations)
  }
  const busy = highest(metrics.gpus.map((gpu) => gpu.utilizationPercent))
  const hot = highest(metrics.gpus.map((gpu) => gpu.temperatureCelsius))
  return [
    busy === undefined ? [] : `GPU ${Math.round(busy)}%`,
    hot === undefined ? [] : `${Math.round(hot)} °C`,
    metrics.cpuPercent === null ? [] : `CPU ${Math.round(metrics.cpuPercent)}%`,
  ]
    .flat()
    .join(', ')
}
