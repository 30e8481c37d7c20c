/**
 * The job queue of all accounts. Accounts take turns, longest waiting first, so ten thousand jobs of one account delay
 * the next job of another by one turn.
 */
import { sql } from 'kysely'
import type { Instant } from '../../base/instant.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Job } from './job.ts'

/** The most urgent job of an account for one kind of machine. */
export interface QueueHead {
  readonly id: string
  readonly account_id: string
  readonly demand: string
}

/** Only so many kinds of machines are read per account. */
const MAX_DEMANDS = 100

/** Accounts in the order of their turns, each with its most urgent job for each kind of machine. */
export async function listHeads(db: Db, now: Instant): Promise<QueueHead[]> {
  const { rows } = await sql<QueueHead>`
    with head as (
      select distinct on (account_id, demand) id, account_id, demand, priority, created_at
      from job
      where queued > 0 and starting + running < parallel and due_at <= ${at(now)}
      order by account_id, demand, priority desc, created_at, id
    ), ranked as (
      select *, row_number() over (partition by account_id order by priority desc, created_at, id) as n from head
    )
    select r.id, r.account_id, r.demand
    from ranked r left join job_turn t on t.account_id = r.account_id
    where r.n <= ${MAX_DEMANDS}
    order by t.at nulls first, r.account_id, r.n`.execute(db)
  return rows
}

/** Moves the account to the end of the queue. */
export async function takeJobTurn(tx: Tx, accountId: string): Promise<void> {
  await sql`
    insert into job_turn (account_id, at) values (${accountId}, ${at(tx.clock.now())})
    on conflict (account_id) do update set at = excluded.at`.execute(tx.db)
}

/** Returns the place of the job's next task among all queued tasks, from 1. */
export async function readPlace(db: Db, job: Job): Promise<number> {
  const { rows } = await sql<{ place: number }>`
    with rank as (
      select 1 + coalesce(sum(queued), 0)::integer as own from job
      where account_id = ${job.account_id} and queued > 0
        and (-priority, created_at, id) < (${-job.priority}::smallint, ${at(job.created_at)}, ${job.id})
    ), other as (
      select j.account_id, sum(j.queued)::integer as tasks,
        coalesce(min(t.at), '-infinity') < coalesce((select at from job_turn where account_id = ${job.account_id}), '-infinity') as is_first
      from job j left join job_turn t on t.account_id = j.account_id
      where j.queued > 0 and j.account_id <> ${job.account_id} group by j.account_id
    )
    select (own + coalesce((select sum(least(tasks, case when is_first then own else own - 1 end)) from other), 0))::integer as place
    from rank`.execute(db)
  return rows[0]?.place ?? 1
}
