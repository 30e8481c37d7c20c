/** Dangerous operations need a recent sign-in, because anybody can use an unlocked screen. */
import type { Clock } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { fail, type Failure } from '../../contract/result.ts'
import type { Actor } from '../app.ts'

/** Keys are always accepted. */
export function refuseOldSignIn(clock: Clock, { session }: Actor): Failure | undefined {
  if (session === undefined) return undefined
  return clock.now() - session.authAt > limits.recentSignInMs ? fail('recent_sign_in_required') : undefined
}
