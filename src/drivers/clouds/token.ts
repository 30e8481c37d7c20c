/** Bearer tokens that expire: one per account, renewed shortly before it expires or when the vendor rejects it. */
import { addMs, type Clock, type Instant } from '../../base/instant.ts'
import type { HttpOptions } from './http.ts'

export interface Token {
  readonly text: string
  readonly lifetimeMs: number
}

/** A token is not used this long before it expires, since a request may wait for its turn. */
const EARLY_MS = 60_000

/** `ask` uses a separate HTTP client, which does not authorize its requests. */
export function bearerTokens(clock: Clock, ask: (signal: AbortSignal) => Promise<Token>): HttpOptions['authorize'] {
  let current: { readonly text: string; readonly until: Instant } | undefined
  let request: Promise<string> | undefined
  const renew = async (): Promise<string> => {
    // All waiting requests share this one, so none of them may abort it. The client has a timeout.
    const { text, lifetimeMs } = await ask(new AbortController().signal)
    // A short-lived token is used for half of its lifetime.
    current = { text, until: addMs(clock.now(), Math.max(lifetimeMs - EARLY_MS, lifetimeMs / 2)) }
    return text
  }
  return async (_sent, rejected) => {
    if (!rejected && current !== undefined && clock.now() < current.until)
      return { authorization: `Bearer ${current.text}` }
    request ??= renew().finally(() => {
      request = undefined
    })
    return { authorization: `Bearer ${await request}` }
  }
}
