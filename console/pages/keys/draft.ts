/** A key as it is typed into the form, and as it is sent. What is left empty is no limit. */
import { DAY_MS, addMs, formatInstant, parseInstant, type Instant } from '../../../src/base/instant.ts'
import { parseUsd } from '../../../src/base/money.ts'
import type { CallInput } from '../../../src/client/client.ts'
import type { Scope } from '../../../src/contract/endpoint.ts'

export interface KeyDraft {
  readonly name: string
  /** Empty: for oneself. */
  readonly memberId: string
  readonly scopes: readonly Scope[]
  /** Days from now, `never`, or `day` for the one below. */
  readonly expiry: string
  readonly expiryDay: string
  readonly monthlyLimitUsd: string
  readonly totalLimitUsd: string
  readonly requestsPerMinute: string
  readonly tokensPerMinute: string
  /** One a line. */
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

export type DraftFaults = { readonly [field in keyof KeyDraft]?: string }

/** What is wrong, by field, in words. The server has the last word. */
export function draftFaults(draft: KeyDraft, now: Instant): DraftFaults {
  const expiresAt = expiryOf(draft, now)
  return {
    ...(draft.name.trim() === '' ? { name: 'Give it a name, so that you know it again.' } : {}),
    ...(draft.scopes.length === 0 ? { scopes: 'Choose at least one thing that it may do.' } : {}),
    ...(draft.expiry === 'day' && (expiresAt === undefined || expiresAt <= now)
      ? { expiryDay: 'Choose a day that is still to come.' }
      : {}),
    ...amountFault('monthlyLimitUsd', draft),
    ...amountFault('totalLimitUsd', draft),
    ...countFault('requestsPerMinute', draft, 1_000_000),
    ...countFault('tokensPerMinute', draft, 1_000_000_000),
  }
}

function amountFault(field: 'monthlyLimitUsd' | 'totalLimitUsd', draft: KeyDraft): DraftFaults {
  const text = draft[field].trim()
  const amount = text === '' ? undefined : parseUsd(text)
  const isFine = text === '' || (amount !== undefined && amount >= 0n)
  return isFine ? {} : { [field]: 'An amount in dollars, such as 12.50.' }
}

function countFault(field: 'requestsPerMinute' | 'tokensPerMinute', draft: KeyDraft, most: number): DraftFaults {
  const text = draft[field].trim()
  const isFine = text === '' || (/^\d{1,10}$/.test(text) && Number(text) >= 1 && Number(text) <= most)
  return isFine ? {} : { [field]: `A whole number from 1 to ${most.toLocaleString('en')}.` }
}

/** Of a draft that has no faults. */
export function bodyOf(draft: KeyDraft, now: Instant): CallInput<'createApiKey'>['body'] {
  const expiresAt = expiryOf(draft, now)
  const models = modelsOf(draft)
  const text = (field: 'monthlyLimitUsd' | 'totalLimitUsd'): object =>
    draft[field].trim() === '' ? {} : { [field]: draft[field].trim() }
  const whole = (field: 'requestsPerMinute' | 'tokensPerMinute'): object =>
    draft[field].trim() === '' ? {} : { [field]: Number(draft[field]) }
  return {
    name: draft.name.trim(),
    scopes: [...draft.scopes],
    ...(draft.memberId === '' ? {} : { memberId: draft.memberId }),
    ...(expiresAt === undefined ? {} : { expiresAt: formatInstant(expiresAt) }),
    ...(models.length === 0 ? {} : { allowedModels: models }),
    ...text('monthlyLimitUsd'),
    ...text('totalLimitUsd'),
    ...whole('requestsPerMinute'),
    ...whole('tokensPerMinute'),
  }
}

export function modelsOf(draft: KeyDraft): string[] {
  return [...new Set(draft.allowedModels.split(/[\n,]/).map((name) => name.trim()))].filter((name) => name !== '')
}

/** A day counts to its end, where the person is. undefined: never, or no day was chosen. */
function expiryOf(draft: KeyDraft, now: Instant): Instant | undefined {
  if (draft.expiry === 'never') return undefined
  if (draft.expiry !== 'day') return addMs(now, Number(draft.expiry) * DAY_MS)
  return draft.expiryDay === '' ? undefined : parseInstant(`${draft.expiryDay}T23:59:59`)
}
