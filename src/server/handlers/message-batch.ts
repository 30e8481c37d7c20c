/** Batches of messages over HTTP, in the form of Anthropic's API. Its requests become the lines of an input file. */
import { createHash } from 'node:crypto'
import type { App } from '../../app/app.ts'
import { cancelBatch, createBatch, deleteBatch } from '../../app/batch/batch.ts'
import { discardFile, writeFile } from '../../app/file/file.ts'
import { createOnce } from '../../app/idempotency.ts'
import { addMs, DAY_MS, SECOND_MS, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Api } from '../../contract/api.ts'
import type { BatchPath } from '../../contract/batch-state.ts'
import type { BodyOf, ResponseOf } from '../../contract/endpoint.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { Caller } from '../../gateway/call.ts'
import { refuseModel } from '../../gateway/dialect/chat-call.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { endOfBatch, findBatch, listBatches, type Batch } from '../../store/batch/batch.ts'
import { finishFile } from '../../store/file/file.ts'
import { transact, type Db } from '../../store/platform/database.ts'
import type { HandlerRequest, Handlers } from '../http/handler.ts'

const PATH: BatchPath = '/v1/messages'
const FILE_NAME = 'message_batch.jsonl'

type Models = Pick<Gateway, 'catalog' | 'whenKnown'>
type MessageBatch = ResponseOf<Api['getMessageBatch']>
type Requests = BodyOf<Api['createMessageBatch']>['requests']
type MessageBatchHandlers = Pick<
  Handlers,
  'createMessageBatch' | 'listMessageBatches' | 'getMessageBatch' | 'cancelMessageBatch' | 'deleteMessageBatch'
>

export function messageBatchHandlers(gateway: Models): MessageBatchHandlers {
  return {
    createMessageBatch: (app, request) => createMessageBatch(gateway, app, request),

    listMessageBatches: async (app, { actor, query, baseUrl }) => {
      const { db } = app.database
      const [after, before] = [
        await findPlace(db, actor, query, 'after_id'),
        await findPlace(db, actor, query, 'before_id'),
      ]
      if (!after.ok) return after
      if (!before.ok) return before
      const range = { after: after.value, before: before.value, limit: query.limit + 1 }
      const batches = await listBatches(db, actor.accountId, { ...range, endpoint: PATH })
      const isBackwards = before.value !== undefined
      const page = isBackwards ? batches.slice(-query.limit) : batches.slice(0, query.limit)
      const data = page.map((batch) => messageBatchOnWire(batch, app.clock.now(), baseUrl))
      const has_more = batches.length > query.limit
      return ok({ data, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more })
    },

    getMessageBatch: async (app, { actor, params, baseUrl }) => {
      const batch = await findMessageBatch(app.database.db, actor.accountId, params.id)
      return batch.ok ? ok(messageBatchOnWire(batch.value, app.clock.now(), baseUrl)) : batch
    },

    cancelMessageBatch: async (app, { actor, params, baseUrl }) =>
      transact(app.database, async (tx) => {
        const batch = await findMessageBatch(tx.db, actor.accountId, params.id)
        const cancelled = batch.ok ? await cancelBatch(tx, actor, params.id) : batch
        return cancelled.ok ? ok(messageBatchOnWire(cancelled.value, tx.clock.now(), baseUrl)) : cancelled
      }),

    deleteMessageBatch: async (app, { actor, params: { id } }) => {
      const batch = await findMessageBatch(app.database.db, actor.accountId, id)
      if (!batch.ok) return batch
      const deletion = await deleteBatch(app, batch.value)
      return deletion.ok ? ok({ id, type: 'message_batch_deleted' as const }) : deletion
    },
  }
}

async function createMessageBatch(
  gateway: Models,
  app: App,
  request: HandlerRequest<'createMessageBatch'>,
): Promise<Result<MessageBatch>> {
  const { actor, allowedModels, operation, idempotencyKey, body, baseUrl } = request
  const refused = await refuseRequests(gateway, { accountId: actor.accountId, allowedModels }, body.requests)
  if (refused !== undefined) return refused
  const digest = createHash('sha256')
  const lines = async function* (): AsyncGenerator<Buffer> {
    for (const { custom_id, params } of body.requests) {
      const line = Buffer.from(`${JSON.stringify({ custom_id, method: 'POST', url: PATH, body: params })}\n`)
      digest.update(line)
      yield line
    }
  }
  const input = { accountId: actor.accountId, name: FILE_NAME, purpose: 'batch', isLimited: true } as const
  const file = await writeFile(app, input, lines())
  if (!file.ok) return file
  let ownId: string | undefined
  const once = { key: idempotencyKey, operation, request: { digest: digest.digest('hex') } }
  const created = await createOnce(app, actor, once, async (tx) => {
    if ((await finishFile(tx, file.value.id, file.value.expires_at)) === undefined) {
      return fail('stored_file_not_found')
    }
    const batch = await createBatch(app, tx, actor, {
      inputFileId: file.value.id,
      endpoint: PATH,
      metadata: null,
      outputSeconds: null,
      lines: body.requests.length,
    })
    ownId = batch.ok ? batch.value.id : undefined
    return batch.ok ? ok(messageBatchOnWire(batch.value, tx.clock.now(), baseUrl)) : batch
  })
  // The first answer to this key names the batch of that request, which has a file of its own.
  if (!created.ok || created.value.id !== ownId) await discardFile(app, file.value)
  return created
}

/** Batches of chats are none of messages, whoever created them. */
export async function findMessageBatch(db: Db, accountId: string, id: string): Promise<Result<Batch>> {
  const batch = await findBatch(db, accountId, id)
  return batch?.endpoint === PATH ? ok(batch) : fail('batch_not_found')
}

async function findPlace(
  db: Db,
  { accountId }: { readonly accountId: string },
  query: { readonly [field in 'after_id' | 'before_id']?: string | undefined },
  field: 'after_id' | 'before_id',
): Promise<Result<Batch | undefined>> {
  const id = query[field]
  if (id === undefined) return ok(undefined)
  const batch = await findMessageBatch(db, accountId, id)
  return batch.ok ? batch : fail('batch_not_found', { field: [field] })
}

/** The schema has checked each request by itself. */
async function refuseRequests(
  gateway: Models,
  caller: Pick<Caller, 'accountId' | 'allowedModels'>,
  requests: Requests,
): Promise<Failure | undefined> {
  const name = requests[0]?.params.model ?? ''
  const ids = new Set<string>()
  for (const [at, { custom_id: id, params }] of requests.entries()) {
    if (ids.has(id)) return refusal(['requests', at, 'custom_id'], 'Another request has it.')
    ids.add(id)
    if (params.model !== name) {
      return refusal(['requests', at, 'params', 'model'], 'All requests of a batch must have the same model.')
    }
  }
  await gateway.whenKnown(name, caller)
  const model = gateway.catalog.get(name)
  const refused = refuseModel(model, name, caller, 'requests.0.params.model')
  // A model that is being started will answer in time.
  if (refused !== undefined && refused.kind !== 'unavailable') return refused
  if (model === undefined || model.kind === 'chat') return undefined
  return failField(['requests', 0, 'params', 'model'], 'wrong_model_kind', { model: name, kind: model.kind })
}

function refusal(field: ReadonlyArray<string | number>, fault: string): Failure {
  return failField([...field], 'invalid_value', { message: `${field.join('.')}: ${fault}` })
}

function messageBatchOnWire(batch: Batch, now: Instant, baseUrl = ''): MessageBatch {
  const endedAt = endOfBatch(batch)
  const archivedAt = endedAt === null ? null : archiveTimeOf(batch, endedAt)
  const isArchived = archivedAt !== null && archivedAt <= now
  return {
    id: batch.id,
    type: 'message_batch',
    processing_status: endedAt === null ? (batch.status === 'cancelling' ? 'canceling' : 'in_progress') : 'ended',
    request_counts: countsOf(batch, endedAt !== null),
    created_at: batch.created_at,
    expires_at: batch.expires_at,
    cancel_initiated_at: batch.cancelling_at,
    ended_at: endedAt,
    archived_at: isArchived ? archivedAt : null,
    results_url: endedAt === null || isArchived ? null : `${baseUrl}${PATH}/batches/${batch.id}/results`,
  }
}

function archiveTimeOf({ output_seconds: seconds }: Batch, endedAt: Instant): Instant {
  return addMs(endedAt, seconds === null ? limits.fileDays * DAY_MS : seconds * SECOND_MS)
}

function countsOf(batch: Batch, hasEnded: boolean) {
  const { lines, completed, failed, status } = batch
  const none = { processing: 0, succeeded: 0, errored: 0, canceled: 0, expired: 0 }
  if (!hasEnded) return { ...none, processing: lines }
  const unanswered = lines - completed - failed
  const answered = { ...none, succeeded: completed, errored: failed }
  if (status === 'failed') return { ...none, errored: lines }
  return status === 'cancelled' ? { ...answered, canceled: unanswered } : { ...answered, expired: unanswered }
}
