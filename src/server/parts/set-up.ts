/** Creates what a new installation lacks, and takes the first inventory. */
import type { App } from '../../app/app.ts'
import { inventoryOf } from '../../reconcile/inventory.ts'
import { ensureDemo, ensureModels, ensureOperator, ensurePrices, renewOperatorKey } from '../data/first-run.ts'
import { importInventory } from '../hosts/metal-inventory.ts'
import type { Context } from './part.ts'

/** Accounts that a start has created. */
export interface NewAccounts {
  readonly operator: boolean
  readonly demo: boolean
}

export async function setUp(
  { settings, dataDir }: Context,
  app: App,
  { newOperatorKey }: { newOperatorKey: boolean },
): Promise<NewAccounts> {
  const operator = await ensureOperator(app.database, dataDir)
  if (newOperatorKey) await renewOperatorKey(app.database, dataDir)
  if ([...app.drivers.values()].some(({ traits }) => traits.simulated)) await ensurePrices(app.database)
  const isAlone = settings.databaseUrl === undefined
  if (isAlone) await ensureModels(app.database, settings.defaultModels)
  const demo = isAlone && (await ensureDemo(app.database, dataDir))
  if (settings.inventoryFile !== undefined) await importInventory(app, settings.inventoryFile)
  // The first listing should not be empty, so take an inventory before the first answer.
  for (const driver of app.drivers.values()) {
    // A driver whose machines cannot be listed takes only these off sale.
    await inventoryOf(app, driver, AbortSignal.timeout(driver.callTimeoutMs)).catch((error: unknown) =>
      app.warn?.(error, `could not list the machines of ${driver.id}`),
    )
  }
  return { operator: operator || newOperatorKey, demo }
}
