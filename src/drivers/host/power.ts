/** Stop, start and reboot on our own hosts: the desired state is recorded, and the host follows it. */
import type { PowerDriver } from '../driver.ts'
import type { HostWorld } from './world.ts'

export function hostPower(world: HostWorld): PowerDriver {
  return {
    async stop(externalId, signal) {
      signal.throwIfAborted()
      await world.requestStop(externalId)
    },
    async start(externalId, share, signal) {
      signal.throwIfAborted()
      return world.requestStart(externalId, share)
    },
    async reboot(externalId, count, signal) {
      signal.throwIfAborted()
      await world.requestReboot(externalId, count)
    },
    async announceEnd(externalId, at, signal) {
      signal.throwIfAborted()
      await world.announceEnd(externalId, at)
    },
  }
}
