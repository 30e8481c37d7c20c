/** Bearer tokens that expire: one per account, renewed shortly before its end or when the vendor rejects it. */
import { addMs, type Clock, type Instant } from '../../base/instant.ts'
import type { HttpOptions } from './http.ts'

export interface Token {
  readonly text: string
  readonly lifetimeMs: number
}

/** So long before its end a token is not used any more: a request may wait for its turn. */
const EARLY_MS = 60_000

/** `ask` goes through an HTTP client of its own, which does not authorize itself. */
export function bearerTokens(clock: Clock, ask: (signal: AbortSignal) => Promise<Token>): HttpOptions['authorize'] {
  let current: { readonly text: string; readonly until: Instant } | undefined
  let request: Promise<string> | undefined
  const renew = async (): Promise<string> => {
    // Shared by all requests that wait for it, so that none of them can abort it. The client has a timeout.
    const { text, lifetimeMs } = await ask(new AbortController().signal)
    // A short token is used for half of its life.
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
