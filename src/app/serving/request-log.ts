/** The log of an account's inference requests, with bodies for accounts that store them. */
import type { Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import {
  findLoggedRequest,
  listLoggedRequests,
  type ListedRequest,
  type RequestFilter,
  type RequestPlace,
} from '../../store/request/request-log.ts'
import type { Actor, App } from '../app.ts'

export interface RequestEntry {
  readonly requestId: string
  readonly apiKeyId: string
  readonly operation: string
  readonly model: string
  /** null: the request did not reach a deployment. */
  readonly deployment: string | null
  readonly at: Instant
  readonly status: number
  readonly outcome: InferenceRecord['outcome']
  readonly reason: string | null
  readonly streamed: boolean
  readonly inputUnits: bigint
  readonly cachedUnits: bigint
  readonly outputUnits: bigint
  readonly cost: NanoUsd
  /** null: no byte was received. */
  readonly firstByteMs: number | null
  readonly totalMs: number
  readonly traceId: string
  /** null: sent by itself. */
  readonly batchId: string | null
}

export interface RequestDetail extends RequestEntry {
  /** null: not stored, or deleted. */
  readonly requestBody: string | null
  readonly responseBody: string | null
}

/** Newest first. The position of the last entry is the cursor of the next page. */
export async function listRequests(
  app: App,
  actor: Actor,
  input: { filter: RequestFilter; after?: RequestPlace; limit: number },
): Promise<Result<RequestEntry[]>> {
  const rows = await listLoggedRequests(app.database.db, actor.accountId, { ...input, now: app.clock.now() })
  return ok(rows.map(entryOf))
}

export async function readRequest(
  app: App,
  actor: Actor,
  input: { requestId: string },
): Promise<Result<RequestDetail>> {
  const row = await findLoggedRequest(app.database.db, actor.accountId, input.requestId)
  if (row === undefined) {
    return fail('request_not_found')
  }
  const open = (sealed: string | null): string | null => (sealed === null ? null : app.vault.open(sealed))
  return ok({ ...entryOf(row), requestBody: open(row.request_body), responseBody: open(row.response_body) })
}

function entryOf(row: ListedRequest): RequestEntry {
  return {
    requestId: row.request_id,
    apiKeyId: row.api_key_id,
    operation: row.operation,
    model: row.model,
    deployment: row.deployment,
    at: row.at,
    status: row.status,
    outcome: row.outcome,
    reason: row.reason,
    streamed: row.streamed,
    inputUnits: row.input_units,
    cachedUnits: row.cached_units,
    outputUnits: row.output_units,
    cost: row.cost_nano,
    firstByteMs: row.first_byte_ms,
    totalMs: row.total_ms,
    traceId: row.trace_id,
    batchId: row.batch_id,
  }
}
