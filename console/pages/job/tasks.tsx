/** The tasks of an array, and details of the selected one. */
import { getRouteApi } from '@tanstack/react-router'
import { jobLabel, outputText, type Job, type JobTask } from '../../../src/view/job.ts'
import { number } from '../../../src/view/number.ts'
import { useCall } from '../../api/query.ts'
import { badgeColumn, numberColumn, textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Answer } from '../../ui/answer.tsx'
import { TextLink } from '../../ui/button.tsx'
import { Card, Section } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { TaskDetails } from './task.tsx'

const route = getRouteApi('/shell/jobs/$id')

/** The cost changes without events. */
const EVERY_MS = 3_000
const ROWS = 50

export function Tasks({ job }: { job: Job }) {
  const { task: index } = route.useSearch()
  const columns: Columns<JobTask> = [
    textColumn('Task', ({ index: one }) => (
      <TextLink to="/jobs/$id" params={{ id: job.id }} search={{ task: one }} aria-label={`Task ${one}`}>
        {number(one)}
      </TextLink>
    )),
    ...taskColumns,
  ]
  return (
    <>
      <Section title="Tasks">
        <PagedTable
          label="Tasks"
          call="listJobTasks"
          params={{ id: job.id }}
          pageRows={ROWS}
          everyMs={EVERY_MS}
          rows={({ tasks }) => tasks}
          rowKey={(task) => String(task.index)}
          columns={columns}
          empty={<Empty title="No tasks" />}
        />
      </Section>
      {index !== undefined && <ChosenTask job={job} index={index} />}
    </>
  )
}

const taskColumns: Columns<JobTask> = [
  badgeColumn('State', ({ state, message }) => {
    const [label, tone] = jobLabel(state)
    return { label, tone, hint: message ?? undefined }
  }),
  numberColumn('Exit code', 'exitCode'),
  numberColumn('Attempts', ({ attempts }) => attempts.length),
  textColumn('Output', ({ attempts }) => outputText(attempts.at(-1) ?? { output: null }) ?? null, { wideOnly: true }),
  timeColumn('Ended', 'endedAt', { wideOnly: true }),
]

function ChosenTask({ job, index }: { job: Job; index: number }) {
  const tasks = useCall('listJobTasks', { params: { id: job.id }, query: { index } }, { everyMs: EVERY_MS })
  return (
    <Card title={`Task ${index}`}>
      <div className="flex flex-col gap-4">
        <Answer of={tasks}>
          {({ tasks: [task] }) =>
            task === undefined ? <Empty title="No such task" /> : <TaskDetails job={job} task={task} />
          }
        </Answer>
      </div>
    </Card>
  )
}
