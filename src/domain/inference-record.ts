/** The record of a finished request. */
import type { Instant } from '../base/instant.ts'
import type { NanoUsd } from '../base/money.ts'
import type { InferenceUnits } from './inference.ts'

/** A finished request, as written to the journal and the database. */
export interface InferenceRecord {
  readonly requestId: string
  readonly accountId: string
  readonly apiKeyId: string
  /** null: it cost nothing. */
  readonly holdKey: string | null
  readonly operation: string
  readonly model: string
  readonly deployment: string | null
  readonly at: Instant
  readonly status: number
  readonly outcome: 'answered' | 'cut' | 'broken' | 'failed'
  readonly reason: string | null
  readonly streamed: boolean
  readonly units: InferenceUnits
  readonly cost: NanoUsd
  readonly firstByteMs: number | null
  readonly totalMs: number
  readonly traceId: string
  readonly requestBody: string | null
  readonly responseBody: string | null
}
