/** One job: its state and cost, the log of its command, its output and attempts, or the tasks of its array. */
import { getRouteApi } from '@tanstack/react-router'
import { endedTasks, jobLabel, type Job } from '../../../src/view/job.ts'
import { number } from '../../../src/view/number.ts'
import { localTime } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { LabelBadge } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Card, Code, Facts, Stats } from '../../ui/card.tsx'
import { Money } from '../../ui/money.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Progress } from '../../ui/progress.tsx'
import { CancelJob } from './parts.tsx'
import { TaskDetails } from './task.tsx'
import { Tasks } from './tasks.tsx'

const route = getRouteApi('/shell/jobs/$id')

/** The place in the queue and the cost change without events. */
const EVERY_MS = 3_000

export function JobPage() {
  const { id } = route.useParams()
  const job = useCall('getJob', { params: { id } }, { everyMs: EVERY_MS })
  return (
    <Page title={job.data?.name ?? id} {...(job.data === undefined ? {} : { actions: <CancelJob job={job.data} /> })}>
      <Answer of={job}>{(one) => <OneJob job={one} />}</Answer>
    </Page>
  )
}

function OneJob({ job }: { job: Job }) {
  const { waiting, place, tasks, task } = job
  return (
    <>
      {waiting !== null && waiting.reason !== 'parallel_limit' && (
        <Notice tone="info">
          {waiting.message} {place !== null && `It is number ${number(place)} in the queue.`}
        </Notice>
      )}
      <Stats
        stats={[
          ['State', <LabelBadge key="state" of={jobLabel(job.state)} />, task?.message ?? undefined],
          tasks === 1
            ? ['Exit code', task?.exitCode?.toString() ?? '—']
            : [
                'Tasks',
                `${number(endedTasks(job))} of ${number(tasks)}`,
                <Progress key="bar" label="Progress" value={endedTasks(job)} max={tasks} />,
              ],
          ['Cost', <Money key="cost" usd={job.costUsd} />],
          ['Attempts', task === null ? '—' : number(task.attempts.length)],
        ]}
      />
      {task === null ? <Tasks job={job} /> : <TaskDetails job={job} task={task} />}
      <Card title="Order">
        <Facts facts={factsOf(job)} />
      </Card>
    </>
  )
}

function factsOf(job: Job) {
  const { model, minMemoryGb, count: gpus, region, machineId } = job.gpus
  const command = [...(job.command ?? []), ...(job.args ?? [])].join(' ')
  return [
    ['Id', <Code key="id" text={job.id} />],
    ['Image', <Code key="image" text={job.image} />],
    ['Command', command !== '' && <Code key="command" text={command} />],
    ['GPUs', `${gpus} × ${model ?? 'any'}${minMemoryGb === undefined ? '' : ` with ${minMemoryGb} GB`}`],
    ['Region', region],
    ['Machine', machineId],
    ['Time limit', `${number(job.timeoutSeconds)} s`],
    ['Maximum cost', job.maxCostUsd !== null && <Money key="max" usd={job.maxCostUsd} />],
    ['Retries', job.retries > 0 && number(job.retries)],
    ['Tasks at a time', job.tasks > 1 && number(job.parallel)],
    ['Priority', job.priority !== 0 && number(job.priority)],
    ['Created', localTime(job.createdAt)],
    ['Ended', job.endedAt !== null && localTime(job.endedAt)],
    ['Deleted after', job.deletedAfter !== null && localTime(job.deletedAfter)],
  ] as const
}
