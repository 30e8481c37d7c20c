/** A clock that several processes share and that runs fast, so that list lags and leases pass within a test. */
import { instantOf, systemClock, type Clock } from '../../src/base/instant.ts'
import { waitOn } from '../../src/base/wait.ts'

const SPEED = 40

/** `epoch`: when it began, in milliseconds since 1970. `aheadMs`: what it has skipped since. */
export function fastClock(epoch: number, aheadMs = 0): Clock {
  return {
    now: () => instantOf(epoch + (systemClock.now() - epoch) * SPEED + aheadMs),
    wait: (ms, signal) => waitOn(systemClock, ms / SPEED, signal),
  }
}
