/** Notes which machines are online, every ten minutes on one of the servers. */
import type { App } from '../app/app.ts'
import { MINUTE_MS, SECOND_MS } from '../base/instant.ts'
import { takeTurn } from '../store/platform/lease.ts'
import { lookAtMachines } from '../store/machine/machine-uptime.ts'
import type { Reconciler } from './loop.ts'

const EVERY_MS = 10 * MINUTE_MS

export function watchUptime(app: App): Reconciler {
  return {
    name: 'machine-uptime',
    everyMs: EVERY_MS,
    run: async () => {
      // The turn is not ended early, so that other servers skip the same ten minutes. It is a little shorter than that,
      // because timers vary.
      const lease = { now: app.clock.now(), leaseMs: EVERY_MS - 10 * SECOND_MS }
      const turn = await takeTurn(app.database.db, 'machine-uptime', lease)
      if (turn !== undefined) await lookAtMachines(app.database.db, lease.now)
      return false
    },
  }
}
