/** The child of a crash run (cloud-crash.ts): reconcilers and cloud drivers, over and over, until it is killed. */
import { pino } from 'pino'
import type { App } from '../../src/app/app.ts'
import { systemClock } from '../../src/base/instant.ts'
import { zeroUsd } from '../../src/base/money.ts'
import type { ProviderId } from '../../src/contract/provider-data.ts'
import type { Driver } from '../../src/drivers/driver.ts'
import { expireStates } from '../../src/reconcile/expire.ts'
import { takeInventory } from '../../src/reconcile/inventory.ts'
import { meter } from '../../src/reconcile/meter.ts'
import { observe } from '../../src/reconcile/observe.ts'
import { provision } from '../../src/reconcile/provision.ts'
import { settlePurchases } from '../../src/reconcile/purchases.ts'
import { reap } from '../../src/reconcile/reap.ts'
import { terminate } from '../../src/reconcile/terminate.ts'
import { openClouds } from '../../src/server/parts/cloud-drivers.ts'
import { openVault } from '../../src/server/data/open-vault.ts'
import { openDatabase } from '../../src/store/platform/database.ts'
import { waitOn } from '../../src/base/wait.ts'
import { fastClock } from '../harness/fast-clock.ts'

/** Between two rounds, so that the database and the simulator get a turn. */
const PAUSE_MS = 40

/** Arguments: the database, the data folder, the start of the fast clock, and the secret key. */
export async function runCrashChild(args: readonly string[]): Promise<never> {
  const [databaseUrl = '', dataDir = '', epoch = '0', secretKey = ''] = args
  const clock = fastClock(Number.parseInt(epoch, 10))
  const database = openDatabase({ url: databaseUrl, clock, poolSize: 4 })
  const settings = { secretKey, otherSecretKeys: [] }
  const log = pino({ level: 'silent' })
  const vault = await openVault({ database, clock, settings, dataDir, newSecretKey: false, log })
  const drivers = new Map<ProviderId, Driver>()
  const bare = { database, clock, installationId: vault.installationId, vault: vault.vault }
  const clouds = openClouds({ app: bare, allowPrivate: true, warn: () => {} }, drivers)
  const app: App = {
    ...bare,
    drivers,
    stoppedDiskPerGbMonth: zeroUsd,
    cpuPerHour: zeroUsd,
    allowPrivateAddresses: true,
  }
  const loops = [
    clouds.loop,
    takeInventory(app),
    provision(app),
    observe(app),
    terminate(app),
    meter(app),
    settlePurchases(app),
    expireStates(app),
    reap(app),
  ]
  process.send?.('ready')
  // The parent is gone: nobody will kill this process.
  process.once('disconnect', () => process.exit(0))
  const { signal } = new AbortController()
  for (;;) {
    for (const loop of loops) {
      // As on a server: a failing reconciler does not block the others.
      await loop.run(signal).catch(() => false)
    }
    await waitOn(systemClock, PAUSE_MS, signal)
  }
}
