/** The quota of an account: the defaults of base/limits, overridden by the operator. */
import { defaultQuota, type Quota } from '../base/limits.ts'
import { fail, type Failure } from '../contract/result.ts'

/** The fields an operator changes; the others stay the same. */
export type QuotaChange = { readonly [noun in keyof Quota]?: Quota[noun] | undefined }

const nouns = Object.keys(defaultQuota) as Array<keyof Quota>

const labels: Readonly<Record<keyof Quota, string>> = {
  gpus: 'GPUs',
  volumes: 'volumes',
  volumeGb: 'GB of volume storage',
  keys: 'API keys',
  sshKeys: 'SSH keys',
  webhooks: 'webhooks',
  requestsPerMinute: 'inference requests per minute',
  tokensPerMinute: 'tokens per minute',
  streams: 'concurrent inference requests',
}

/** `overrides` is the value in the account's row. */
export function quotaOf(overrides: Partial<Quota>): Quota {
  return { ...defaultQuota, ...overrides }
}

/** The value to store after a change: only differences, so that a raised default reaches the other accounts. */
export function mergeQuota(stored: Partial<Quota>, change: QuotaChange): Partial<Quota> {
  const merged: Partial<Record<keyof Quota, number>> = {}
  for (const noun of nouns) {
    const value = change[noun] ?? stored[noun]
    if (value !== undefined && value !== defaultQuota[noun]) merged[noun] = value
  }
  return merged
}

export function quotaExceeded(noun: keyof Quota, quota: Quota): Failure {
  return fail('quota_exceeded', { quota: `${quota[noun]} ${labels[noun]}` })
}
