/** Lists the machines of each provider and saves them. */
import type { App } from '../app/app.ts'
import { applyPriceRules } from '../app/supply/provider.ts'
import { addMs, MINUTE_MS, type Instant } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { parseUsd, type NanoUsd } from '../base/money.ts'
import type { Simulation } from '../contract/shared.ts'
import { unitsOf, type KnownUnit } from '../domain/unit.ts'
import type { Driver, InventoryItem } from '../drivers/driver.ts'
import { insertAccount } from '../store/account/account.ts'
import { transact, type Tx } from '../store/platform/database.ts'
import { endTurn, takeTurn } from '../store/platform/lease.ts'
import { saveInventory, type ReportedMachine } from '../store/machine/machine.ts'
import { recordCounts } from '../store/machine/offer-outcome.ts'
import { dropStaleOffers, listUnits } from '../store/machine/unit.ts'
import { callSignal, eachOf, type Reconciler } from './loop.ts'

const LEASE_MS = 2 * MINUTE_MS
/** A slow cloud does not hold up the others. */
const WIDTH = 4
/** Platform fee of a supplier that a provider reports before the operator has set one. */
const DEFAULT_FEE_BP = 1_500

export function takeInventory(app: App): Reconciler {
  return {
    name: 'inventory',
    everyMs: MINUTE_MS / 2,
    run: async (signal) => {
      // A provider that does not answer must not hide the machines of the others.
      await eachOf([...app.drivers.values()], WIDTH, (driver) => inventoryOf(app, driver, signal))
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
    const items = await driver.inventory(callSignal(signal, driver.callTimeoutMs))
    await transact(app.database, async (tx) => {
      await writeInventory(tx, driver, items, now)
      if (driver.providers !== undefined) await applyPriceRules(tx)
    })
  } catch (error) {
    await transact(app.database, (tx) => dropStaleOffers(tx, driver.id, addMs(now, -limits.offerAgeMs)))
    throw error
  } finally {
    await endTurn(db, loop, token)
  }
}

async function writeInventory(tx: Tx, driver: Driver, items: readonly InventoryItem[], now: Instant): Promise<void> {
  const suppliers = items.flatMap((item) => ('supplier' in item ? (item.supplier ?? []) : []))
  // A provider's supplier gets an account under the same id, so that its earnings have a place.
  for (const supplier of new Set(suppliers))
    await insertAccount(tx, { id: supplier, name: supplier, platformFeeBp: DEFAULT_FEE_BP })
  const units = driver.traits.elastic ? await listUnits(tx.db, driver.id) : new Map<string, KnownUnit[]>()
  const machines = items.flatMap((item): ReportedMachine[] => {
    const { priceUsdPerGpuHour, ...rest } = item
    const common = { simulation: simulationOf(driver, item), price: nanoOrNull(priceUsdPerGpuHour) }
    if (!('available' in rest)) {
      const { supplier, ...machine } = rest
      return [{ ...machine, ...common, supplierId: supplier, offerId: null, soldWhole: false, cost: null }]
    }
    const { available, costUsdPerGpuHour, ...offer } = rest
    const bought = { offerId: offer.id, cost: nanoOrNull(costUsdPerGpuHour), supplierId: null, gpusSick: [] }
    return unitsOf(offer.id, available, units.get(offer.id) ?? []).map((id) => ({ ...offer, ...common, ...bought, id }))
  })
  await saveInventory(tx, driver.id, machines, now)
  if (!driver.traits.elastic) return
  const counts = items.flatMap((item) =>
    'available' in item && item.available !== null ? [{ offerId: item.id, available: item.available }] : [],
  )
  await recordCounts(tx, driver.id, counts)
}

function nanoOrNull(amount: string | null): NanoUsd | null {
  return amount === null ? null : (parseUsd(amount) ?? null)
}

/** The simulation is stored with the machine: a server without its driver must not take it for a real one. */
function simulationOf({ traits }: Driver, { hardware }: Pick<InventoryItem, 'hardware'>): Simulation | null {
  if (traits.simulated) return 'machine'
  return hardware.simulated === true ? 'gpus' : null
}
