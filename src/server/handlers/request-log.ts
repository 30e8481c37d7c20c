/** The log of inference requests over HTTP. */
import { listRequests, readRequest, type RequestEntry } from '../../app/serving/request-log.ts'
import { instantOf } from '../../base/instant.ts'
import { ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { holdsScope } from '../../domain/api-key.ts'
import type { RequestPlace } from '../../store/request/request-log.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'

export const requestLogHandlers = {
  listInferenceRequests: async (app, { actor, query }) => {
    const after = query.cursor === undefined ? undefined : decodePlace(query.cursor)
    if (query.cursor !== undefined && after === undefined) return badCursor()
    const entries = await listRequests(app, actor, {
      filter: {
        ...(query.model === undefined ? {} : { model: query.model }),
        ...(query.keyId === undefined ? {} : { apiKeyId: query.keyId }),
        ...(query.operation === undefined ? {} : { operation: query.operation }),
        ...(query.inBatch === undefined ? {} : { isInBatch: query.inBatch }),
        ...(query.outcome === undefined ? {} : { outcome: query.outcome }),
        ...(query.since === undefined ? {} : { since: query.since }),
      },
      ...(after === undefined ? {} : { after }),
      limit: rowsToAsk(query.limit),
    })
    if (!entries.ok) return entries
    const page = pageOf(entries.value, query.limit, ({ at, requestId }) => `${at}:${requestId}`)
    return ok({ requests: page.rows.map(requestOnWire), nextCursor: page.nextCursor })
  },

  getInferenceRequest: async (app, { actor, params }) => {
    const entry = await readRequest(app, actor, { requestId: params.id })
    if (!entry.ok) return entry
    // Prompts and answers of another key are visible only to keys that manage keys.
    const mayRead = entry.value.apiKeyId === actor.keyId || holdsScope(actor.scopes, 'keys')
    const { requestBody, responseBody } = mayRead ? entry.value : { requestBody: null, responseBody: null }
    return ok({ ...requestOnWire(entry.value), requestBody, responseBody })
  },
} satisfies Partial<Handlers>

/** Rows have no number, so time and id together mark the end of a page. */
function decodePlace(cursor: string): RequestPlace | undefined {
  const [, ms = '', requestId = ''] = /^(\d{1,15}):(.+)$/.exec(decodeCursor(cursor) ?? '') ?? []
  return ms === '' ? undefined : { at: instantOf(Number.parseInt(ms, 10)), requestId }
}

function requestOnWire(entry: RequestEntry): ResponseOf<Api['listInferenceRequests']>['requests'][number] {
  return {
    requestId: entry.requestId,
    at: entry.at,
    keyId: entry.apiKeyId,
    operation: entry.operation,
    model: entry.model,
    status: entry.status,
    outcome: entry.outcome,
    reason: entry.reason,
    streamed: entry.streamed,
    inputUnits: Number(entry.inputUnits),
    cachedUnits: Number(entry.cachedUnits),
    outputUnits: Number(entry.outputUnits),
    costUsd: entry.cost,
    firstByteMs: entry.firstByteMs,
    totalMs: entry.totalMs,
    traceId: entry.traceId,
    batchId: entry.batchId,
  }
}
