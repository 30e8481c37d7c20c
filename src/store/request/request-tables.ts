/** The tables of inference requests and their sums (schema/0044_requests.sql) as types; see store/platform/tables.ts. */
import type { InferenceRecord } from '../../domain/inference-record.ts'
import type { At, Nano, OrNull } from '../platform/column.ts'

export interface RequestTables {
  request: {
    request_id: string
    account_id: string
    api_key_id: string
    operation: string
    model: string
    deployment: OrNull<string>
    at: At
    status: number
    outcome: InferenceRecord['outcome']
    reason: OrNull<string>
    streamed: boolean
    input_units: bigint
    cached_units: bigint
    output_units: bigint
    cost_nano: Nano
    first_byte_ms: OrNull<number>
    total_ms: number
    trace_id: string
  }
  request_body: {
    request_id: string
    at: At
    request: OrNull<string>
    response: OrNull<string>
  }
  request_day: {
    account_id: string
    day: string
    api_key_id: string
    model: string
    requests: bigint
    answered: bigint
    cost_nano: Nano
    input_units: bigint
    cached_units: bigint
    output_units: bigint
  }
}
