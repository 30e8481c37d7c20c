/** The quota of an account: the defaults of base/limits, overridden by the operator. */
import { defaultQuota, stageQuota, type Quota, type Stage } from '../base/limits.ts'
import { quotaNames, quotaTexts } from '../contract/quota-text.ts'
import { fail, type Failure } from '../contract/result.ts'

/** The fields an operator changes; the others stay the same. */
export type QuotaChange = { readonly [noun in keyof Quota]?: Quota[noun] | undefined }

/** `overrides` come from the account's row. */
export function quotaOf(overrides: Partial<Quota>, stage: Stage = 'trusted'): Quota {
  return { ...defaultQuota, ...stageQuota[stage], ...overrides }
}

/** The usual limit of each stage, as place_orders reads it (schema/0091_account_stage.sql). */
export const hourlyLimits: Readonly<Record<Stage, number>> = {
  new: quotaOf({}, 'new').hourlySpendUsd,
  paid: quotaOf({}, 'paid').hourlySpendUsd,
  trusted: quotaOf({}, 'trusted').hourlySpendUsd,
}

/**
 * The overrides after a change. Values equal to the default are dropped, so that a raised default reaches the account.
 */
export function mergeQuota(stored: Partial<Quota>, change: QuotaChange, stage: Stage = 'trusted'): Partial<Quota> {
  const usual = quotaOf({}, stage)
  const merged: Partial<Record<keyof Quota, number>> = {}
  for (const noun of quotaNames) {
    const value = change[noun] ?? stored[noun]
    if (value !== undefined && value !== usual[noun]) merged[noun] = value
  }
  return merged
}

export function quotaExceeded(noun: keyof Quota, quota: Quota): Failure {
  return fail('quota_exceeded', { quota: `${quota[noun]} ${quotaTexts[noun]}` })
}
