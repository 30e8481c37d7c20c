/** Lists the machines of each engine and saves them. */
import type { App } from '../app/app.ts'
import { MINUTE_MS } from '../base/instant.ts'
import { parseUsd } from '../base/money.ts'
import type { Simulation } from '../contract/shared.ts'
import type { Driver, InventoryMachine } from '../engines/driver.ts'
import { insertAccount } from '../store/account.ts'
import { transact } from '../store/database.ts'
import { endTurn, takeTurn } from '../store/lease.ts'
import { saveInventory } from '../store/machine.ts'
import { callSignal, eachOf, type Reconciler } from './loop.ts'

const LEASE_MS = 2 * MINUTE_MS
/** Platform fee of a supplier that an engine reports before the operator has set one. */
const DEFAULT_FEE_BP = 1_500

export function takeInventory(app: App): Reconciler {
  return {
    name: 'inventory',
    everyMs: MINUTE_MS / 2,
    run: async (signal) => {
      // An engine that does not answer must not hide the machines of the others.
      await eachOf([...app.drivers.values()], 1, (driver) => inventoryOf(app, driver, signal))
      return false
    },
  }
}

export async function inventoryOf(app: App, driver: Driver, signal: AbortSignal): Promise<void> {
  const { db } = app.database
  const loop = `inventory:${driver.id}`
  const now = app.clock.now()
  const token = await takeTurn(db, loop, { now, leaseMs: LEASE_MS })
  if (token === undefined) return
  try {
    const machines = await driver.inventory(callSignal(signal, driver.callTimeoutMs))
    await transact(app.database, async (tx) => {
      // An engine's supplier gets an account under the same id, so that its earnings have a place.
      for (const supplier of new Set(machines.flatMap((machine) => machine.supplier ?? [])))
        await insertAccount(tx, { id: supplier, name: supplier, platformFeeBp: DEFAULT_FEE_BP })
      await saveInventory(
        tx,
        driver.id,
        machines.map(({ supplier, priceUsdPerGpuHour, ...machine }) => ({
          ...machine,
          supplierId: supplier,
          simulation: simulationOf(driver, machine),
          price: priceUsdPerGpuHour === null ? null : (parseUsd(priceUsdPerGpuHour) ?? null),
        })),
        now,
      )
    })
  } finally {
    await endTurn(db, loop, token)
  }
}

/** Stored with the machine: it must never pass for a real one on a server that does not run its engine. */
function simulationOf({ traits }: Driver, { hardware }: Pick<InventoryMachine, 'hardware'>): Simulation | null {
  if (traits.simulated) return 'machine'
  return hardware.simulated === true ? 'gpus' : null
}
