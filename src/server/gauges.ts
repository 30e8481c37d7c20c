/** Gauges that are cheaper to query at each scrape than to keep up to date. */
import type { App } from '../app/app.ts'
import type { Metrics } from '../base/metrics.ts'
import { rentalState } from '../contract/rental.ts'
import type { HostState } from '../domain/host.ts'
import { readCounts } from '../store/gauge.ts'

const hostStates = ['ready', 'draining', 'cleaning', 'quarantined', 'silent'] as const satisfies ReadonlyArray<
  HostState | 'silent'
>

export function watchGauges(app: App, metrics: Metrics): void {
  const rentals = metrics.gauge('berth_rentals', 'Rentals by status, except Terminated')
  const stuck = metrics.gauge('berth_rentals_stuck', 'Rentals that stay in a state for too long')
  const gpus = metrics.gauge('berth_gpus', 'GPUs on sale by state')
  const hosts = metrics.gauge('berth_hosts', 'Hosts by state; silent means no recent heartbeat')
  const pending = metrics.gauge('berth_webhook_deliveries_pending', 'Pending webhook deliveries')
  const connections = metrics.gauge('berth_database_connections', 'Database pool connections by state')
  const memory = metrics.gauge('berth_process_resident_bytes', 'Resident memory of the server')
  metrics.collect(async () => {
    const { db, pool } = app.database
    for (const status of rentalState.options) rentals.set(0, { status })
    for (const state of hostStates) hosts.set(0, { state })
    for (const { of, label, n } of await readCounts(db, app.clock.now())) {
      if (of === 'rental') rentals.set(n, { status: label })
      else if (of === 'stuck rental') stuck.set(n)
      else if (of === 'gpu') gpus.set(n, { state: label })
      else if (of === 'host') hosts.set(n, { state: label })
      else pending.set(n)
    }
    connections.set(pool.totalCount - pool.idleCount, { state: 'busy' })
    connections.set(pool.idleCount, { state: 'idle' })
    connections.set(pool.waitingCount, { state: 'waited_for' })
    memory.set(process.memoryUsage.rss())
  })
}
