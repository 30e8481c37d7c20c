/**
 * Settling finished requests: their rows go in by COPY, then one function (schema/0044_requests.sql) adds them to the sums
 * by day and charges the purses. What it is given are sums, so a large batch costs it no more than a small one.
 */
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
  records: readonly InferenceRecord[],
  expiresAt: Instant,
): Promise<ShortPurse[]> {
  await copyRows(tx.db, 'request', requestColumns, records.map(rowOf))
  const withBodies = records.filter((record) => record.requestBody !== null || record.responseBody !== null)
  await copyRows(tx.db, 'request_body', bodyColumns, withBodies.map(bodyOf))
  const short = await sql<ShortPurse>`
    select * from charge_requests(${gatewayId}, ${toDate(tx.clock.now())}, ${toDate(expiresAt)},
      ${asJson(daysOf(records))}::jsonb, ${asJson(duesOf(records))}::jsonb)`.execute(tx.db)
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

function rowOf(record: InferenceRecord): string {
  const { input, cached, output } = unitsOf(record)
  return copyRow([
    record.requestId,
    record.accountId,
    record.apiKeyId,
    record.operation,
    record.model,
    record.deployment,
    formatInstant(record.at),
    record.status,
    record.outcome,
    record.reason,
    record.streamed,
    input,
    cached,
    output,
    record.cost,
    record.firstByteMs === null ? null : wholeMs(record.firstByteMs),
    wholeMs(record.totalMs),
    record.traceId,
  ])
}

function bodyOf(record: InferenceRecord): string {
  return copyRow([record.requestId, formatInstant(record.at), record.requestBody, record.responseBody])
}

/** Tokens and characters are units in; tokens and pixels × steps are units out. */
function unitsOf({ units }: InferenceRecord): { input: number; cached: number; output: number } {
  return {
    input: units.inputTokens + units.characters,
    cached: units.cachedTokens,
    output: units.outputTokens + units.pixelSteps,
  }
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

function daysOf(records: readonly InferenceRecord[]): DaySum[] {
  const days = new Map<string, DaySum>()
  for (const record of records) {
    const { accountId: account, apiKeyId, model } = record
    const day = formatDay(record.at)
    const name = `${account} ${day} ${apiKeyId} ${model}`
    const sum = days.get(name) ?? { account, day, api_key: apiKeyId, model, ...nothing }
    const { input, cached, output } = unitsOf(record)
    sum.requests += 1
    if (input > 0 || output > 0) sum.answered += 1
    sum.nano += BigInt(record.cost)
    sum.input += input
    sum.cached += cached
    sum.output += output
    days.set(name, sum)
  }
  return [...days.values()]
}

const nothing = { requests: 0, answered: 0, nano: 0n, input: 0, cached: 0, output: 0 }

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

function duesOf(records: readonly InferenceRecord[]): Due[] {
  const dues = new Map<string, Due>()
  for (const { requestId, accountId: account, apiKeyId, model, holdKey: hold, cost } of records) {
    const nano = BigInt(cost)
    if (nano === 0n) continue
    const name = `${hold} ${account} ${apiKeyId} ${model}`
    const due = dues.get(name) ?? { hold, account, api_key: apiKeyId, model, nano: 0n, requests: 0, first: requestId }
    due.nano += nano
    due.requests += 1
    if (requestId < due.first) due.first = requestId
    dues.set(name, due)
  }
  return [...dues.values()]
}

function asJson(rows: ReadonlyArray<DaySum | Due>): string {
  return JSON.stringify(rows, (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value))
}

function wholeMs(ms: number): number {
  return Math.min(Math.max(0, Math.round(ms)), MAX_INT32)
}
