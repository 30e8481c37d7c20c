/** Batches: files of requests that are answered on idle capacity, and the dialog that starts one. */
import {
  batchShare,
  batchStatusLabels,
  batchWaitLabels,
  hasBatchEnded,
  linesDone,
  type Batch,
} from '../../../src/view/batch.ts'
import { timeOfSeconds } from '../../../src/view/time.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { actionsColumn, agoColumn, badgeColumn, moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Progress } from '../../ui/progress.tsx'
import { BatchActions } from '../batch/parts.tsx'
import { RunDialog } from './run.tsx'

const ROWS = 50
/** Batches raise no events. */
const EVERY_MS = 3_000

export function BatchesPage() {
  const disabledReason = useMay('inference') ? undefined : missingScope('inference')
  const dialog = useDialog()
  const run = (
    <Button
      look="primary"
      disabledReason={disabledReason}
      onClick={() => dialog.open((close) => <RunDialog onClose={close} />)}
    >
      Run a batch
    </Button>
  )
  return (
    <Page
      intro="Files of requests, answered within a day on idle capacity, at the batch price of the model."
      actions={run}
    >
      <PagedTable
        label="Batches"
        call="listBatches"
        cursorField="after"
        everyMs={EVERY_MS}
        pageRows={ROWS}
        rows={({ data }) => data}
        rowKey="id"
        columns={columns}
        empty={
          <Empty title="No batches yet" action={run}>
            Upload a file with one request per line. Its answers are kept for 30 days.
          </Empty>
        }
      />
      {dialog.shown}
    </Page>
  )
}

const columns: Columns<Batch> = [
  textColumn('Batch', ({ id }) => (
    <TextLink to="/batches/$id" params={{ id }} className="font-mono whitespace-nowrap">
      {id}
    </TextLink>
  )),
  badgeColumn('Status', ({ status, waiting_for: wait }) => {
    const [label, tone] = batchStatusLabels[status]
    return { label, tone, hint: wait === null ? undefined : `Waits for ${batchWaitLabels[wait]}` }
  }),
  textColumn('Progress', (batch) => <Lines batch={batch} />),
  textColumn('Model', 'model', { className: 'break-all', wideOnly: true }),
  moneyColumn('Cost', 'cost_usd'),
  agoColumn('Created', ({ created_at: at }) => timeOfSeconds(at), { wideOnly: true }),
  actionsColumn((batch) => <BatchActions batch={batch} />),
]

function Lines({ batch }: { batch: Batch }) {
  const { failed, total } = batch.request_counts
  if (total === 0) return '—'
  return (
    <div className="flex min-w-28 flex-col gap-1">
      <span className="tabular-nums">
        {linesDone(batch)}
        {failed > 0 && <span className="text-bad">, {failed} failed</span>}
      </span>
      {!hasBatchEnded(batch) && <Progress label={`Progress of ${batch.id}`} value={batchShare(batch)} max={1} />}
    </div>
  )
}
