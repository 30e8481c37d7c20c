/** Batches. Each change of status names the states it may start from: if two changes race, the first one wins. */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { addMs, toDate, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { BatchFault, BatchPath, BatchWait } from '../../contract/batch-state.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type Batch = Selectable<Tables['batch']>

/** Wakes the loop that reads input files and writes result files. */
export const BATCH_WAKE = 'batches'

const hasNotEnded = sql<boolean>`status in ('validating', 'in_progress', 'finalizing', 'cancelling')`

export interface NewBatch {
  readonly id: string
  readonly accountId: string
  readonly apiKeyId: string
  readonly inputFileId: string
  readonly endpoint: BatchPath
  readonly metadata: Readonly<Record<string, string>> | null
  readonly keySealed: string
  /** null: result files expire after the default time. */
  readonly outputSeconds: number | null
  /** The number of lines. Absent: unknown until the file is read. */
  readonly lines?: number
}

/** Concurrent creates of one account take turns here, so that together they cannot exceed its limit. */
export async function countOpenBatches(tx: Tx, accountId: string): Promise<number> {
  await sql`select pg_advisory_xact_lock(hashtext('berth batches'), hashtext(${accountId}))`.execute(tx.db)
  const { open } = await tx.db
    .selectFrom('batch')
    .select(sql<number>`count(*)::integer`.as('open'))
    .where('account_id', '=', accountId)
    .where(hasNotEnded)
    .executeTakeFirstOrThrow()
  return open
}

export async function insertBatch(tx: Tx, batch: NewBatch): Promise<Batch> {
  const now = tx.clock.now()
  return tx.db
    .insertInto('batch')
    .values({
      id: batch.id,
      account_id: batch.accountId,
      api_key_id: batch.apiKeyId,
      input_file_id: batch.inputFileId,
      endpoint: batch.endpoint,
      metadata: batch.metadata === null ? null : JSON.stringify(batch.metadata),
      key_sealed: batch.keySealed,
      output_seconds: batch.outputSeconds,
      lines: batch.lines ?? 0,
      due_at: toDate(now),
      created_at: toDate(now),
      expires_at: toDate(addMs(now, limits.batchMs)),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

export async function findBatch(db: Db, accountId: string, id: string): Promise<Batch | undefined> {
  return db.selectFrom('batch').selectAll().where('account_id', '=', accountId).where('id', '=', id).executeTakeFirst()
}

export interface BatchQuery {
  /** Absent: any. */
  readonly endpoint?: BatchPath
  /** Older ones than this, from the newest on. */
  readonly after?: Pick<Batch, 'created_at' | 'id'> | undefined
  /** Newer ones than this, from the oldest on; `after` does not count then. */
  readonly before?: Pick<Batch, 'created_at' | 'id'> | undefined
  readonly limit: number
}

/** Lists batches, newest first. */
export async function listBatches(
  db: Db,
  accountId: string,
  { endpoint, after, before, limit }: BatchQuery,
): Promise<Batch[]> {
  let batches = db.selectFrom('batch').selectAll().where('account_id', '=', accountId)
  if (endpoint !== undefined) batches = batches.where('endpoint', '=', endpoint)
  if (before !== undefined) {
    batches = batches.where(sql<boolean>`(created_at, id) > (${at(before.created_at)}, ${before.id})`)
    const newer = await batches.orderBy('created_at').orderBy('id').limit(limit).execute()
    return newer.toReversed()
  }
  if (after !== undefined) {
    batches = batches.where(sql<boolean>`(created_at, id) < (${at(after.created_at)}, ${after.id})`)
  }
  return batches.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).execute()
}

/** Returns false if the batch has not ended. */
export async function deleteBatch(tx: Tx, id: string): Promise<boolean> {
  const { numDeletedRows } = await tx.db
    .deleteFrom('batch')
    .where('id', '=', id)
    .where(sql<boolean>`not (${hasNotEnded})`)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

/** null: the batch has not ended. */
export function endOfBatch({ completed_at, failed_at, expired_at, cancelled_at }: Batch): Instant | null {
  return completed_at ?? failed_at ?? expired_at ?? cancelled_at
}

export async function isReadByBatch(db: Db, fileId: string): Promise<boolean> {
  const batch = await db
    .selectFrom('batch')
    .select('id')
    .where('input_file_id', '=', fileId)
    .where(hasNotEnded)
    .executeTakeFirst()
  return batch !== undefined
}

/** Lists batches with lines that can start now, oldest first. */
export async function listRunnableBatches(db: Db, now: Instant, limit: number): Promise<Batch[]> {
  return db
    .selectFrom('batch')
    .selectAll()
    .where('status', '=', 'in_progress')
    .where('due_at', '<=', at(now))
    .where('expires_at', '>', at(now))
    .orderBy('created_at')
    .limit(limit)
    .execute()
}

/** Returns undefined if the batch has left the states `from`. */
async function moveBatch(
  db: Db,
  id: string,
  from: readonly Batch['status'][],
  set: RawBuilder<unknown>,
): Promise<Batch | undefined> {
  const { rows } = await sql<Batch>`
    update batch set ${set}, waits_for = null where id = ${id} and status in (${sql.join([...from])}) returning *`.execute(
    db,
  )
  return rows[0]
}

export async function beginLines(
  tx: Tx,
  { id, token, model, lines }: { id: string; token: string; model: string; lines: number },
): Promise<boolean> {
  const now = at(tx.clock.now())
  const { numAffectedRows } = await sql`
    update batch set status = 'in_progress', in_progress_at = ${now}, model = ${model}, lines = ${lines}, due_at = ${now},
      lease_token = null, lease_until = null
    where id = ${id} and status = 'validating' and lease_token = ${token}`.execute(tx.db)
  return numAffectedRows === 1n
}

export async function failBatch(
  tx: Tx,
  { id, token, errors }: { id: string; token: string; errors: readonly BatchFault[] },
): Promise<void> {
  await sql`
    update batch set status = 'failed', failed_at = ${at(tx.clock.now())}, errors = ${JSON.stringify(errors)}::jsonb,
      lease_token = null, lease_until = null
    where id = ${id} and status = 'validating' and lease_token = ${token}`.execute(tx.db)
}

/** Cancels a batch; its running lines finish first. Returns undefined if it has ended or is ending. */
export async function cancelBatch(tx: Tx, id: string): Promise<Batch | undefined> {
  tx.wake.add(BATCH_WAKE)
  return moveBatch(
    tx.db,
    id,
    ['validating', 'in_progress'],
    sql`status = 'cancelling', cancelling_at = ${at(tx.clock.now())}`,
  )
}

/** Finalizes batches whose lines all have a result, or whose time is over. */
export async function finalizeDueBatches(db: Db, now: Instant): Promise<void> {
  await sql`
    update batch set status = 'finalizing', finalizing_at = ${at(now)}, waits_for = null
    where status = 'in_progress' and completed + failed = lines
      or status in ('validating', 'in_progress') and expires_at <= ${at(now)}`.execute(db)
}

/** Leases a batch whose file is to be read, or whose results are to be written because none of its lines runs. */
export async function leaseBatch(
  db: Db,
  { now, token, leaseMs }: { now: Instant; token: string; leaseMs: number },
): Promise<Batch | undefined> {
  const { rows } = await sql<Batch>`
    update batch set lease_token = ${token}, lease_until = ${at(addMs(now, leaseMs))} where id = (
      select b.id from batch b
      where b.status in ('validating', 'finalizing', 'cancelling')
        and (b.lease_until is null or b.lease_until <= ${at(now)})
        and (b.status = 'validating' or not exists (
          select from batch_line l where l.batch_id = b.id and l.result is null and l.lease_until > ${at(now)}))
      order by b.created_at limit 1 for update skip locked)
    returning *`.execute(db)
  return rows[0]
}

/** False: the lease was lost to another server. */
export async function renewBatch(
  db: Db,
  { id, token, until }: { id: string; token: string; until: Instant },
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('batch')
    .set({ lease_until: toDate(until) })
    .where('id', '=', id)
    .where('lease_token', '=', token)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Ends a batch whose result files are written. False: the lease was lost to another server. */
export async function endBatch(
  tx: Tx,
  {
    id,
    token,
    outputFileId,
    errorFileId,
  }: { id: string; token: string; outputFileId: string | null; errorFileId: string | null },
): Promise<boolean> {
  const now = at(tx.clock.now())
  const isWhole = sql`completed + failed = lines and in_progress_at is not null`
  const { numAffectedRows } = await sql`
    update batch set
      status = case when status = 'cancelling' then 'cancelled' when ${isWhole} then 'completed' else 'expired' end,
      cancelled_at = case when status = 'cancelling' then ${now} end,
      completed_at = case when status <> 'cancelling' and ${isWhole} then ${now} end,
      expired_at = case when status <> 'cancelling' and not (${isWhole}) then ${now} end,
      output_file_id = ${outputFileId}, error_file_id = ${errorFileId}, lease_token = null, lease_until = null
    where id = ${id} and lease_token = ${token} and status in ('finalizing', 'cancelling')`.execute(tx.db)
  if (numAffectedRows !== 1n) return false
  await tx.db.deleteFrom('batch_line').where('batch_id', '=', id).execute()
  return true
}

/** Counts finished lines and their cost. Once all lines are counted, the batch is finalized. */
export async function countResults(
  tx: Tx,
  id: string,
  { completed, failed, cost }: { completed: number; failed: number; cost: NanoUsd },
): Promise<void> {
  const { rows } = await sql<{ is_last: boolean }>`
    update batch set completed = completed + ${completed}, failed = failed + ${failed},
      cost_nano = cost_nano + ${cost.toString()}::bigint, waits_for = null
    where id = ${id} returning completed + failed = lines as is_last`.execute(tx.db)
  if (rows[0]?.is_last === true) tx.wake.add(BATCH_WAKE)
}

/** Starts no line of the batch before `until`. */
export async function pauseBatch(db: Db, id: string, why: BatchWait, until: Instant): Promise<void> {
  await sql`
    update batch set waits_for = ${why}, due_at = ${at(until)}
    where id = ${id} and status = 'in_progress'`.execute(db)
}

/** Lets the batches of an account that wait for money continue at once, because money has come in. */
export async function resumeBatches(tx: Tx, accountId: string): Promise<void> {
  await sql`
    update batch set due_at = ${at(tx.clock.now())}
    where account_id = ${accountId} and status = 'in_progress' and waits_for = 'money'`.execute(tx.db)
}
