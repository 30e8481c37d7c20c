/** Batches: their state, progress and faults. */
import { batchPaths, type BatchPath } from '../contract/batch-state.ts'
import type { Reply } from '../client/client.ts'
import { number } from './number.ts'
import type { Tone } from './tone.ts'

export type Batch = Reply<'getBatch'>

export const batchStatusLabels = {
  validating: ['Validating', 'info'],
  failed: ['Failed', 'bad'],
  in_progress: ['In progress', 'info'],
  finalizing: ['Finalizing', 'info'],
  completed: ['Completed', 'good'],
  expired: ['Expired', 'warn'],
  cancelling: ['Cancelling', 'info'],
  cancelled: ['Cancelled', 'plain'],
} as const satisfies Record<Batch['status'], readonly [label: string, tone: Tone]>

export const batchWaitLabels = {
  money: 'money: add to the balance, or raise the limit of the key or budget',
  capacity: 'an idle slot of the model',
} as const satisfies Record<NonNullable<Batch['waiting_for']>, string>

const endStatuses: ReadonlySet<Batch['status']> = new Set(['failed', 'completed', 'expired', 'cancelled'])

export function hasBatchEnded({ status }: Pick<Batch, 'status'>): boolean {
  return endStatuses.has(status)
}

/** `450 of 1,000`. Empty while the lines are not counted. */
export function linesDone({ request_counts: { total, completed, failed } }: Pick<Batch, 'request_counts'>): string {
  return total === 0 ? '' : `${number(completed + failed)} of ${number(total)}`
}

/** The same with failures: `450 of 1,000, 3 failed`. */
export function batchProgress(batch: Pick<Batch, 'request_counts'>): string {
  const { failed } = batch.request_counts
  return `${linesDone(batch)}${failed === 0 ? '' : `, ${number(failed)} failed`}`
}

/** The finished share, from 0 to 1. */
export function batchShare({ request_counts: { total, completed, failed } }: Pick<Batch, 'request_counts'>): number {
  return total === 0 ? 0 : (completed + failed) / total
}

/** The faults of the input file: `Line 3: url: Must be /v1/embeddings, as the batch has it`. */
export function batchFaults({ errors }: Pick<Batch, 'errors'>): string[] {
  return (errors?.data ?? []).map(
    ({ line, message, param }) =>
      `${line === null ? '' : `Line ${line}: `}${param === null || line === null ? '' : `${param}: `}${message}`,
  )
}

export function endedAt(batch: Batch): number | null {
  return batch.completed_at ?? batch.failed_at ?? batch.expired_at ?? batch.cancelled_at
}

/** The endpoint of a batch that begins with this line. undefined: the line names none that a batch can have. */
export function endpointOfLine(line: string): BatchPath | undefined {
  try {
    const { url } = JSON.parse(line) as { readonly url?: unknown }
    return batchPaths.find((one) => one === url)
  } catch {
    return undefined
  }
}
