/** Schedules of jobs. */
import { sql, type Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { nanoUsdOf } from '../../base/money.ts'
import { jobSpec } from '../../contract/job.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import { withDefaults } from '../platform/stored-json.ts'
import type { Tables } from '../platform/tables.ts'
import { hasJobs, JOBS_WAKE, type NewJob } from './job.ts'

/** The job that a schedule creates each time. */
export type JobPlan = Omit<NewJob, 'id' | 'accountId' | 'personId' | 'keyId'>

export type JobSchedule = Omit<Selectable<Tables['job_schedule']>, 'plan'> & { readonly plan: JobPlan }

type Row = Selectable<Tables['job_schedule']>

/** Amounts are bigints, which JSON cannot hold. */
function planText(plan: JobPlan): string {
  return JSON.stringify({ ...plan, maxCost: plan.maxCost === null ? null : plan.maxCost.toString() })
}

function complete(row: Row): JobSchedule {
  const { maxCost, spec, ...plan } = row.plan as Omit<JobPlan, 'maxCost'> & { maxCost: string | null }
  const amount = maxCost === null ? null : nanoUsdOf(BigInt(maxCost))
  return { ...row, plan: { ...plan, maxCost: amount, spec: withDefaults(jobSpec, spec) } }
}

export async function insertSchedule(
  tx: Tx,
  {
    plan,
    ...schedule
  }: Pick<JobSchedule, 'id' | 'account_id' | 'person_id' | 'api_key_id' | 'name' | 'cron' | 'next_at' | 'plan'>,
): Promise<JobSchedule> {
  const row = await tx.db
    .insertInto('job_schedule')
    .values({
      ...schedule,
      next_at: schedule.next_at === null ? null : toDate(schedule.next_at),
      plan: planText(plan),
      created_at: toDate(tx.clock.now()),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  tx.wake.add(JOBS_WAKE)
  return complete(row)
}

export async function listSchedules(db: Db, accountId: string): Promise<JobSchedule[]> {
  const rows = await db
    .selectFrom('job_schedule')
    .selectAll()
    .where('account_id', '=', accountId)
    .orderBy('created_at')
    .orderBy('id')
    .execute()
  return rows.map(complete)
}

/** Concurrent creates of one account take turns here, so that together they cannot exceed the limit. */
export async function countSchedules(tx: Tx, accountId: string): Promise<number> {
  await sql`select pg_advisory_xact_lock(hashtext('berth job schedules'), hashtext(${accountId}))`.execute(tx.db)
  const { rows } = await sql<{ schedules: number }>`
    select count(*)::integer as schedules from job_schedule where account_id = ${accountId}`.execute(tx.db)
  return rows[0]?.schedules ?? 0
}

export async function lockSchedule(tx: Tx, id: string): Promise<JobSchedule | undefined> {
  const row = await tx.db.selectFrom('job_schedule').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
  return row && complete(row)
}

export async function listDueSchedules(db: Db, now: Instant, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from job_schedule where next_at <= ${at(now)} order by next_at, id limit ${limit}`.execute(db)
  return rows.map(({ id }) => id)
}

export interface ScheduleChange {
  readonly cron?: string
  /** null: paused. */
  readonly nextAt?: Instant | null
  readonly owner?: { readonly personId: string; readonly keyId: string }
  /** The last time that came due, and the job it created, or why it created none. */
  readonly last?: { readonly at: Instant; readonly jobId?: string; readonly reason: string | null }
}

export async function updateSchedule(
  tx: Tx,
  id: string,
  { cron, nextAt, owner, last }: ScheduleChange,
): Promise<JobSchedule> {
  const row = await tx.db
    .updateTable('job_schedule')
    .set({
      id,
      ...(cron === undefined ? {} : { cron }),
      ...(nextAt === undefined ? {} : { next_at: nextAt === null ? null : toDate(nextAt) }),
      ...(owner === undefined ? {} : { person_id: owner.personId, api_key_id: owner.keyId }),
      ...(last === undefined ? {} : { last_at: toDate(last.at), last_reason: last.reason }),
      ...(last?.jobId === undefined ? {} : { last_job_id: last.jobId }),
    })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  tx.wake.add(JOBS_WAKE)
  return complete(row)
}

export async function deleteSchedule(tx: Tx, id: string): Promise<void> {
  await tx.db.deleteFrom('job_schedule').where('id', '=', id).execute()
}

/** Whether the loop that runs jobs has work. */
export const hasJobWork: DueWork = (query) =>
  sql`(${hasJobs(query)} or exists (select from job_schedule where next_at <= ${query.now}))`
