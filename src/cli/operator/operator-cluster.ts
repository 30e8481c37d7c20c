/** `berth operator clusters`: Kubernetes clusters, their nodes, and what they enforce. */
import type { Reply } from '../../client/client.ts'
import { count } from '../../view/number.ts'
import { tableOf } from '../kit/record.ts'
import { act, list } from '../kit/row.ts'
import type { Row } from '../kit/row-type.ts'
import { red, toned, type Cell } from '../kit/screen.ts'

type Cluster = Reply<'listClusters'>['clusters'][number]
type Check = Reply<'checkCluster'>['checks'][number]

/** Images may have to be pulled for the probes. */
const CHECK_MS = 260_000

const checkLabels = {
  pod_security: 'privileged containers are refused',
  quota: 'quota of an account',
  network_policy: 'accounts are apart on the network',
  secrets: 'Berth cannot read secrets',
  storage: 'volumes',
  weights_cache: 'weights once per node',
  pod_metrics: 'CPU and memory of rentals',
  gpu_metrics: 'GPU use of rentals',
  virtual_machines: 'virtual machines',
} as const satisfies Record<Check['check'], string>

const resultCells = {
  enforced: toned('good', 'enforced'),
  not_enforced: red('not enforced'),
  not_tried: toned('plain', 'not tried'),
  available: toned('good', 'available'),
  not_available: toned('plain', 'not available'),
} as const satisfies Record<Check['result'], Cell>

export const clusterRows: readonly Row[] = [
  list('operator clusters ls', 'listClusters', 'list Kubernetes clusters and whether they answer', {
    columns: [
      'name:CLUSTER',
      {
        STATUS: ({ reachable, error }) => (reachable ? toned('good', 'up') : red(error ?? 'down')),
        VERSION: ({ version }) => version ?? '',
        NODES: ({ nodes }) => `${nodes.filter(({ onSale }) => onSale).length} of ${nodes.length} on sale`,
        GPUS: ({ nodes }) => String(nodes.reduce((sum, { onSale, gpusTotal }) => sum + (onSale ? gpusTotal : 0), 0)),
      },
      'region',
    ],
    empty: 'To add clusters, name them in a file: BERTH_KUBERNETES=clusters.yaml berth serve',
    below: (clusters) => unsoldNodes(clusters),
    examples: ['berth operator clusters ls'],
  }),
  act('operator clusters check', 'checkCluster', 'find out by trying what a cluster enforces between tenants', {
    args: { '<name>': 'name, as shown by berth operator clusters ls' },
    flags: { image: 'image with sh and nc for the network check' },
    examples: ['berth operator clusters check lab --image busybox:1'],
    timeoutMs: CHECK_MS,
    isWrong: ({ ok }) => !ok,
    done: ({ ok, checks }) => [
      tableOf(checks, [
        { CHECK: ({ check }) => checkLabels[check], RESULT: ({ result }) => resultCells[result] },
        'detail',
      ]),
      '',
      ok
        ? toned('good', 'Tenants of this cluster are apart.')
        : red(
            `${count(checks.filter(({ result }) => result === 'not_enforced' || result === 'not_tried').length, 'check')} not passed.`,
          ),
    ],
  }),
]

function unsoldNodes(clusters: readonly Cluster[]): string[] {
  const nodes = clusters.flatMap(({ name, nodes }) => nodes.map((node) => ({ cluster: name, ...node })))
  // Nodes without GPUs are never sold, which is no news.
  const unsold = nodes.filter(({ onSale, gpusTotal }) => !onSale && gpusTotal > 0)
  return [
    ...unsold.map(({ cluster, name, reason }) => `${cluster}: ${name} is not on sale: ${reason ?? ''}`),
    ...nodes.flatMap(({ cluster, name, unsoldReason }) =>
      unsoldReason === null ? [] : [`${cluster}: free GPUs of ${name} are not sold: ${unsoldReason}`],
    ),
  ]
}
