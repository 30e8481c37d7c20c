/** Batches over HTTP, in the form of OpenAI's API. */
import { cancelBatch, createBatch } from '../../app/batch/batch.ts'
import { createOnce } from '../../app/idempotency.ts'
import type { Instant } from '../../base/instant.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { fail, ok } from '../../contract/result.ts'
import { findBatch, listBatches, type Batch } from '../../store/batch/batch.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'
import { pageOnWire, secondsOf } from './file.ts'

export const batchHandlers = {
  createBatch: async (app, { actor, operation, idempotencyKey, body }) => {
    const { input_file_id: inputFileId, endpoint, metadata, output_expires_after: expiry } = body
    const input = { inputFileId, endpoint, metadata: metadata ?? null, outputSeconds: expiry?.seconds ?? null }
    return createOnce(app, actor, { key: idempotencyKey, operation, request: body }, async (tx) => {
      const batch = await createBatch(app, tx, actor, input)
      return batch.ok ? ok(batchOnWire(batch.value)) : batch
    })
  },

  listBatches: async (app, { actor, query }) => {
    const { db } = app.database
    const after = query.after === undefined ? undefined : await findBatch(db, actor.accountId, query.after)
    if (query.after !== undefined && after === undefined) return fail('batch_not_found', { field: ['after'] })
    const batches = await listBatches(db, actor.accountId, { after, limit: query.limit + 1 })
    return ok(pageOnWire(batches.map(batchOnWire), query.limit))
  },

  getBatch: async (app, { actor, params }) => {
    const batch = await findBatch(app.database.db, actor.accountId, params.id)
    return batch === undefined ? fail('batch_not_found') : ok(batchOnWire(batch))
  },

  cancelBatch: async (app, { actor, params }) => {
    const batch = await transact(app.database, (tx) => cancelBatch(tx, actor, params.id))
    return batch.ok ? ok(batchOnWire(batch.value)) : batch
  },
} satisfies Partial<Handlers>

function batchOnWire(batch: Batch): ResponseOf<Api['getBatch']> {
  return {
    id: batch.id,
    object: 'batch',
    endpoint: batch.endpoint,
    model: batch.model,
    errors: batch.errors === null ? null : { object: 'list', data: batch.errors },
    input_file_id: batch.input_file_id,
    completion_window: '24h',
    status: batch.status,
    output_file_id: batch.output_file_id,
    error_file_id: batch.error_file_id,
    created_at: secondsOf(batch.created_at),
    in_progress_at: secondsOrNull(batch.in_progress_at),
    expires_at: secondsOf(batch.expires_at),
    finalizing_at: secondsOrNull(batch.finalizing_at),
    completed_at: secondsOrNull(batch.completed_at),
    failed_at: secondsOrNull(batch.failed_at),
    expired_at: secondsOrNull(batch.expired_at),
    cancelling_at: secondsOrNull(batch.cancelling_at),
    cancelled_at: secondsOrNull(batch.cancelled_at),
    request_counts: { total: batch.lines, completed: batch.completed, failed: batch.failed },
    metadata: batch.metadata,
    cost_usd: batch.cost_nano,
    waiting_for: batch.status === 'in_progress' ? batch.waits_for : null,
  }
}

function secondsOrNull(at: Instant | null): number | null {
  return at === null ? null : secondsOf(at)
}
