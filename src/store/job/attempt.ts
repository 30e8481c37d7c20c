/** Attempts of tasks. Each attempt is one container rental. */
import { sql, type Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { JobOutput } from '../../contract/job.ts'
import type { AttemptOutcome } from '../../contract/job-state.ts'
import type { RentalState } from '../../contract/rental-state.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type JobAttempt = Selectable<Tables['job_attempt']>

/** An attempt with the columns of its rental. */
export interface AttemptRow extends JobAttempt {
  readonly rental_name: string
  readonly rental_status: RentalState
  readonly rental_since: Instant
  readonly rental_reason: string | null
  readonly rental_exit_code: number | null
  readonly rental_started_at: Instant | null
  readonly terminate_requested_at: Instant | null
  readonly auto_terminate_at: Instant | null
  readonly released_at: Instant | null
  readonly file_expires_at: Instant | null
}

function select(db: Db) {
  return db
    .selectFrom('job_attempt as a')
    .innerJoin('rental as r', 'r.id', 'a.rental_id')
    .leftJoin('file as f', (join) => join.onRef('f.id', '=', 'a.file_id').on('f.state', '=', 'ready'))
    .selectAll('a')
    .select([
      'r.name as rental_name',
      'r.status as rental_status',
      'r.status_since as rental_since',
      'r.status_reason as rental_reason',
      'r.exit_code as rental_exit_code',
      'r.started_at as rental_started_at',
      'r.terminate_requested_at',
      'r.auto_terminate_at',
      'r.released_at',
      'f.expires_at as file_expires_at',
    ])
}

/** Lists all living attempts. There cannot be more than there are GPUs. */
export async function listLivingAttempts(db: Db): Promise<AttemptRow[]> {
  return select(db).where('a.ended_at', 'is', null).orderBy('a.job_id').orderBy('a.task').execute()
}

export async function findLivingAttempt(db: Db, jobId: string, task: number): Promise<AttemptRow | undefined> {
  return select(db)
    .where('a.job_id', '=', jobId)
    .where('a.task', '=', task)
    .where('a.ended_at', 'is', null)
    .executeTakeFirst()
}

/** Lists attempts in the order of tasks and numbers. */
export async function listAttempts(db: Db, jobId: string, tasks: readonly number[]): Promise<AttemptRow[]> {
  if (tasks.length === 0) return []
  return select(db)
    .where('a.job_id', '=', jobId)
    .where('a.task', 'in', [...tasks])
    .orderBy('a.task')
    .orderBy('a.number')
    .execute()
}

export async function insertAttempt(
  tx: Tx,
  attempt: Pick<JobAttempt, 'job_id' | 'task' | 'rental_id' | 'machine_id'>,
): Promise<number> {
  const { job_id, task, rental_id, machine_id } = attempt
  const { rows } = await sql<{ number: number }>`
    insert into job_attempt (job_id, task, number, rental_id, machine_id, created_at)
    select ${job_id}, ${task}::integer,
      (select coalesce(max(number), 0) + 1 from job_attempt where job_id = ${job_id} and task = ${task}),
      ${rental_id}::integer, ${machine_id}, ${at(tx.clock.now())}
    returning number`.execute(tx.db)
  return rows[0]?.number ?? 1
}

export async function endAttempt(
  tx: Tx,
  { job_id, task, number }: JobAttempt,
  end: { readonly outcome: AttemptOutcome; readonly reason: string; readonly exitCode: number | null },
): Promise<void> {
  await tx.db
    .updateTable('job_attempt')
    .set({ outcome: end.outcome, reason: end.reason, exit_code: end.exitCode, ended_at: toDate(tx.clock.now()) })
    .where('job_id', '=', job_id)
    .where('task', '=', task)
    .where('number', '=', number)
    .where('ended_at', 'is', null)
    .execute()
}

/** Finds the attempt of a workload on this host whose output has not been collected. */
export async function findUncollected(
  db: Db,
  hostId: string,
  workloadId: string,
): Promise<(JobAttempt & { readonly account_id: string }) | undefined> {
  return db
    .selectFrom('job_attempt as a')
    .innerJoin('rental as r', 'r.id', 'a.rental_id')
    .innerJoin('workload_node as n', 'n.workload_id', 'r.external_id')
    .selectAll('a')
    .select('r.account_id')
    .where('n.workload_id', '=', workloadId)
    .where('n.host_id', '=', hostId)
    .where('r.driver', '=', 'host')
    .where('a.ended_at', 'is', null)
    .where('a.collected_at', 'is', null)
    .executeTakeFirst()
}

export interface Collected {
  readonly fileId: string | null
  readonly output: JobOutput
  /** undefined: the program wrote no result. */
  readonly result: unknown
}

/** False: the attempt has ended, or its output has been collected. */
export async function saveOutput(tx: Tx, attempt: JobAttempt, { fileId, output, result }: Collected): Promise<boolean> {
  const { numUpdatedRows } = await tx.db
    .updateTable('job_attempt')
    .set({
      collected_at: toDate(tx.clock.now()),
      file_id: fileId,
      output: JSON.stringify(output),
      result: result === undefined ? null : JSON.stringify(result),
    })
    .where('rental_id', '=', attempt.rental_id)
    .where('collected_at', 'is', null)
    .where('ended_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** The cost of each rental until now. */
const spent = sql`coalesce(sum(case when s.ended_at is null
  then div(s.price_nano_per_hour::numeric * greatest(floor(extract(epoch from (
    case when r.status = 'Unknown' then coalesce(r.seen_at, s.settled_until) else n.now end - s.started_at)) * 1000), 0), 3600000)
  else s.settled_nano end), 0)::text`

export async function readAttemptCosts(
  db: Db,
  rentalIds: readonly number[],
  now: Instant,
): Promise<Map<number, NanoUsd>> {
  if (rentalIds.length === 0) return new Map()
  const { rows } = await sql<{ rental_id: number; nano: string }>`
    select s.rental_id, ${spent} as nano
    from segment s join rental r on r.id = s.rental_id, (select ${at(now)}::timestamptz as now) n
    where s.rental_id = any (${rentalIds}::integer[]) group by s.rental_id`.execute(db)
  return new Map(rows.map(({ rental_id, nano }) => [rental_id, nanoUsdOf(BigInt(nano))]))
}

export async function readJobCosts(db: Db, jobIds: readonly string[], now: Instant): Promise<Map<string, NanoUsd>> {
  if (jobIds.length === 0) return new Map()
  const { rows } = await sql<{ job_id: string; nano: string }>`
    select a.job_id, ${spent} as nano
    from job_attempt a join rental r on r.id = a.rental_id join segment s on s.rental_id = r.id,
      (select ${at(now)}::timestamptz as now) n
    where a.job_id = any (${jobIds}::text[]) group by a.job_id`.execute(db)
  return new Map(rows.map(({ job_id, nano }) => [job_id, nanoUsdOf(BigInt(nano))]))
}

/** Returns the cost of the ended rentals of a job, and the maximum cost of its living ones. */
export async function readBudgetUse(
  db: Db,
  jobId: string,
): Promise<{ readonly spent: NanoUsd; readonly reserved: NanoUsd }> {
  const { rows } = await sql<{ spent: string; reserved: string }>`
    select
      (select coalesce(sum(s.settled_nano), 0)::text from job_attempt a join segment s on s.rental_id = a.rental_id
        where a.job_id = ${jobId} and a.ended_at is not null) as spent,
      (select coalesce(sum(r.spending_limit_nano), 0)::text from job_attempt a join rental r on r.id = a.rental_id
        where a.job_id = ${jobId} and a.ended_at is null) as reserved`.execute(db)
  const [use] = rows
  if (use === undefined) return { spent: zeroUsd, reserved: zeroUsd }
  return { spent: nanoUsdOf(BigInt(use.spent)), reserved: nanoUsdOf(BigInt(use.reserved)) }
}

/** Machines on which this task lost an attempt. */
export async function listLostMachines(db: Db, jobId: string, task: number): Promise<string[]> {
  const rows = await db
    .selectFrom('job_attempt')
    .select('machine_id')
    .distinct()
    .where('job_id', '=', jobId)
    .where('task', '=', task)
    .where('outcome', '=', 'lost')
    .execute()
  return rows.map(({ machine_id }) => machine_id)
}
