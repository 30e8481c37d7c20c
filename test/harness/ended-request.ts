/** Completed inference requests, for tests of their records. */
import { sql } from 'kysely'
import { formatDay, instantOf, toDate } from '../../src/base/instant.ts'
import { zeroUsd, type NanoUsd } from '../../src/base/money.ts'
import type { InferenceRecord } from '../../src/domain/inference-record.ts'
import type { Db } from '../../src/store/platform/database.ts'

export function inferenceRecord(more: Partial<InferenceRecord> & { readonly requestId: string }): InferenceRecord {
  return {
    accountId: 'acc_test',
    apiKeyId: 'testkey',
    holdKey: null,
    operation: 'chat',
    model: 'model-a',
    deployment: 'dep_1',
    at: instantOf(Date.UTC(2026, 0, 1, 12)),
    status: 200,
    outcome: 'answered',
    reason: null,
    streamed: false,
    units: { inputTokens: 10, cachedTokens: 4, outputTokens: 20, pixelSteps: 0, characters: 0, soundMs: 0 },
    cost: zeroUsd,
    firstByteMs: 12.5,
    totalMs: 80.25,
    traceId: '0123456789abcdef0123456789abcdef',
    requestBody: null,
    responseBody: null,
    ...more,
  }
}

/** A settled request that nobody was charged for. */
export async function writeRequest(db: Db, more: Partial<InferenceRecord> & { readonly requestId: string }) {
  const record = inferenceRecord(more)
  const { units } = record
  const sums = {
    account_id: record.accountId,
    api_key_id: record.apiKeyId,
    model: record.model,
    input_units: BigInt(units.inputTokens),
    cached_units: BigInt(units.cachedTokens),
    output_units: BigInt(units.outputTokens),
    cost_nano: record.cost,
  }
  await db
    .insertInto('request')
    .values({
      ...sums,
      request_id: record.requestId,
      operation: record.operation,
      deployment: record.deployment,
      at: toDate(record.at),
      status: record.status,
      outcome: record.outcome,
      reason: record.reason,
      streamed: record.streamed,
      first_byte_ms: record.firstByteMs === null ? null : Math.round(record.firstByteMs),
      total_ms: Math.round(record.totalMs),
      trace_id: record.traceId,
    })
    .execute()
  if (record.requestBody !== null || record.responseBody !== null) {
    const bodies = { request: record.requestBody, response: record.responseBody }
    await db
      .insertInto('request_body')
      .values({ request_id: record.requestId, at: toDate(record.at), ...bodies })
      .execute()
  }
  const answered = units.inputTokens + units.outputTokens > 0 ? 1n : 0n
  await db
    .insertInto('request_day')
    .values({ ...sums, day: formatDay(record.at), requests: 1n, answered })
    .onConflict((same) =>
      same.columns(['account_id', 'day', 'api_key_id', 'model']).doUpdateSet((e) => ({
        requests: sql<bigint>`request_day.requests + 1`,
        answered: sql<bigint>`request_day.answered + ${e.ref('excluded.answered')}`,
        cost_nano: sql<NanoUsd>`request_day.cost_nano + ${e.ref('excluded.cost_nano')}`,
        input_units: sql<bigint>`request_day.input_units + ${e.ref('excluded.input_units')}`,
        cached_units: sql<bigint>`request_day.cached_units + ${e.ref('excluded.cached_units')}`,
        output_units: sql<bigint>`request_day.output_units + ${e.ref('excluded.output_units')}`,
      })),
    )
    .execute()
}

/** What was never charged would be reported by the ledger check. */
export async function forgetRequests(db: Db): Promise<void> {
  for (const table of ['request', 'request_day', 'request_body'] as const) await db.deleteFrom(table).execute()
}
