/** The quota of an account: the defaults of base/limits, overridden by the operator. */
import { defaultQuota, type Quota } from '../base/limits.ts'
import { quotaNames, quotaTexts } from '../contract/quota-text.ts'
import { fail, type Failure } from '../contract/result.ts'

/** The fields an operator changes; the others stay the same. */
export type QuotaChange = { readonly [noun in keyof Quota]?: Quota[noun] | undefined }

/** `overrides` come from the account's row. */
export function quotaOf(overrides: Partial<Quota>): Quota {
  return { ...defaultQuota, ...overrides }
}

/**
 * The overrides after a change. Values equal to the default are dropped, so that a raised default reaches the account.
 */
export function mergeQuota(stored: Partial<Quota>, change: QuotaChange): Partial<Quota> {
  const merged: Partial<Record<keyof Quota, number>> = {}
  for (const noun of quotaNames) {
    const value = change[noun] ?? stored[noun]
    if (value !== undefined && value !== defaultQuota[noun]) merged[noun] = value
  }
  return merged
}

export function quotaExceeded(noun: keyof Quota, quota: Quota): Failure {
  return fail('quota_exceeded', { quota: `${quota[noun]} ${quotaTexts[noun]}` })
}
