/**
 * A quote: an order with its price, its spending limit and its end, for one key and five minutes. The order is part of
 * the token, so nothing of it can change between the price that somebody saw and the order that is placed. The
 * idempotency key of the order follows from the quote: repeated calls place it once.
 */
import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { addMs, instantOf, MINUTE_MS, type Instant } from '../../base/instant.ts'
import type { App } from '../../app/app.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { readSigned, signText } from './signed-text.ts'

const PURPOSE = 'mcp quote'
const QUOTE_MS = 5 * MINUTE_MS
/** An order with its variables and command. */
export const MAX_QUOTE_CHARS = 16_384

const quotedOperations = ['createRental', 'createVolume', 'createManagedDeployment'] as const
export type QuotedOperation = (typeof quotedOperations)[number]

const quote = z.strictObject({
  id: z.string(),
  keyId: z.string(),
  accountId: z.string(),
  operation: z.enum(quotedOperations),
  /** The body of the operation. */
  order: z.record(z.string(), z.unknown()),
  /** The name of the order in questions. */
  name: z.string(),
  costPerHourUsd: z.string(),
  /** The most that it can cost. */
  maxCostUsd: z.string(),
  expiresAt: z.number(),
})
export type Quote = z.output<typeof quote>

type Owner = { readonly keyId: string; readonly accountId: string }

export function signQuote(
  { vault, clock }: Pick<App, 'vault' | 'clock'>,
  owner: Owner,
  terms: Omit<Quote, 'id' | 'keyId' | 'accountId' | 'expiresAt'>,
): { readonly token: string; readonly expiresAt: Instant } {
  const expiresAt = addMs(clock.now(), QUOTE_MS)
  const { keyId, accountId } = owner
  const signed: Quote = { id: randomBytes(12).toString('hex'), keyId, accountId, ...terms, expiresAt }
  return { token: signText(vault, PURPOSE, signed), expiresAt }
}

export function readQuote(
  { vault, clock }: Pick<App, 'vault' | 'clock'>,
  owner: Owner,
  operation: QuotedOperation,
  token: string,
): Result<Quote> {
  const read = quote.safeParse(readSigned(vault, PURPOSE, token))
  if (!read.success || read.data.operation !== operation) return fail('quote_invalid')
  const { keyId, accountId, expiresAt } = read.data
  if (keyId !== owner.keyId || accountId !== owner.accountId) return fail('quote_of_other_key')
  if (instantOf(expiresAt) <= clock.now()) return fail('quote_expired')
  return ok(read.data)
}

export function idempotencyKeyOf({ id }: Quote): string {
  return `mcp-${id}`
}
