/** Opens what knows the callers of this server: their keys and their request rates. */
import type { App } from '../../app/app.ts'
import { takeRateSlice } from '../../store/request/rate-window.ts'
import { makeAuthenticator, type Authenticator } from '../http/authenticate.ts'
import { makeRateLimiter, type RateLimiter } from '../http/rate-limit.ts'
import type { Workers } from '../workers/workers.ts'
import type { Context, Part } from './part.ts'

export interface Callers extends Part {
  readonly authenticator: Authenticator
  readonly rates: RateLimiter
}

export function openCallers(
  { clock, log }: Context,
  { database }: Pick<App, 'database'>,
  workers: Pick<Workers, 'forgetKeys' | 'recallRate'>,
): Callers {
  const authenticator = makeAuthenticator({
    database,
    clock,
    log,
    onForget: (changed) => workers.forgetKeys(changed),
  })
  const rates = makeRateLimiter({
    takeSlice: (request) => takeRateSlice(database.db, request),
    clock,
    recall: (subject, minute, except) => workers.recallRate(subject, minute, except),
  })
  return { authenticator, rates, close: () => authenticator.close() }
}
