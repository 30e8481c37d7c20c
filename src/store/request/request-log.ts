/**
 * The log of inference requests: written at settlement (store/request/settlement.ts), read by customers, deleted by age. Requests
 * are partitioned by week (schema/baseline/17_request.sql).
 */
import { sql, type Selectable } from 'kysely'
import { addMs, DAY_MS, type Instant } from '../../base/instant.ts'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import { spanOf } from '../ledger/billing.ts'
import { at, transact, type Database, type Db } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type ListedRequest = Selectable<Tables['request']>
/** A request with its sealed bodies. */
export type LoggedRequest = ListedRequest & {
  readonly request_body: string | null
  readonly response_body: string | null
}

/** The position of a request in the list: newest first, then by id. */
export interface RequestPlace {
  readonly at: Instant
  readonly requestId: string
}

export interface RequestFilter {
  readonly model?: string
  readonly apiKeyId?: string
  readonly operation?: string
  readonly outcome?: InferenceRecord['outcome']
  readonly isInBatch?: boolean
  readonly since?: Instant
}

/**
 * How far back a page is searched: first the short span, then the long one. Planning a query over all weeks of the
 * retention takes 7 ms, reading a page 1 ms.
 */
const SPANS_MS = [14 * DAY_MS, 70 * DAY_MS] as const

/** Reads one span after the other until the page is full; the last span has no beginning. */
export async function listLoggedRequests(
  db: Db,
  accountId: string,
  page: { filter: RequestFilter; after?: RequestPlace; limit: number; now: Instant },
): Promise<ListedRequest[]> {
  const newest = page.after?.at ?? page.now
  const { since } = page.filter
  const requests: ListedRequest[] = []
  let until: Instant | undefined
  for (const spanMs of [...SPANS_MS, Number.POSITIVE_INFINITY]) {
    const from = Number.isFinite(spanMs) ? addMs(newest, -spanMs) : undefined
    const isLast = from === undefined || (since !== undefined && from <= since)
    const span = { ...(isLast ? {} : { from }), ...(until === undefined ? {} : { until }) }
    requests.push(...(await listSpan(db, accountId, { ...page, limit: page.limit - requests.length }, span)))
    if (isLast || requests.length >= page.limit) break
    until = from
  }
  return requests
}

async function listSpan(
  db: Db,
  accountId: string,
  page: { filter: RequestFilter; after?: RequestPlace; limit: number },
  { from, until }: { from?: Instant; until?: Instant },
): Promise<ListedRequest[]> {
  const { model, apiKeyId, operation, outcome, isInBatch, since } = page.filter
  let select = db.selectFrom('request').selectAll().where('account_id', '=', accountId)
  if (model !== undefined) select = select.where('model', '=', model)
  if (apiKeyId !== undefined) select = select.where('api_key_id', '=', apiKeyId)
  if (operation !== undefined) select = select.where('operation', '=', operation)
  if (outcome !== undefined) select = select.where('outcome', '=', outcome)
  if (isInBatch !== undefined) select = select.where('batch_id', isInBatch ? 'is not' : 'is', null)
  if (since !== undefined) select = select.where('at', '>=', at(since))
  if (from !== undefined) select = select.where('at', '>=', at(from))
  if (until !== undefined) select = select.where('at', '<', at(until))
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
  const find = async (span?: { from: Instant; until: Instant }): Promise<LoggedRequest | undefined> => {
    let select = db
      .selectFrom('request as r')
      .leftJoin('request_body as b', 'b.request_id', 'r.request_id')
      .selectAll('r')
      .select(['b.request as request_body', 'b.response as response_body'])
      .where('r.request_id', '=', requestId)
      .where('r.account_id', '=', accountId)
    if (span !== undefined) select = select.where('r.at', '>=', at(span.from)).where('r.at', '<', at(span.until))
    return select.executeTakeFirst()
  }
  const span = spanOf([requestId])
  return (span === undefined ? undefined : await find(span)) ?? find()
}

/** Lock timeout on tables that settlements use all the time: they queue behind a waiting lock. */
const LOCK_TIMEOUT_MS = 500

/** Creates the partitions for the coming weeks. */
export async function makeRequestPartitions(database: Database, now: Instant): Promise<void> {
  await transact(database, async ({ db }) => {
    await setLockTimeout(db)
    await sql`select make_request_partitions(${at(now)})`.execute(db)
  })
}

/** Drops the oldest partition whose rows are all past retention. null: there is none. */
export async function dropRequestPartition(database: Database, before: Instant): Promise<string | null> {
  return transact(database, async ({ db }) => {
    await setLockTimeout(db)
    const { rows } = await sql<{ name: string | null }>`
      select drop_request_partition(${at(before)}) as name`.execute(db)
    return rows[0]?.name ?? null
  })
}

async function setLockTimeout(db: Db): Promise<void> {
  await sql`select set_config('lock_timeout', ${LOCK_TIMEOUT_MS.toString()}, true)`.execute(db)
}

/** Returns the number of deleted rows; at the limit there may be more. */
export async function deleteRequestBodies(db: Db, before: Instant, limit: number): Promise<number> {
  const result = await sql`
    delete from request_body where request_id in (
      select request_id from request_body where at < ${at(before)} order by at limit ${limit} for update skip locked)`.execute(
    db,
  )
  return Number.parseInt(String(result.numAffectedRows ?? 0n), 10)
}
