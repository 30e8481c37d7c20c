/** A key as typed into the form, and as it is sent. */
import { DAY_MS, addMs, formatInstant, parseInstant, type Instant } from '../../../src/base/instant.ts'
import type { CallInput } from '../../../src/client/client.ts'
import type { Scope } from '../../../src/contract/endpoint.ts'
import { optionalNumber, optionalText } from '../../form/read.ts'

export interface KeyDraft {
  readonly name: string
  /** Empty: for oneself. */
  readonly memberId: string
  readonly scopes: readonly Scope[]
  /** Days from now, `never`, or `day` for `expiryDay`. */
  readonly expiry: string
  readonly expiryDay: string
  readonly monthlyLimitUsd: string
  readonly totalLimitUsd: string
  readonly requestsPerMinute: string
  readonly tokensPerMinute: string
  /** One per line. */
  readonly allowedModels: string
}

export const emptyDraft: KeyDraft = {
  name: '',
  memberId: '',
  scopes: [],
  expiry: 'never',
  expiryDay: '',
  monthlyLimitUsd: '',
  totalLimitUsd: '',
  requestsPerMinute: '',
  tokensPerMinute: '',
  allowedModels: '',
}

/** The schema checks the rest. */
export function checkDraft(draft: KeyDraft, now: Instant): { readonly expiryDay: string | undefined } {
  const expiresAt = expiryOf(draft, now)
  const isPast = draft.expiry === 'day' && (expiresAt === undefined || expiresAt <= now)
  return { expiryDay: isPast ? 'Choose a day in the future' : undefined }
}

export function bodyOf(draft: KeyDraft, now: Instant): CallInput<'createApiKey'>['body'] {
  const expiresAt = expiryOf(draft, now)
  const models = modelsOf(draft)
  return {
    name: draft.name.trim(),
    scopes: [...draft.scopes],
    memberId: optionalText(draft.memberId),
    expiresAt: expiresAt === undefined ? undefined : formatInstant(expiresAt),
    allowedModels: models.length === 0 ? undefined : models,
    monthlyLimitUsd: optionalText(draft.monthlyLimitUsd),
    totalLimitUsd: optionalText(draft.totalLimitUsd),
    requestsPerMinute: optionalNumber(draft.requestsPerMinute),
    tokensPerMinute: optionalNumber(draft.tokensPerMinute),
  }
}

export function modelsOf(draft: KeyDraft): string[] {
  return [...new Set(draft.allowedModels.split(/[\n,]/).map((name) => name.trim()))].filter((name) => name !== '')
}

/** A day counts to its end in the reader's time zone. undefined: never, or no day chosen. */
function expiryOf(draft: KeyDraft, now: Instant): Instant | undefined {
  if (draft.expiry === 'never') return undefined
  if (draft.expiry !== 'day') return addMs(now, Number(draft.expiry) * DAY_MS)
  return draft.expiryDay === '' ? undefined : parseInstant(`${draft.expiryDay}T23:59:59`)
}
