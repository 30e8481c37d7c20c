/** Hosts: machines with an agent, and bare metal over SSH. */
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import { gpuLabel, gpusLabel } from '../../../src/view/gpu.ts'
import { hostStateLabels } from '../../../src/view/host.ts'
import { relativeTime } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { optionalText } from '../../form/read.ts'
import { PAGE_ROWS, Pager, usePages } from '../../ui/pager.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { useNow } from '../../ui/now.ts'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { HostActionDialog, type HostAction } from './host-action.tsx'
import { HostBadge } from './host-badge.tsx'
import { HostDialog } from './host-dialog.tsx'
import { HostForm } from './host-form.tsx'
import type { FleetHost } from './read.ts'

const route = getRouteApi('/shell/operator/fleet')
/** Hosts report every three seconds. */
const EVERY_MS = 3_000
const states = ['ready', 'draining', 'cleaning', 'quarantined', 'left'] as const

type Open =
  | { readonly kind: 'add' }
  | { readonly kind: 'show'; readonly id: string }
  | { readonly kind: 'act'; readonly host: FleetHost; readonly action: HostAction }

export function FleetHosts() {
  const { q = '', state } = route.useSearch()
  const navigate = route.useNavigate()
  const pages = usePages(JSON.stringify([q, state]))
  const query = { limit: PAGE_ROWS, cursor: pages.cursor, q: optionalText(q), state }
  const hosts = useCall('listHosts', { query }, { everyMs: EVERY_MS, keepsLast: true })
  const [open, setOpen] = useState<Open | undefined>()
  const columns = columnsOf(useNow(), (host) => setOpen({ kind: 'show', id: host.id }))
  const shown = open?.kind === 'show' ? hosts.data?.hosts.find((host) => host.id === open.id) : undefined
  const close = (): void => setOpen(undefined)
  return (
    <div className="flex flex-col gap-4">
      <div className="flex flex-wrap items-end gap-3" role="search" aria-label="Hosts">
        <TextField
          className="min-w-48 flex-1"
          label="Search"
          placeholder="Name, cluster or region"
          value={q}
          onChange={(event) =>
            void navigate({ search: (before) => ({ ...before, q: event.target.value || undefined }), replace: true })
          }
        />
        <SelectField
          className="min-w-40"
          label="State"
          choices={[
            { value: '', label: 'Any' },
            ...states.map((value) => ({ value, label: hostStateLabels[value][0] })),
          ]}
          value={state ?? ''}
          onChange={(event) => {
            const chosen = states.find((one) => one === event.target.value)
            void navigate({ search: (before) => ({ ...before, state: chosen }), replace: true })
          }}
        />
        <ButtonLink to="/supply/join">Join a machine</ButtonLink>
        <Button look="primary" onClick={() => setOpen({ kind: 'add' })}>
          Add bare metal
        </Button>
      </div>
      <Answer of={hosts} skeleton={<Skeleton rows={6} />}>
        {({ hosts: rows, nextCursor }) => (
          <>
            <Table
              label="Hosts"
              columns={columns}
              rows={rows}
              rowKey={(host) => host.id}
              empty={<NoHost isFiltered={query.q !== undefined || state !== undefined} />}
            />
            <Pager pages={pages} nextCursor={nextCursor} />
          </>
        )}
      </Answer>
      {open?.kind === 'add' && <HostForm onClose={close} />}
      {shown !== undefined && (
        <HostDialog host={shown} onAct={(action) => setOpen({ kind: 'act', host: shown, action })} onClose={close} />
      )}
      {open?.kind === 'act' && <HostActionDialog host={open.host} action={open.action} onClose={close} />}
    </div>
  )
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

function columnsOf(now: number, show: (host: FleetHost) => void): ReadonlyArray<Column<FleetHost>> {
  return [
    {
      name: 'id',
      header: 'Host',
      cell: (host) => (
        <div>
          <div className="font-medium">{host.id}</div>
          <div className="text-muted">
            {gpusLabel(host.gpusTotal, gpuLabel(host.gpuModel))}
            {host.simulated && ' (simulated)'}
          </div>
        </div>
      ),
    },
    { name: 'state', header: 'State', cell: (host) => <HostBadge state={host.state} /> },
    {
      name: 'seen',
      header: 'Last seen',
      cell: (host) => <LastSeen host={host} now={now} />,
    },
    { name: 'access', header: 'Access', wideOnly: true, cell: (host) => accessLabel(host) },
    { name: 'tenants', header: 'Tenants', align: 'right', cell: (host) => host.tenants },
    { name: 'load', header: 'Load', wideOnly: true, cell: (host) => loadLabel(host) },
    {
      name: 'supplier',
      header: 'Supplier',
      wideOnly: true,
      cell: (host) => <span className="whitespace-nowrap">{host.supplierName ?? 'Operator'}</span>,
    },
    {
      name: 'open',
      header: <span className="sr-only">Manage</span>,
      align: 'right',
      cell: (host) => (
        <Button look="quiet" aria-label={`Manage ${host.id}`} onClick={() => show(host)}>
          Manage
        </Button>
      ),
    },
  ]
}

function LastSeen({ host, now }: { host: FleetHost; now: number }) {
  if (host.state === 'left') return <span className="text-muted">—</span>
  return (
    <span className="whitespace-nowrap">
      {host.seenAt === null ? 'never' : relativeTime(host.seenAt, now)}{' '}
      {host.isSilent && <Badge tone="bad">offline</Badge>}
      {host.fault !== null && <Badge tone="bad">fault</Badge>}
    </span>
  )
}

function accessLabel({ address }: FleetHost): string {
  if (address === null) return 'agent'
  return `SSH, ${address.hostname}:${address.sshPort}`
}

/** Shows the busiest GPU. */
function loadLabel({ metrics, state }: FleetHost): string {
  if (metrics === null || state === 'left') return '—'
  const most = (values: ReadonlyArray<number | null>): number | undefined => {
    const known = values.filter((value) => value !== null)
    return known.length === 0 ? undefined : Math.max(...known)
  }
  const busy = most(metrics.gpus.map((gpu) => gpu.utilizationPercent))
  const hot = most(metrics.gpus.map((gpu) => gpu.temperatureCelsius))
  return [
    busy === undefined ? [] : `GPU ${Math.round(busy)}%`,
    hot === undefined ? [] : `${Math.round(hot)} °C`,
    metrics.cpuPercent === null ? [] : `CPU ${Math.round(metrics.cpuPercent)}%`,
  ]
    .flat()
    .join(', ')
}
