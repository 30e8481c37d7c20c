/** Kubernetes clusters: whether they answer, which of their nodes are on sale, and what they enforce between tenants. */
import type { Reply } from '../../../src/client/client.ts'
import { count, number } from '../../../src/view/number.ts'
import { useAction, useCall } from '../../api/query.ts'
import { badgeColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

type Cluster = Reply<'listClusters'>['clusters'][number]
type Node = Cluster['nodes'][number]
type Check = Reply<'checkCluster'>['checks'][number]

const EVERY_MS = 30_000
/** Images may have to be pulled for the probes. */
const CHECK_MS = 260_000

export function FleetClusters() {
  const clusters = useCall('listClusters', undefined, { everyMs: EVERY_MS })
  return (
    <Answer of={clusters} skeleton={<Skeleton rows={4} />}>
      {(reply) =>
        reply.clusters.length === 0 ? (
          <Empty title="No clusters">
            Name your Kubernetes clusters in a file, and start the server with BERTH_KUBERNETES and the engine
            kubernetes in BERTH_DRIVERS.
          </Empty>
        ) : (
          <div className="flex flex-col gap-4">
            {reply.clusters.map((cluster) => (
              <ClusterCard key={cluster.name} cluster={cluster} />
            ))}
          </div>
        )
      }
    </Answer>
  )
}

function ClusterCard({ cluster: { name, region, reachable, error, version, nodes } }: { cluster: Cluster }) {
  const check = useAction('checkCluster')
  const onSale = nodes.filter((node) => node.onSale)
  const gpus = onSale.reduce((sum, { gpusTotal, gpusUnsold }) => sum + gpusTotal - gpusUnsold, 0)
  return (
    <Card
      title={name}
      actions={
        <Button
          busy={check.isPending}
          disabledReason={reachable ? undefined : 'The cluster does not answer'}
          aria-label={`Check ${name}`}
          onClick={() => check.mutate({ params: { name }, body: {}, timeoutMs: CHECK_MS })}
        >
          Check
        </Button>
      }
    >
      <div className="flex flex-col gap-4">
        <div className="flex flex-wrap items-center gap-3 text-sm">
          <Badge tone={reachable ? 'good' : 'bad'}>{reachable ? 'answers' : 'does not answer'}</Badge>
          <span className="text-muted">
            {region}
            {version !== null && `, Kubernetes ${version}`}, {number(onSale.length)} of {count(nodes.length, 'node')} on
            sale with {count(gpus, 'GPU')}
          </span>
        </div>
        {error !== null && <Notice tone="warn">{error}</Notice>}
        {nodes.length > 0 && (
          <Table label={`Nodes of ${name}`} columns={nodeColumns} rows={nodes} rowKey="name" empty={null} />
        )}
        {check.isPending && (
          <p role="status" className="text-sm text-muted">
            Probes start on the cluster. This takes up to four minutes when their image has to be downloaded.
          </p>
        )}
        {check.error !== null && <ErrorNotice error={check.error} />}
        {check.data !== undefined && (
          <div className="flex flex-col gap-2">
            <p className="text-sm font-medium">
              {check.data.ok ? 'Tenants are apart.' : 'Tenants are not apart: do not sell this cluster to others.'}
            </p>
            <Table
              label={`Checks of ${name}`}
              columns={checkColumns}
              rows={check.data.checks}
              rowKey="check"
              empty={null}
            />
          </div>
        )}
      </div>
    </Card>
  )
}

const nodeColumns: Columns<Node> = [
  textColumn('Node', ({ name, machineId }) => <span title={`Machine ${machineId}`}>{name}</span>),
  badgeColumn('Status', ({ onSale, reason, unsoldReason }) => {
    if (!onSale) return { label: reason ?? 'not on sale', tone: 'plain' }
    return unsoldReason === null ? ['on sale', 'good'] : { label: unsoldReason, tone: 'warn' }
  }),
  textColumn('GPUs', ({ gpusTotal }) => number(gpusTotal), { align: 'right' }),
  textColumn('Not for sale', ({ gpusUnsold }) => (gpusUnsold === 0 ? '—' : number(gpusUnsold)), { align: 'right' }),
]

const checkNames = {
  pod_security: 'Privileged containers are refused',
  quota: 'Quota of an account',
  network_policy: 'Accounts are apart on the network',
  secrets: 'Berth cannot read secrets',
  storage: 'Volumes',
  weights_cache: 'Weights once per node',
  pod_metrics: 'CPU and memory of rentals',
  gpu_metrics: 'GPU use of rentals',
  virtual_machines: 'Virtual machines',
} as const satisfies Record<Check['check'], string>

const resultLabels = {
  enforced: ['enforced', 'good'],
  not_enforced: ['not enforced', 'bad'],
  not_tried: ['not tried', 'plain'],
  available: ['available', 'good'],
  not_available: ['not available', 'plain'],
} as const satisfies Record<Check['result'], readonly [string, 'good' | 'bad' | 'plain']>

const checkColumns: Columns<Check> = [
  textColumn('Check', ({ check }) => checkNames[check]),
  badgeColumn('Result', ({ result }) => resultLabels[result]),
  textColumn('Detail', 'detail'),
]
