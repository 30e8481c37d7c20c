/** Completed inference requests, for tests of their records. */
import { instantOf } from '../../src/base/instant.ts'
import type { InferenceRecord } from '../../src/domain/purse.ts'

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
    units: { inputTokens: 10, cachedTokens: 4, outputTokens: 20, pixelSteps: 0, characters: 0 },
    cost: '0',
    firstByteMs: 12.5,
    totalMs: 80.25,
    traceId: '0123456789abcdef0123456789abcdef',
    requestBody: null,
    responseBody: null,
    ...more,
  }
}
