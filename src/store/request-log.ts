/**
 * The log of inference requests: written at settlement (store/purse.ts), read by customers, deleted by age. The log and
 * the costs of requests are partitioned by time (schema/0017_retention.sql).
 */
import { sql, type Selectable } from 'kysely'
import type { Instant } from '../base/instant.ts'
import type { InferenceRecord } from '../domain/purse.ts'
import { at, transact, type Database, type Db } from './database.ts'
import type { Tables } from './tables.ts'

/** With the sealed bodies. */
export type LoggedRequest = Selectable<Tables['request_log']>
export type ListedRequest = Omit<LoggedRequest, 'request_body' | 'response_body'>

/** The position of a request in the list: newest first, then by id. */
export interface RequestPlace {
  readonly at: Instant
  readonly requestId: string
}

export interface RequestFilter {
  readonly model?: string
  readonly apiKeyId?: string
  readonly outcome?: InferenceRecord['outcome']
  readonly since?: Instant
}

const columns = [
  'request_id',
  'account_id',
  'api_key_id',
  'operation',
  'model',
  'deployment',
  'at',
  'status',
  'outcome',
  'reason',
  'streamed',
  'input_units',
  'cached_units',
  'output_units',
  'cost_nano',
  'first_byte_ms',
  'total_ms',
  'trace_id',
] as const satisfies ReadonlyArray<keyof ListedRequest>

export async function listLoggedRequests(
  db: Db,
  accountId: string,
  page: { filter: RequestFilter; after?: RequestPlace; limit: number },
): Promise<ListedRequest[]> {
  const { model, apiKeyId, outcome, since } = page.filter
  let select = db.selectFrom('request_log').select(columns).where('account_id', '=', accountId)
  if (model !== undefined) select = select.where('model', '=', model)
  if (apiKeyId !== undefined) select = select.where('api_key_id', '=', apiKeyId)
  if (outcome !== undefined) select = select.where('outcome', '=', outcome)
  if (since !== undefined) select = select.where('at', '>=', at(since))
  const { after } = page
  if (after !== undefined) {
    // The index can use only the first condition.
    select = select
      .where('at', '<=', at(after.at))
      .where((e) => e.or([e('at', '<', at(after.at)), e('request_id', '>', after.requestId)]))
  }
  return select.orderBy('at', 'desc').orderBy('request_id').limit(page.limit).execute()
}

export async function findLoggedRequest(
  db: Db,
  accountId: string,
  requestId: string,
): Promise<LoggedRequest | undefined> {
  return db
    .selectFrom('request_log')
    .selectAll()
    .where('request_id', '=', requestId)
    .where('account_id', '=', accountId)
    .executeTakeFirst()
}

/** Lock timeout on tables that settlements use all the time: they queue behind a waiting lock. */
const LOCK_TIMEOUT_MS = 2_000
/** Summing up a month of costs reads every row. */
const ADD_UP_TIMEOUT_MS = 10 * 60_000

/** Creates the partitions for the coming days and months. */
export async function makeRequestPartitions(database: Database, now: Instant): Promise<void> {
  await transact(database, async ({ db }) => {
    await setLockTimeout(db)
    await sql`select make_request_partitions(${at(now)})`.execute(db)
  })
}

/** Drops the oldest partition whose rows are all past retention; costs are summed up by day first. null: there is none. */
export async function dropRequestPartition(
  database: Database,
  table: 'request_log' | 'request_cost',
  before: Instant,
): Promise<string | null> {
  return transact(database, async ({ db }) => {
    await setLockTimeout(db)
    const found = await sql<{ name: string | null }>`
      select drop_request_partition(${table}, ${at(before)}) as name`.execute(db)
    return found.rows[0]?.name ?? null
  })
}

async function setLockTimeout(db: Db): Promise<void> {
  await sql`select set_config('lock_timeout', ${LOCK_TIMEOUT_MS.toString()}, true),
    set_config('statement_timeout', ${ADD_UP_TIMEOUT_MS.toString()}, true)`.execute(db)
}

/** Returns the number of deleted rows; at the limit there may be more. */
export async function deleteRequests(db: Db, before: Instant, limit: number): Promise<number> {
  const gone = await sql`
    delete from request_log where request_id in (
      select request_id from request_log where at < ${at(before)} order by at limit ${limit} for update skip locked)`.execute(
    db,
  )
  return count(gone.numAffectedRows)
}

/** The same for their bodies. */
export async function deleteRequestBodies(db: Db, before: Instant, limit: number): Promise<number> {
  const emptied = await sql`
    update request_log set request_body = null, response_body = null where request_id in (
      select request_id from request_log
      where at < ${at(before)} and (request_body is not null or response_body is not null)
      order by at limit ${limit} for update skip locked)`.execute(db)
  return count(emptied.numAffectedRows)
}

function count(rows: bigint | undefined): number {
  return Number.parseInt(String(rows ?? 0n), 10)
}
