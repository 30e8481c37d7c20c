/** Lists of hosts: a supplier's own, and all. */
import type { Reply } from '../../client/client.ts'
import { hostStateLabels } from '../../view/host.ts'
import { count, gigabytesOf } from '../../view/number.ts'
import { utcTime } from '../../view/time.ts'
import type { Columns } from '../kit/record.ts'
import { red, toned, type Cell } from '../kit/screen.ts'

export type Host = Reply<'listSuppliedHosts'>['hosts'][number]

export const hostColumns: Columns<Host> = [
  'id:HOST',
  { STATE: stateCell },
  'offering',
  'region',
  'clusterName:CLUSTER',
  { GPUS: (host) => `${host.gpusTotal} ${host.gpuModel}` },
  'tenants',
  { WEIGHTS: weightsOf },
  { 'LAST SEEN': (host) => utcTime(host.seenAt) || 'never' },
  'agentVersion:AGENT',
  { NOTES: notesOf },
]

function stateCell(host: Host): Cell {
  const [label, tone] = hostStateLabels[host.state]
  if (host.isSilent && host.state !== 'left') return red(`${label}, offline`)
  return host.fault === null ? toned(tone, label) : red(`${label}, faulty`)
}

/** The used and allowed size of the cache for model weights. */
function weightsOf({ metrics }: Host): string {
  const weights = metrics?.weights
  return weights === undefined ? '' : gigabytesOf(weights.usedGb, weights.budgetGb)
}

function notesOf(host: Host): string {
  return [
    ...(host.stateReason === null ? [] : [host.stateReason]),
    ...(host.fault === null ? [] : [host.fault.message]),
    ...(host.simulated ? ['simulated GPUs'] : []),
    ...(host.gpusSick.length === 0 ? [] : [`faulty GPUs: ${host.gpusSick.join(', ')}`]),
    ...host.notes,
  ].join('; ')
}

/** `, with 2 tenants`; empty where there are none. */
export function tenants(host: Host): string {
  return host.tenants === 0 ? '' : `, with ${count(host.tenants, 'tenant')}`
}
