/**
 * Why a provider's page led back without what was wanted. The address has the reason only, since a text in it could be
 * anybody's; the sentence comes from the table of reasons.
 */
import { textOf } from '../../src/contract/reason/reason-entry.ts'
import { reasons } from '../../src/contract/reason/reasons.ts'
import type { SignInWays } from '../../src/contract/session-body.ts'

const UNKNOWN = 'The provider did not sign you in. Try again, or choose another way.'
const byReason: Readonly<Record<string, (typeof reasons)[keyof typeof reasons] | undefined>> = reasons

export function refusalText(reason: string, provider: string): string {
  const entry = Object.hasOwn(reasons, reason) ? byReason[reason] : undefined
  if (entry === undefined) return UNKNOWN
  const details = { provider, domain: 'the required domain' }
  const { sentence, next } = entry
  // Only reasons of providers have details that are known here; anybody can write another reason into the address.
  if ((typeof sentence !== 'string' || typeof next === 'function') && !reason.startsWith('sso_')) return UNKNOWN
  return [sentence, next].flatMap((text) => (text === undefined ? [] : textOf(text, details))).join(' ')
}

/** The name on the provider's button. */
export function nameOf(id: string | undefined, ways: SignInWays | undefined): string {
  return ways?.providers.find((one) => one.id === id)?.name ?? 'The provider'
}
