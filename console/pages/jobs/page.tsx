/** Jobs: commands that run once on the cheapest GPUs, and the dialog that orders one. */
import { endedTasks, jobLabel, type JobSummary } from '../../../src/view/job.ts'
import { number } from '../../../src/view/number.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { actionsColumn, agoColumn, badgeColumn, moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Button, ButtonLink, TextLink } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Progress } from '../../ui/progress.tsx'
import { CancelJob } from '../job/parts.tsx'
import { RunDialog } from './run.tsx'

const ROWS = 50

export function JobsPage() {
  const disabledReason = useMay('compute:write') ? undefined : missingScope('compute:write')
  const dialog = useDialog()
  const run = (
    <Button
      look="primary"
      disabledReason={disabledReason}
      onClick={() => dialog.open((close) => <RunDialog onClose={close} />)}
    >
      Run a job
    </Button>
  )
  return (
    <Page
      intro="Commands that run once on the cheapest GPUs that fit. You pay while they run; their output is kept for 30 days."
      actions={
        <>
          <ButtonLink to="/jobs/schedules">Schedules</ButtonLink>
          {run}
        </>
      }
    >
      <PagedTable
        label="Jobs"
        call="listJobs"
        pageRows={ROWS}
        rows={({ jobs }) => jobs}
        rowKey="id"
        columns={columns}
        empty={
          <Empty title="No jobs yet" action={run}>
            With the command line: <code className="font-mono">berth run --gpu 24gb --image IMAGE -- COMMAND</code>
          </Empty>
        }
      />
      {dialog.shown}
    </Page>
  )
}

const columns: Columns<JobSummary> = [
  textColumn('Job', ({ id, name }) => (
    <TextLink to="/jobs/$id" params={{ id }} className="break-all">
      {name ?? id}
    </TextLink>
  )),
  badgeColumn('State', ({ state, waiting }) => {
    const [label, tone] = jobLabel(state)
    return { label, tone, hint: waiting?.message }
  }),
  textColumn('Tasks', (job) => <Tasks job={job} />),
  textColumn('Image', 'image', { className: 'break-all', wideOnly: true }),
  moneyColumn('Cost', 'costUsd'),
  agoColumn('Created', 'createdAt', { wideOnly: true }),
  actionsColumn((job) => <CancelJob job={job} />),
]

function Tasks({ job }: { job: JobSummary }) {
  if (job.tasks === 1) return '1'
  const ended = endedTasks(job)
  return (
    <div className="flex min-w-28 flex-col gap-1">
      <span className="tabular-nums">
        {number(ended)} of {number(job.tasks)}
        {job.counts.failed > 0 && <span className="text-bad">, {number(job.counts.failed)} failed</span>}
      </span>
      {job.endedAt === null && <Progress label={`Progress of ${job.name ?? job.id}`} value={ended} max={job.tasks} />}
    </div>
  )
}
