/** Stop, start and reboot of simulated machines. A stop takes as long as a teardown, a start as long as a boot. */
import { addMs } from '../../base/instant.ts'
import type { PowerDriver } from '../driver.ts'
import { faultsOf } from './faults.ts'
import { ordinaryTimes, type Engine } from './make.ts'
import { isGone, type MockMachine } from './world.ts'

export function powerDriver(engine: Engine): PowerDriver {
  const { world, clock } = engine
  const existing = (machine: MockMachine | undefined): MockMachine => {
    if (machine === undefined || isGone(machine, clock.now()))
      throw new Error('The simulated engine has no such machine.')
    return machine
  }
  return {
    async stop(externalId, signal) {
      signal.throwIfAborted()
      const { tag, spec } = existing(await world.findMachine(externalId))
      const { now, destroyMs } = ordinaryTimes(engine, tag)
      await world.turnOff(externalId, addMs(now, destroyMs))
      if (faultsOf(spec.label).has('fault-stop-timeout'))
        throw new Error('The stop call to the simulated engine timed out.')
    },
    async start(externalId, { nodes, resources }, signal) {
      signal.throwIfAborted()
      const { tag, spec } = existing(await world.findMachine(externalId))
      const faults = faultsOf(spec.label)
      if (faults.has('fault-start-refused')) return { kind: 'refused', message: 'The engine refused to start it.' }
      const { now, bootMs } = ordinaryTimes(engine, tag)
      const upAt = addMs(now, bootMs)
      const failedAt = faults.has('fault-start-fails') ? upAt : null
      // A disk whose machine did not come up elsewhere is where it was.
      const place = failedAt === null ? nodes : spec.nodes
      await world.turnOn(externalId, {
        nodes: place,
        resources,
        runningAt: failedAt === null ? upAt : null,
        failedAt,
      })
      return { kind: 'starting' }
    },
    async reboot(externalId, count, signal) {
      signal.throwIfAborted()
      existing(await world.rebootMachine(externalId, count))
    },
  }
}
