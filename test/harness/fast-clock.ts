/** A clock that several processes share and that runs fast, so that list lags and leases pass within a test. */
import { instantOf, systemClock, type Clock } from '../../src/base/instant.ts'
import { waitOn } from '../../src/base/wait.ts'

const SPEED = 40

/** `epoch`: when it began, in milliseconds since 1970. */
export function fastClock(epoch: number): Clock {
  return {
    now: () => instantOf(epoch + (systemClock.now() - epoch) * SPEED),
    wait: (ms, signal) => waitOn(systemClock, ms / SPEED, signal),
  }
}
