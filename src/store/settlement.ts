/**
 * Settling finished requests: their rows go in by COPY, then one function (schema/0044_requests.sql) adds them to the sums
 * by day and charges the purses. What it is given are sums, so a large batch costs it no more than a small one.
 */
import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import { formatDay, formatInstant, toDate, type Instant } from '../base/instant.ts'
import { MAX_INT32 } from '../base/limits.ts'
import type { NanoUsd } from '../base/money.ts'
import type { InferenceRecord } from '../domain/purse.ts'
import { copyRow, copyRows } from './copy.ts'
import type { Db, Tx } from './database.ts'

/** A purse that did not cover its requests. */
export interface ShortPurse {
  readonly hold_key: string
  readonly account_id: string
  readonly missing_nano: NanoUsd
  /** The part that the account could not pay. */
  readonly borne_nano: NanoUsd
}

const requestColumns =
  'request_id account_id api_key_id operation model deployment at status outcome reason streamed input_units cached_units output_units cost_nano first_byte_ms total_ms trace_id'.split(
    ' ',
  )
const bodyColumns = ['request_id', 'at', 'request', 'response']

/** Fails with a unique violation if one of the requests is settled already (`findSettled`). */
export async function settleRequests(
  tx: Tx,
  gatewayId: string,
  { rows, bodies, days, dues }: Settlement,
  expiresAt: Instant,
): Promise<ShortPurse[]> {
  await copyRows(tx.db, 'request', requestColumns, rows)
  await copyRows(tx.db, 'request_body', bodyColumns, bodies)
  const short = await sql<ShortPurse>`
    select * from charge_requests(${gatewayId}, ${toDate(tx.clock.now())}, ${toDate(expiresAt)},
      ${asJson(days.values())}::jsonb, ${asJson(dues.values())}::jsonb)`.execute(tx.db)
  return short.rows
}

/** The ids of these requests that are settled. */
export async function findSettled(db: Db, records: readonly InferenceRecord[]): Promise<Set<string>> {
  const found = await sql<{ request_id: string }>`
    select r.request_id from request r
    join unnest(${records.map((record) => record.requestId)}::text[], ${records.map((record) => formatInstant(record.at))}::timestamptz[])
      as given (request_id, at) on r.request_id = given.request_id and r.at = given.at`.execute(db)
  return new Set(found.rows.map((row) => row.request_id))
}

interface DaySum {
  readonly account: string
  readonly day: string
  readonly api_key: string
  readonly model: string
  requests: number
  answered: number
  nano: bigint
  input: number
  cached: number
  output: number
}

interface Due {
  readonly hold: string | null
  readonly account: string
  readonly api_key: string
  readonly model: string
  nano: bigint
  requests: number
  /** The smallest id: the key of the posting. */
  first: string
}

/** Sums of the records that have the same account, key, model, purse and day. */
interface Sum {
  readonly day: DaySum
  /** undefined: nothing was charged so far. */
  due: Due | undefined
}

/** What a batch of requests writes. */
export interface Settlement {
  /** For COPY. */
  readonly rows: string[]
  readonly bodies: string[]
  readonly days: Map<string, DaySum>
  readonly dues: Map<string, Due>
}

/** Records that are read between two turns of the event loop: a thousand at once would delay the answers of others. */
const RECORDS_PER_TURN = 64

/** In one pass: it runs for every request. Most records have the account, key, model and day of the one before. */
export async function prepareSettlement(records: readonly InferenceRecord[]): Promise<Settlement> {
  const settlement: Settlement = { rows: [], bodies: [], days: new Map(), dues: new Map() }
  let last: InferenceRecord | undefined
  let at = ''
  let sum: Sum | undefined
  for (const record of records) {
    if (record.at !== last?.at) at = formatInstant(record.at)
    if (sum === undefined || last === undefined || !isAlike(record, last) || !at.startsWith(sum.day.day)) {
      sum = { day: dayOf(settlement.days, record), due: undefined }
    }
    last = record
    add(settlement, sum, record, at)
    if (settlement.rows.length % RECORDS_PER_TURN === 0) await setImmediate()
  }
  return settlement
}

function add({ rows, bodies, dues }: Settlement, sum: Sum, record: InferenceRecord, at: string): void {
  const { units } = record
  // Tokens and characters are units in; tokens and pixels × steps are units out.
  const input = units.inputTokens + units.characters
  const output = units.outputTokens + units.pixelSteps
  rows.push(rowOf(record, at, input, output))
  if (record.requestBody !== null || record.responseBody !== null) bodies.push(bodyOf(record, at))
  const { day } = sum
  day.requests += 1
  if (input > 0 || output > 0) day.answered += 1
  day.input += input
  day.cached += units.cachedTokens
  day.output += output
  const nano = BigInt(record.cost)
  if (nano === 0n) return
  day.nano += nano
  sum.due ??= dueOf(dues, record)
  sum.due.nano += nano
  sum.due.requests += 1
  if (record.requestId < sum.due.first) sum.due.first = record.requestId
}

function isAlike(one: InferenceRecord, other: InferenceRecord): boolean {
  return (
    one.accountId === other.accountId &&
    one.apiKeyId === other.apiKeyId &&
    one.model === other.model &&
    one.holdKey === other.holdKey
  )
}

function rowOf(record: InferenceRecord, at: string, input: number, output: number): string {
  return copyRow([
    record.requestId,
    record.accountId,
    record.apiKeyId,
    record.operation,
    record.model,
    record.deployment,
    at,
    record.status,
    record.outcome,
    record.reason,
    record.streamed,
    input,
    record.units.cachedTokens,
    output,
    record.cost,
    record.firstByteMs === null ? null : wholeMs(record.firstByteMs),
    wholeMs(record.totalMs),
    record.traceId,
  ])
}

function bodyOf(record: InferenceRecord, at: string): string {
  return copyRow([record.requestId, at, record.requestBody, record.responseBody])
}

function dayOf(days: Map<string, DaySum>, { accountId: account, apiKeyId, model, at }: InferenceRecord): DaySum {
  const day = formatDay(at)
  const name = `${account} ${day} ${apiKeyId} ${model}`
  const known = days.get(name)
  if (known !== undefined) return known
  const nothing = { requests: 0, answered: 0, nano: 0n, input: 0, cached: 0, output: 0 }
  const sum: DaySum = { account, day, api_key: apiKeyId, model, ...nothing }
  days.set(name, sum)
  return sum
}

function dueOf(
  dues: Map<string, Due>,
  { requestId, accountId: account, apiKeyId, model, holdKey: hold }: InferenceRecord,
): Due {
  const name = `${hold} ${account} ${apiKeyId} ${model}`
  const known = dues.get(name)
  if (known !== undefined) return known
  const due: Due = { hold, account, api_key: apiKeyId, model, nano: 0n, requests: 0, first: requestId }
  dues.set(name, due)
  return due
}

function asJson(rows: Iterable<DaySum | Due>): string {
  return JSON.stringify([...rows], (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value))
}

function wholeMs(ms: number): number {
  return Math.min(Math.max(0, Math.round(ms)), MAX_INT32)
}
