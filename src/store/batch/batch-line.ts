/** Lines of batches that have not ended: leased by the server that runs them, and kept with their results until the end. */
import { sql } from 'kysely'
import { addMs, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { at, type Db, type Tx } from '../platform/database.ts'

/** The place of a line in its file. */
export interface LinePlace {
  readonly line: number
  readonly offset: number
  readonly bytes: number
}

export interface LeasedLine extends LinePlace {
  readonly attempts: number
}

/** A sealed result. */
export interface LineResult {
  readonly line: number
  readonly sealed: Buffer
  readonly isFailed: boolean
}

export async function clearLines(db: Db, batchId: string): Promise<void> {
  await db.deleteFrom('batch_line').where('batch_id', '=', batchId).execute()
}

export async function insertLines(db: Db, batchId: string, lines: readonly LinePlace[], now: Instant): Promise<void> {
  await sql`
    insert into batch_line (batch_id, line, offset_bytes, size_bytes, due_at)
    select ${batchId}, line, place, size, ${at(now)}
    from unnest(${lines.map(({ line }) => line)}::integer[], ${lines.map(({ offset }) => offset)}::bigint[],
      ${lines.map(({ bytes }) => bytes)}::integer[]) as given (line, place, size)`.execute(db)
}

interface LineRow {
  readonly line: number
  readonly offset_bytes: bigint
  readonly size_bytes: number
  readonly attempts: number
}

/** Leases the first free lines, in the order of the file. */
export async function leaseLines(
  db: Db,
  batchId: string,
  { now, token, leaseMs, limit }: { now: Instant; token: string; leaseMs: number; limit: number },
): Promise<LeasedLine[]> {
  const { rows } = await sql<LineRow>`
    update batch_line set lease_token = ${token}, lease_until = ${at(addMs(now, leaseMs))}
    where batch_id = ${batchId} and line in (
      select l.line from batch_line l join batch b on b.id = l.batch_id
      where l.batch_id = ${batchId} and b.status = 'in_progress' and l.result is null and l.due_at <= ${at(now)}
        and (l.lease_until is null or l.lease_until <= ${at(now)})
      order by l.line limit ${limit} for update of l skip locked)
    returning line, offset_bytes, size_bytes, attempts`.execute(db)
  const lines = rows.map(placeOf).map((place, index) => ({ ...place, attempts: rows[index]?.attempts ?? 0 }))
  return lines.sort((a, b) => a.line - b.line)
}

function placeOf({ line, offset_bytes, size_bytes }: Pick<LineRow, 'line' | 'offset_bytes' | 'size_bytes'>): LinePlace {
  return { line, offset: Number(offset_bytes), bytes: size_bytes }
}

/**
 * Renews the leases of all lines that a server runs. Lines of a batch that is ending are renewed for a limited time,
 * since the batch waits for them.
 */
export async function renewLines(
  db: Db,
  { token, now, leaseMs }: { token: string; now: Instant; leaseMs: number },
): Promise<void> {
  await sql`
    update batch_line l set lease_until = ${at(addMs(now, leaseMs))} from batch b
    where l.lease_token = ${token} and l.result is null and b.id = l.batch_id
      and coalesce(b.cancelling_at, b.finalizing_at, ${at(now)}) > ${at(addMs(now, -limits.batchDrainMs))}`.execute(db)
}

/** Returns a line for a later attempt. `isFault`: an engine failed at it. */
export async function releaseLine(
  db: Db,
  batchId: string,
  { line, token, dueAt, isFault }: { line: number; token: string; dueAt: Instant; isFault: boolean },
): Promise<void> {
  await sql`
    update batch_line set lease_token = null, lease_until = null, due_at = ${at(dueAt)},
      attempts = attempts + ${isFault ? 1 : 0}
    where batch_id = ${batchId} and line = ${line} and lease_token = ${token} and result is null`.execute(db)
}

/** Returns all lines that a server runs, because it stops. */
export async function releaseLines(db: Db, token: string): Promise<void> {
  await sql`
    update batch_line set lease_token = null, lease_until = null
    where lease_token = ${token} and result is null`.execute(db)
}

/**
 * Revokes the leases of a batch whose result files are written next. A line that still runs past its lease is then
 * neither counted nor charged.
 */
export async function revokeLines(db: Db, batchId: string): Promise<void> {
  await sql`
    update batch_line set lease_token = null, lease_until = null
    where batch_id = ${batchId} and line in (
      select line from batch_line where batch_id = ${batchId} and lease_token is not null and result is null
      order by line for update)`.execute(db)
}

/** Returns the lines that had no result and were still leased: only those may be charged. */
export async function writeResults(
  tx: Tx,
  batchId: string,
  token: string,
  results: readonly LineResult[],
): Promise<Set<number>> {
  const written = new Set<number>()
  // Rows are updated in one order, so that two servers cannot deadlock.
  for (const { line, sealed, isFailed } of [...results].sort((a, b) => a.line - b.line)) {
    const { numAffectedRows } = await sql`
      update batch_line set result = ${sealed}, is_failed = ${isFailed}, lease_token = null, lease_until = null
      where batch_id = ${batchId} and line = ${line} and lease_token = ${token} and result is null`.execute(tx.db)
    if (numAffectedRows === 1n) written.add(line)
  }
  return written
}

export interface EndedLine extends LinePlace {
  /** null: the line was not run. */
  readonly result: Buffer | null
  readonly isFailed: boolean
}

/** Lists lines in the order of the file. */
export async function listLines(
  db: Db,
  batchId: string,
  { after, limit }: { after: number; limit: number },
): Promise<EndedLine[]> {
  const { rows } = await sql<LineRow & { result: Buffer | null; is_failed: boolean | null }>`
    select line, offset_bytes, size_bytes, attempts, result, is_failed from batch_line
    where batch_id = ${batchId} and line > ${after} order by line limit ${limit}`.execute(db)
  return rows.map((row) => ({ ...placeOf(row), result: row.result, isFailed: row.is_failed !== false }))
}

/** Marks requests, settled by this transaction, as part of the batch. */
export async function nameBatch(tx: Tx, batchId: string, requestIds: readonly string[], since: Instant): Promise<void> {
  if (requestIds.length === 0) return
  await sql`
    update request set batch_id = ${batchId}
    where request_id = any (${requestIds}::text[]) and at >= ${at(since)}`.execute(tx.db)
}
