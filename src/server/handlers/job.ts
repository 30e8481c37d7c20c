/** Jobs over HTTP. */
import type { App } from '../../app/app.ts'
import { createOnce } from '../../app/idempotency.ts'
import { cancelJob, createJob, findOwnJob, imageText } from '../../app/job/job.ts'
import { addMs, DAY_MS, SECOND_MS } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { usd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { jobGpus } from '../../contract/job.ts'
import { ok, type Result } from '../../contract/result.ts'
import { rentalOutcomes } from '../../contract/rental-outcome.ts'
import { transact, type Db } from '../../store/platform/database.ts'
import { listAttempts, readAttemptCosts, readJobCosts, type AttemptRow } from '../../store/job/attempt.ts'
import { findJob, listJobs, listTasks, type Job, type JobTask } from '../../store/job/job.ts'
import { readPlace } from '../../store/job/queue.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'

type JobOnWire = ResponseOf<Api['getJob']>
type TaskOnWire = ResponseOf<Api['listJobTasks']>['tasks'][number]
type AttemptOnWire = TaskOnWire['attempts'][number]

export const jobHandlers = {
  createJob: async (app, { actor, body, operation, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: body }, async (tx) => {
      const job = await createJob(app, tx, actor, body)
      return job.ok ? ok(await describeJob(app, tx.db, job.value)) : job
    }),

  listJobs: async (app, { actor, query }) => {
    const { db } = app.database
    const id = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    const before = id === undefined ? undefined : await findJob(db, id)
    if (query.cursor !== undefined && before?.account_id !== actor.accountId) return badCursor()
    const jobs = await listJobs(db, {
      accountId: actor.accountId,
      state: query.state,
      before,
      limit: rowsToAsk(query.limit),
    })
    const { rows, nextCursor } = pageOf(jobs, query.limit, (job) => job.id)
    const costs = await readJobCosts(db, idsOf(rows), app.clock.now())
    return ok({ jobs: rows.map((job) => summaryOnWire(job, costs.get(job.id) ?? zeroUsd)), nextCursor })
  },

  getJob: async (app, { actor, params }) => answerJob(app, await findOwnJob(app.database.db, actor, params.id)),

  listJobTasks: async (app, { actor, params, query }) => {
    const { db } = app.database
    const job = await findOwnJob(db, actor, params.id)
    if (!job.ok) return job
    const text = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && !/^\d{1,6}$/.test(text ?? '')) return badCursor()
    const after = text === undefined ? undefined : Number.parseInt(text, 10)
    const tasks = await listTasks(db, job.value.id, { task: query.index, after, limit: rowsToAsk(query.limit) })
    const { rows, nextCursor } = pageOf(tasks, query.limit, ({ task }) => task)
    return ok({ tasks: await describeTasks(app, db, job.value, rows), nextCursor })
  },

  cancelJob: async (app, { actor, params }) =>
    answerJob(app, await transact(app.database, (tx) => cancelJob(tx, actor, params.id))),
} satisfies Partial<Handlers>

async function answerJob(app: App, job: Result<Job>): Promise<Result<JobOnWire>> {
  return job.ok ? ok(await describeJob(app, app.database.db, job.value)) : job
}

function idsOf(jobs: readonly Job[]): string[] {
  return jobs.map(({ id }) => id)
}

function summaryOnWire(job: Job, cost: NanoUsd) {
  return {
    id: job.id,
    name: job.name,
    state: job.state,
    image: imageText(job.spec),
    gpus: jobGpus.parse(job.spec.gpus),
    tasks: job.tasks,
    counts: {
      queued: job.queued,
      starting: job.starting,
      running: job.running,
      succeeded: job.succeeded,
      failed: job.failed,
      cancelled: job.cancelled,
      timedOut: job.timed_out,
    },
    priority: job.priority,
    costUsd: cost,
    createdAt: job.created_at,
    endedAt: job.ended_at,
    waiting: waitingOf(job),
  }
}

/** Why its next task does not start. */
function waitingOf(job: Job): JobOnWire['waiting'] {
  if (job.queued === 0) return null
  if (job.starting + job.running >= job.parallel)
    return { reason: 'parallel_limit', message: `At most ${job.parallel} of its tasks run at a time.` }
  if (job.blocked_reason !== null) return { reason: job.blocked_reason, message: job.blocked_detail ?? '' }
  return { reason: 'turn', message: 'Its turn has not come yet.' }
}

async function describeJob(app: App, db: Db, job: Job): Promise<JobOnWire> {
  const now = app.clock.now()
  const costs = await readJobCosts(db, [job.id], now)
  const tasks = job.tasks === 1 ? await describeTasks(app, db, job, await listTasks(db, job.id, { limit: 1 })) : []
  const { spec } = job
  return {
    ...summaryOnWire(job, costs.get(job.id) ?? zeroUsd),
    command: spec.command ?? null,
    args: spec.args ?? null,
    parallel: job.parallel,
    maxCostUsd: job.max_cost_nano,
    maxPricePerHourUsd: spec.maxPricePerHourUsd === undefined ? null : usd(spec.maxPricePerHourUsd),
    timeoutSeconds: Number(job.timeout_ms) / SECOND_MS,
    retries: job.retries,
    place: job.queued === 0 ? null : await readPlace(db, job),
    cancelRequestedAt: job.cancel_requested_at,
    deletedAfter: job.ended_at === null ? null : addMs(job.ended_at, limits.jobDays * DAY_MS),
    task: tasks[0] ?? null,
  }
}

async function describeTasks(app: App, db: Db, job: Job, tasks: readonly JobTask[]): Promise<TaskOnWire[]> {
  const attempts = await listAttempts(
    db,
    job.id,
    tasks.map(({ task }) => task),
  )
  const rentalIds = attempts.map(({ rental_id }) => rental_id)
  const costs = await readAttemptCosts(db, rentalIds, app.clock.now())
  return tasks.map((task) => ({
    index: task.task,
    state: task.state,
    reason: task.reason,
    message: task.reason === null ? null : sentenceOf(task.reason),
    exitCode: task.exit_code,
    restarts: task.restarts,
    failures: task.failures,
    startedAt: task.started_at,
    endedAt: task.ended_at,
    attempts: attempts
      .filter((one) => one.task === task.task)
      .map((one) => attemptOnWire(one, costs.get(one.rental_id) ?? zeroUsd)),
  }))
}

function sentenceOf(reason: string): string {
  const outcomes: Readonly<Record<string, { readonly sentence: string }>> = rentalOutcomes
  return ownSentences[reason] ?? outcomes[reason]?.sentence ?? reason
}

const ownSentences: Readonly<Record<string, string>> = {
  completed: 'Its command succeeded.',
  process_exited: 'Its command failed.',
  auto_terminate: 'It ran for as long as `timeoutSeconds` allows.',
  max_cost: 'It reached its `maxCostUsd`.',
}

function attemptOnWire(attempt: AttemptRow, cost: NanoUsd): AttemptOnWire {
  return {
    number: attempt.number,
    rentalId: attempt.rental_id,
    rentalName: attempt.rental_name,
    machineId: attempt.machine_id,
    createdAt: attempt.created_at,
    startedAt: attempt.rental_started_at,
    endedAt: attempt.ended_at,
    outcome: attempt.outcome,
    reason: attempt.reason,
    exitCode: attempt.rental_exit_code,
    costUsd: cost,
    output: attempt.output,
    outputExpiresAt: attempt.file_id === null ? null : attempt.file_expires_at,
    result: attempt.result ?? null,
  }
}
