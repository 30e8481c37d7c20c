/** Jobs and their tasks. Attempts are in store/job/attempt.ts, the order in which tasks start in store/job/queue.ts. */
import { sql, type Selectable } from 'kysely'
import { addMs, DAY_MS, toDate, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import { jobSpec, type JobSpec } from '../../contract/job.ts'
import { jobStateOf, type JobCounts, type JobState } from '../../contract/job-state.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import { withDefaults } from '../platform/stored-json.ts'
import type { Tables } from '../platform/tables.ts'

export type Job = Selectable<Tables['job']>
export type JobTask = Selectable<Tables['job_task']>

/** Wakes the loop that runs jobs. */
export const JOBS_WAKE = 'jobs'

export interface NewJob {
  readonly id: string
  readonly accountId: string
  readonly personId: string
  readonly keyId: string
  readonly name: string | null
  readonly spec: JobSpec
  readonly demand: string
  readonly priority: number
  readonly tasks: number
  readonly parallel: number
  readonly maxCost: NanoUsd | null
  readonly timeoutMs: number
  readonly retries: number
}

export async function insertJob(tx: Tx, job: NewJob): Promise<Job> {
  const now = toDate(tx.clock.now())
  const row = await tx.db
    .insertInto('job')
    .values({
      id: job.id,
      account_id: job.accountId,
      person_id: job.personId,
      api_key_id: job.keyId,
      name: job.name,
      spec: JSON.stringify(job.spec),
      demand: job.demand,
      priority: job.priority,
      tasks: job.tasks,
      parallel: job.parallel,
      max_cost_nano: job.maxCost,
      timeout_ms: BigInt(job.timeoutMs),
      retries: job.retries,
      queued: job.tasks,
      due_at: now,
      created_at: now,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  await sql`insert into job_task (job_id, task) select ${job.id}, generate_series(0, ${job.tasks - 1}::integer)`.execute(
    tx.db,
  )
  tx.wake.add(JOBS_WAKE)
  return complete(row)
}

function complete(row: Job): Job {
  return { ...row, spec: withDefaults(jobSpec, row.spec) }
}

export async function findJob(db: Db, id: string): Promise<Job | undefined> {
  const row = await db.selectFrom('job').selectAll().where('id', '=', id).executeTakeFirst()
  return row && complete(row)
}

/** Serializes changes of a job, its tasks and attempts. Lock it before rentals and balances. */
export async function lockJob(tx: Tx, id: string): Promise<Job | undefined> {
  const row = await tx.db.selectFrom('job').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
  return row && complete(row)
}

/** Concurrent creates of one account take turns here, so that together they cannot exceed the limit. */
export async function countLivingJobs(tx: Tx, accountId: string): Promise<number> {
  await sql`select pg_advisory_xact_lock(hashtext('berth jobs'), hashtext(${accountId}))`.execute(tx.db)
  const { rows } = await sql<{ jobs: number }>`
    select count(*)::integer as jobs from job where account_id = ${accountId} and ended_at is null`.execute(tx.db)
  return rows[0]?.jobs ?? 0
}

export interface JobQuery {
  readonly accountId: string
  readonly state?: JobState | undefined
  /** The last job of the previous page. */
  readonly before?: Pick<Job, 'created_at' | 'id'> | undefined
  readonly limit: number
}

/** The newest come first. */
export async function listJobs(db: Db, { accountId, state, before, limit }: JobQuery): Promise<Job[]> {
  let jobs = db.selectFrom('job').selectAll().where('account_id', '=', accountId)
  if (state !== undefined) jobs = jobs.where('state', '=', state)
  if (before !== undefined) jobs = jobs.where(sql<boolean>`(created_at, id) < (${at(before.created_at)}, ${before.id})`)
  const rows = await jobs.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).execute()
  return rows.map(complete)
}

export async function listTasks(
  db: Db,
  jobId: string,
  query: { readonly task?: number | undefined; readonly after?: number | undefined; readonly limit: number },
): Promise<JobTask[]> {
  let tasks = db.selectFrom('job_task').selectAll().where('job_id', '=', jobId)
  if (query.task !== undefined) tasks = tasks.where('task', '=', query.task)
  if (query.after !== undefined) tasks = tasks.where('task', '>', query.after)
  return tasks.orderBy('task').limit(query.limit).execute()
}

export async function findTask(db: Db, jobId: string, task: number): Promise<JobTask | undefined> {
  return (await listTasks(db, jobId, { task, limit: 1 }))[0]
}

/** The next task of a locked job. */
export async function findQueuedTask(tx: Tx, jobId: string): Promise<JobTask | undefined> {
  return tx.db
    .selectFrom('job_task')
    .selectAll()
    .where('job_id', '=', jobId)
    .where('state', '=', 'Queued')
    .orderBy('task')
    .limit(1)
    .executeTakeFirst()
}

export interface TaskChange {
  readonly state: JobState
  readonly restarts?: number
  readonly failures?: number
  readonly ranMs?: number
  readonly exitCode?: number | null
  readonly reason?: string | null
  readonly startedAt?: Instant
}

/** Writes a task of a locked job. `countTasks` must follow. */
export async function updateTask(tx: Tx, { job_id, task }: JobTask, change: TaskChange, isEnd: boolean): Promise<void> {
  const { state, restarts, failures, ranMs, exitCode, reason, startedAt } = change
  await tx.db
    .updateTable('job_task')
    .set({
      state,
      restarts,
      failures,
      ran_ms: ranMs === undefined ? undefined : BigInt(Math.round(ranMs)),
      exit_code: exitCode,
      reason,
      ...(startedAt === undefined ? {} : { started_at: toDate(startedAt) }),
      ended_at: isEnd ? toDate(tx.clock.now()) : null,
    })
    .where('job_id', '=', job_id)
    .where('task', '=', task)
    .execute()
}

/** Ends all queued tasks of a locked job. */
export async function endQueuedTasks(
  tx: Tx,
  jobId: string,
  end: { readonly state: 'Cancelled' | 'Failed'; readonly reason: string },
): Promise<void> {
  await tx.db
    .updateTable('job_task')
    .set({ state: end.state, reason: end.reason, ended_at: toDate(tx.clock.now()) })
    .where('job_id', '=', jobId)
    .where('state', '=', 'Queued')
    .execute()
}

/** Counts the tasks of a locked job and updates its state accordingly. Returns the updated job. */
export async function countTasks(tx: Tx, job: Job): Promise<Job> {
  const { rows } = await sql<{ state: JobState; tasks: number }>`
    select state, count(*)::integer as tasks from job_task where job_id = ${job.id} group by state`.execute(tx.db)
  const of = (state: JobState): number => rows.find((row) => row.state === state)?.tasks ?? 0
  const counts: JobCounts = {
    Queued: of('Queued'),
    Starting: of('Starting'),
    Running: of('Running'),
    Succeeded: of('Succeeded'),
    Failed: of('Failed'),
    Cancelled: of('Cancelled'),
    TimedOut: of('TimedOut'),
  }
  const isLiving = counts.Queued + counts.Starting + counts.Running > 0
  const row = await tx.db
    .updateTable('job')
    .set({
      state: jobStateOf(counts),
      queued: counts.Queued,
      starting: counts.Starting,
      running: counts.Running,
      succeeded: counts.Succeeded,
      failed: counts.Failed,
      cancelled: counts.Cancelled,
      timed_out: counts.TimedOut,
      ended_at: isLiving ? null : toDate(tx.clock.now()),
    })
    .where('id', '=', job.id)
    .returningAll()
    .executeTakeFirstOrThrow()
  return complete(row)
}

export interface JobChange {
  /** null: it is not blocked. */
  readonly blocked?: { readonly reason: string; readonly detail: string } | null
  readonly dueAt?: Instant
  readonly cancelRequestedAt?: Instant
}

export async function updateJob(tx: Tx, id: string, { blocked, dueAt, cancelRequestedAt }: JobChange): Promise<void> {
  await tx.db
    .updateTable('job')
    .set({
      id,
      ...(blocked === undefined
        ? {}
        : { blocked_reason: blocked?.reason ?? null, blocked_detail: blocked?.detail ?? null }),
      ...(dueAt === undefined ? {} : { due_at: toDate(dueAt) }),
      ...(cancelRequestedAt === undefined ? {} : { cancel_requested_at: toDate(cancelRequestedAt) }),
    })
    .where('id', '=', id)
    .execute()
}

/** Whether a job is unfinished, or is old enough to be deleted. */
export const hasJobs: DueWork = ({ now }) =>
  sql`(exists (select from job where ended_at is null)
    or exists (select from job where ended_at < ${now} - ${`${limits.jobDays} days`}::interval))`

/** Deletes finished jobs whose results have been kept long enough. */
export async function deleteOldJobs(db: Db, now: Instant, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from job where id in (
      select id from job where ended_at < ${at(addMs(now, -limits.jobDays * DAY_MS))} order by ended_at limit ${limit})`.execute(
    db,
  )
  return Number(numAffectedRows ?? 0n)
}
