/** Accounts, orders and volumes in memory, for tests of cloud drivers without a database. */
import { addMs, later, type Clock, type Instant } from '../../src/base/instant.ts'
import type { Turns } from '../../src/drivers/clouds/pacer.ts'
import type { AccountFault, CloudAccount, CloudWorld, KnownOrder } from '../../src/drivers/clouds/world.ts'
import type { DriverVolume } from '../../src/drivers/driver.ts'

type Given = Pick<CloudAccount, 'name' | 'baseUrl' | 'credentials'> & Partial<CloudAccount>

export interface MemoryCloudWorld extends CloudWorld {
  readonly orders: KnownOrder[]
  readonly volumes: DriverVolume[]
  /** By account: the last reported fault. */
  readonly faults: Map<string, AccountFault | undefined>
  add(account: Given): void
  /** As a rotation of its credentials does. */
  change(name: string, values: Partial<CloudAccount>): void
}

/** Turns of one account, as the database keeps them. */
export function memoryTurns(clock: Clock): Turns {
  const next = new Map<string, Instant>()
  return {
    reserve: async (route, everyMs) => {
      const at = later(next.get(route) ?? clock.now(), clock.now())
      next.set(route, addMs(at, everyMs))
      return at
    },
    pause: async (route, until) => void next.set(route, later(next.get(route) ?? until, until)),
  }
}

export function memoryCloudWorld(clock: Clock, given: readonly Given[]): MemoryCloudWorld {
  const turns = new Map<string, Turns>()
  const accounts = new Map<string, CloudAccount>()
  const faults = new Map<string, AccountFault | undefined>()
  const orders: KnownOrder[] = []
  const volumes: DriverVolume[] = []
  const add = (account: Given): void => {
    accounts.set(account.name, {
      id: account.name,
      version: 1,
      regions: {},
      preference: 0,
      sellsBelowCost: false,
      closed: null,
      ...account,
    })
  }
  for (const account of given) add(account)
  return {
    orders,
    volumes,
    faults,
    add,
    change: (name, values) => {
      const account = accounts.get(name)
      if (account !== undefined) accounts.set(name, { ...account, ...values, version: account.version + 1 })
    },
    accounts: async () => [...accounts.values()],
    programOf: async () => undefined,
    listOrders: async (prefix) => orders.filter(({ tag }) => tag.startsWith(prefix)),
    listVolumes: async (prefix) => volumes.filter(({ tag }) => tag.startsWith(prefix)),
    turnsOf: ({ id }) => {
      const known = turns.get(id) ?? memoryTurns(clock)
      turns.set(id, known)
      return known
    },
    report: async (account, fault) => void faults.set(account.name, fault),
  }
}
