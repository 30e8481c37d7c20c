/** Lists of hosts: a supplier's own, and all. */
import { count } from '../view/number.ts'
import { utcTime } from '../view/time.ts'
import type { Reply } from '../client/client.ts'
import type { ListColumn } from './row.ts'
import { printable, type Cell } from './screen.ts'

export type Host = Reply<'listSuppliedHosts'>['hosts'][number]

export const hostColumns: ReadonlyArray<ListColumn<Host, undefined>> = [
  { title: 'HOST', of: (host) => host.id },
  { title: 'STATE', of: stateCell },
  { title: 'OFFERING', of: (host) => host.offering },
  { title: 'REGION', of: (host) => host.region },
  { title: 'CLUSTER', of: (host) => host.clusterName },
  { title: 'GPUS', of: (host) => `${host.gpusTotal} ${host.gpuModel}` },
  { title: 'TENANTS', right: true, of: (host) => String(host.tenants) },
  { title: 'LAST SEEN', of: (host) => utcTime(host.seenAt) || 'never' },
  { title: 'AGENT', of: (host) => host.agentVersion ?? '' },
  { title: 'NOTES', of: notesOf },
]

function stateCell(host: Host): Cell {
  const isOffline = host.isSilent && host.state !== 'left'
  const text = isOffline ? `${host.state}, offline` : host.fault === null ? host.state : `${host.state}, faulty`
  if (isOffline || host.fault !== null || host.state === 'quarantined') return { text, style: 'red' }
  return { text, style: host.state === 'ready' ? 'green' : 'yellow' }
}

function notesOf(host: Host): string {
  return [
    ...(host.stateReason === null ? [] : [host.stateReason]),
    ...(host.fault === null ? [] : [host.fault.message]),
    ...(host.simulated ? ['simulated GPUs'] : []),
    ...(host.gpusSick.length === 0 ? [] : [`faulty GPUs: ${host.gpusSick.join(', ')}`]),
    ...host.notes,
  ]
    .map(printable)
    .join('; ')
}

/** `, with 2 tenants`; empty where there are none. */
export function tenants(host: Host): string {
  return host.tenants === 0 ? '' : `, with ${count(host.tenants, 'tenant')}`
}
