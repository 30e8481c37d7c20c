/** Batches as customers use them. Their lines are read and run by the servers (server/batch/). */
import { randomId } from '../../base/id.ts'
import { limits } from '../../base/limits.ts'
import { newContentKey } from '../../base/sealed-bytes.ts'
import { nanoUsdOf, zeroUsd } from '../../base/money.ts'
import type { BatchPath } from '../../contract/batch-state.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { settleRecords, type Settlement } from '../../domain/settlement.ts'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import {
  BATCH_WAKE,
  cancelBatch as moveToCancelling,
  countOpenBatches,
  countResults,
  deleteBatch as removeBatch,
  findBatch,
  insertBatch,
  isReadByBatch,
  type Batch,
} from '../../store/batch/batch.ts'
import { nameBatch, writeResults, type LineResult } from '../../store/batch/batch-line.ts'
import { findFile } from '../../store/file/file.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { discardFile, type FileApp } from '../file/file.ts'
import { settleIn } from '../money/treasury.ts'

export interface BatchInput {
  readonly inputFileId: string
  readonly endpoint: BatchPath
  readonly metadata: Readonly<Record<string, string>> | null
  /** null: result files expire after the default time. */
  readonly outputSeconds: number | null
  /** The number of lines. Absent: unknown until the file is read. */
  readonly lines?: number
}

export async function createBatch(
  { vault }: Pick<App, 'vault'>,
  tx: Tx,
  actor: Actor,
  input: BatchInput,
): Promise<Result<Batch>> {
  const { accountId, keyId } = actor
  const open = await countOpenBatches(tx, accountId)
  if (open >= limits.batchesPerAccount) return fail('too_many_batches', { max: limits.batchesPerAccount })
  const file = await findFile(tx.db, accountId, input.inputFileId)
  if (file === undefined) return failField(['input_file_id'], 'stored_file_not_found', { failureKind: 'not_found' })
  if (file.purpose !== 'batch') return failField(['input_file_id'], 'not_batch_input')
  tx.wake.add(BATCH_WAKE)
  return ok(
    await insertBatch(tx, {
      id: randomId('batch'),
      accountId,
      apiKeyId: keyId,
      keySealed: vault.seal(newContentKey()),
      ...input,
    }),
  )
}

/** Finished results are kept. Cancelling a batch that is being cancelled changes nothing. */
export async function cancelBatch(tx: Tx, { accountId }: Pick<Actor, 'accountId'>, id: string): Promise<Result<Batch>> {
  const batch = await findBatch(tx.db, accountId, id)
  if (batch === undefined) return fail('batch_not_found')
  if (batch.status === 'cancelling') return ok(batch)
  const moved = await moveToCancelling(tx, id)
  return moved === undefined ? fail('batch_has_ended') : ok(moved)
}

/** Deletes a batch with its input and its results, unless another batch reads the input. */
export async function deleteBatch(app: FileApp, batch: Batch): Promise<Result<void>> {
  const isDeleted = await transact(app.database, (tx) => removeBatch(tx, batch.id))
  if (!isDeleted) return fail('batch_not_ended')
  const { db } = app.database
  for (const id of [batch.input_file_id, batch.output_file_id, batch.error_file_id]) {
    const file = id === null ? undefined : await findFile(db, batch.account_id, id)
    if (file !== undefined && !(await isReadByBatch(db, file.id))) await discardFile(app, file)
  }
  return ok(undefined)
}

/** A result, with the record of its request if the request is charged. */
export interface EndedLine extends LineResult {
  readonly record?: InferenceRecord | undefined
}

/**
 * Writes results and charges their requests, all or nothing. Only lines that this server still leases count: if another
 * server runs a line meanwhile, it is charged there. Returns the ids of the charged requests.
 */
export async function storeResults(
  { database }: Pick<App, 'database'>,
  { gatewayId, token, batch }: { gatewayId: string; token: string; batch: Pick<Batch, 'id' | 'created_at'> },
  ended: readonly EndedLine[],
): Promise<ReadonlySet<string>> {
  return transact(database, async (tx) => {
    const written = await writeResults(tx, batch.id, token, ended)
    // A line whose lease ended may have been run twice: only one result counts.
    const lines = ended.filter(({ line }) => written.delete(line))
    const records = lines.flatMap(({ record }) => record ?? [])
    const ids = records.map(({ requestId }) => requestId)
    const settle = (settlement: Settlement): Promise<void> => settleIn(tx, gatewayId, settlement)
    await settleRecords({ settle }, records)
    await nameBatch(tx, batch.id, ids, batch.created_at)
    await countResults(tx, batch.id, {
      completed: lines.filter(({ isFailed }) => !isFailed).length,
      failed: lines.filter(({ isFailed }) => isFailed).length,
      cost: nanoUsdOf(records.reduce((sum, { cost }) => sum + cost, zeroUsd as bigint)),
    })
    return new Set(ids)
  })
}
