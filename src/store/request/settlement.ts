/**
 * Settling finished requests: their rows go in by COPY, then one function (schema/baseline/17_request.sql) adds them to
 * the sums by day and charges the purses. It is given sums, so a large batch costs it no more than a small one.
 */
import { sql } from 'kysely'
import { formatInstant, toDate, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import type { DaySum, Due, Settlement } from '../../domain/settlement.ts'
import { copyRows } from '../platform/copy.ts'
import type { Db, Tx } from '../platform/database.ts'

/** A purse that did not cover its requests. */
export interface ShortPurse {
  readonly hold_key: string
  readonly account_id: string
  readonly missing_nano: NanoUsd
  /** The part that the account could not pay. */
  readonly borne_nano: NanoUsd
}

/** The columns are in the order of a row (domain/settlement.ts). */
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
  const bodyRows = bodies.map((row) => Buffer.from(`${row}\n`))
  await copyRows(tx.db, 'request_body', bodyColumns, bodyRows)
  const shortPurses = await sql<ShortPurse>`
    select * from charge_requests(${gatewayId}, ${toDate(tx.clock.now())}, ${toDate(expiresAt)},
      ${asJson(days.values())}::jsonb, ${asJson(dues.values())}::jsonb)`.execute(tx.db)
  return shortPurses.rows
}

/** Returns the ids of these requests that are settled. */
export async function findSettled(db: Db, records: readonly InferenceRecord[]): Promise<Set<string>> {
  const { rows } = await sql<{ request_id: string }>`
    select r.request_id from request r
    join unnest(${records.map((record) => record.requestId)}::text[], ${records.map((record) => formatInstant(record.at))}::timestamptz[])
      as given (request_id, at) on r.request_id = given.request_id and r.at = given.at`.execute(db)
  return new Set(rows.map((row) => row.request_id))
}

function asJson(rows: Iterable<DaySum | Due>): string {
  return JSON.stringify([...rows], (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value))
}
