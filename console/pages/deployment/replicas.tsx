/** The replicas of a deployment: their state, the phases of their cold start, and why they failed. */
import {
  coldStartText,
  replicaLabel,
  replicaReason,
  type ManagedDeployment,
  type Replica,
} from '../../../src/view/deployment.ts'
import { shortGpuLabel } from '../../../src/view/gpu.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { localTime } from '../../../src/view/time.ts'
import { agoColumn, badgeColumn, numberColumn, textColumn, type Columns } from '../../list/column.tsx'
import { TextLink } from '../../ui/button.tsx'
import { Section } from '../../ui/card.tsx'
import { Table } from '../../ui/table.tsx'

const MAX_ROWS = 20
const MAX_FAILED = 3

export function Replicas({ deployment: { replicas, settings } }: { deployment: ManagedDeployment }) {
  return (
    <Table
      label="Replicas"
      columns={columns}
      rows={replicas.slice(0, MAX_ROWS)}
      rowKey="id"
      empty={
        settings.replicas.max === 0
          ? 'Paused. Allow at least one replica to serve requests.'
          : 'None. The first request starts one.'
      }
    />
  )
}

const columns: Columns<Replica> = [
  textColumn('Replica', ({ id, rentalName }) => (
    <TextLink to="/rentals/$id" params={{ id: rentalName }} title={id}>
      {rentalName}
    </TextLink>
  )),
  badgeColumn('State', replicaLabel),
  numberColumn('Version', 'version', { wideOnly: true }),
  textColumn('GPU', ({ gpuModel }) => (gpuModel === null ? null : shortGpuLabel(gpuModel)), { wideOnly: true }),
  numberColumn('Requests', 'inFlight'),
  textColumn('Cost', ({ costPerHourUsd }) => hourlyPrice(costPerHourUsd), { align: 'right' }),
  textColumn('Cold start', ({ coldStart }) => coldStartText(coldStart) || null, { wideOnly: true }),
  agoColumn('Since', ({ endedAt, readyAt, createdAt }) => endedAt ?? readyAt ?? createdAt),
  textColumn('Why', (replica) => explain(replica), { wideOnly: true }),
]

/** Says why a replica is in its state. The output of a failed start is shown below the table instead. */
function explain({ state, reason, detail }: Replica): string | null {
  if (reason !== null) return replicaReason(reason)
  return state === 'starting' ? detail : null
}

export function FailedReplicas({ deployment: { replicas } }: { deployment: ManagedDeployment }) {
  const failed = replicas.filter(
    ({ state, readyAt, detail }) => state === 'ended' && readyAt === null && detail !== null,
  )
  if (failed.length === 0) return null
  return (
    <Section title="Last output of failed replicas">
      {failed.slice(0, MAX_FAILED).map(({ id, version, endedAt, detail, rentalName }) => (
        <details key={id} className="rounded-lg border border-line bg-surface" open={id === failed[0]?.id}>
          <summary className="cursor-pointer px-4 py-2 text-sm font-medium">
            {rentalName}, version {version}
            {endedAt === null ? '' : `, ${localTime(endedAt)}`}
          </summary>
          <pre
            tabIndex={0}
            aria-label={`Output of ${rentalName}`}
            className="max-h-72 overflow-auto border-t border-line px-4 py-3 text-xs whitespace-pre-wrap break-all"
          >
            {detail}
          </pre>
        </details>
      ))}
    </Section>
  )
}
