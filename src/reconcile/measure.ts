/**
 * Reads the usage of machines from providers that measure it, such as clusters, and passes it to the recorder. Hosts
 * are not asked: their agents report by themselves.
 */
import type { App } from '../app/app.ts'
import { SECOND_MS } from '../base/instant.ts'
import { gpuMetricNames, machineMetricNames } from '../contract/rental-metrics.ts'
import type { Driver } from '../drivers/driver.ts'
import { endTurn, takeTurn } from '../store/platform/lease.ts'
import { findRunningAt } from '../store/rental/rental-engine.ts'
import { callSignal, eachOf, type Reconciler } from './loop.ts'

const EVERY_MS = 15 * SECOND_MS
const LEASE_SLACK_MS = 5_000

export function measure(app: App): Reconciler {
  return {
    name: 'measure',
    everyMs: EVERY_MS,
    run: async (signal) => {
      const drivers = [...app.drivers.values()].filter((driver) => driver.measure !== undefined)
      await eachOf(drivers, Math.max(1, drivers.length), (driver) => measureDriver(app, driver, signal))
      return false
    },
  }
}

async function measureDriver(app: App, driver: Driver, signal: AbortSignal): Promise<void> {
  const { db } = app.database
  const leaseMs = driver.callTimeoutMs + LEASE_SLACK_MS
  const token = await takeTurn(db, `measure:${driver.id}`, { now: app.clock.now(), leaseMs })
  if (token === undefined) return
  try {
    const used = (await driver.measure?.(callSignal(signal, driver.callTimeoutMs))) ?? []
    const rentals = await findRunningAt(
      db,
      driver.id,
      used.map(({ externalId }) => externalId),
    )
    const at = app.clock.now()
    for (const { externalId, machine, gpus } of used) {
      const rentalId = rentals.get(externalId)
      if (rentalId === undefined) continue
      app.recorder?.record(rentalId, {
        at,
        active: null,
        machine: machineMetricNames.map((name) => machine[name]),
        gpus: gpus.map((gpu) => ({ index: gpu.index, values: gpuMetricNames.map((name) => gpu[name]) })),
      })
    }
  } finally {
    await endTurn(db, `measure:${driver.id}`, token)
  }
}
