/** The next step for a line that was not answered. */
import type { Failure } from '../../contract/result.ts'
import type { Reason } from '../../contract/reason/reasons.ts'

/** `retry`: the fault of an engine, which is counted. `wait`: nothing was tried. */
export type LineStep = 'give_up' | 'retry' | 'wait' | 'wait_for_money'

const steps: { readonly [R in Reason]?: LineStep } = {
  budget_exceeded: 'wait_for_money',
  key_spending_limit: 'wait_for_money',
  account_suspended: 'wait_for_money',
  engine_failed: 'retry',
  engine_timeout: 'retry',
  upstream_error: 'retry',
  internal_error: 'retry',
}

export function nextStepOf({ reason, kind }: Pick<Failure, 'reason' | 'kind'>): LineStep {
  const step = steps[reason]
  if (step !== undefined) return step
  if (kind === 'insufficient_balance') return 'wait_for_money'
  return kind === 'unavailable' || kind === 'rate_limited' ? 'wait' : 'give_up'
}
