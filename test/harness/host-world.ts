/** Host records behind a faulty connection, for the conformance suite of drivers that store hosts in the database. */
import type { FaultInjection, FaultName } from '../../src/drivers/conformance-bench.ts'
import type { Driver } from '../../src/drivers/driver.ts'
import type { HostWorld } from '../../src/drivers/host/world.ts'

const REFUSALS = 2

/** The driver on a database whose connection breaks just before or just after a query. */
export function faultyWorld<D extends Driver>(
  world: HostWorld,
  make: (faulty: HostWorld) => D,
): { driver: D; faults: Partial<Record<FaultName, FaultInjection>> } {
  let before: keyof HostWorld | undefined
  let after: keyof HostWorld | undefined
  let times = 0
  let away = false
  const lost = (): Error => new Error('the connection to the database was lost')
  const faulty = new Proxy(world, {
    get: (target, name: keyof HostWorld) => {
      const call = target[name] as (...args: unknown[]) => Promise<unknown>
      return async (...args: unknown[]) => {
        if (away) throw lost()
        if (before === name && times > 0) {
          times -= 1
          throw lost()
        }
        const answer = await call.apply(target, args)
        if (after === name && times > 0) {
          times -= 1
          throw lost()
        }
        return answer
      }
    },
  })
  const arm = (when: 'before' | 'after', name: keyof HostWorld, count = 1): FaultInjection => ({
    arm: () => {
      times = count
      if (when === 'before') before = name
      else after = name
    },
  })
  return {
    driver: make(faulty),
    faults: {
      'create-timeout': arm('after', 'addWorkload'),
      'create-lost': arm('before', 'addWorkload'),
      'destroy-refused': arm('before', 'requestDestroy', REFUSALS),
      'volume-create-timeout': arm('after', 'addVolume'),
      'volume-destroy-refused': arm('before', 'requestVolumeDestroy', REFUSALS),
      unreachable: { arm: () => void (away = true) },
    },
  }
}
