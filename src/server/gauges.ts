/** Gauges that are cheaper to ask for at each scrape than to keep. */
import { sql } from 'kysely'
import type { App } from '../app/app.ts'
import { addMs, toDate } from '../base/instant.ts'
import type { Metrics } from '../base/metrics.ts'
import { rentalStatus } from '../contract/rental.ts'
import { SILENT_MS, type HostState } from '../domain/host.ts'

const hostStates = ['ready', 'draining', 'cleaning', 'quarantined', 'silent'] as const satisfies ReadonlyArray<
  HostState | 'silent'
>

export function watchGauges(app: App, metrics: Metrics): void {
  const rentals = metrics.gauge('berth_rentals', 'Rentals by status; Terminated ones are not counted')
  const stuck = metrics.gauge('berth_rentals_stuck', 'Rentals whose state has lasted longer than it should')
  const gpus = metrics.gauge('berth_gpus', 'GPUs on sale, by state')
  const hosts = metrics.gauge('berth_hosts', 'Hosts by state; those that have not been heard lately are silent')
  const pending = metrics.gauge('berth_webhook_deliveries_pending', 'Webhook deliveries that wait')
  const connections = metrics.gauge('berth_database_connections', 'Connections of the pool, by state')
  const memory = metrics.gauge('berth_process_resident_bytes', 'Resident memory of the server')
  metrics.collect(async () => {
    const { db, pool } = app.database
    const counted = await sql<{ what: string; label: string; n: number }>`
      select 'rental' as what, status as label, count(*)::integer as n from rental where status <> 'Terminated' group by status
      union all select 'stuck', '', count(*)::integer from rental where stuck_at is not null and released_at is null
      union all select 'gpu', 'total', coalesce(sum(gpus_total), 0)::integer from machine
      union all select 'gpu', 'claimed', coalesce(sum(gpus_claimed), 0)::integer from machine
      union all select 'gpu', 'sick', coalesce(sum(cardinality(gpus_sick)), 0)::integer from machine
      union all select 'host', case when seen_at >= ${toDate(addMs(app.clock.now(), -SILENT_MS))} then state else 'silent' end,
        count(*)::integer from host where state <> 'left' group by 2
      union all select 'delivery', '', count(*)::integer from webhook_delivery where state = 'pending'`.execute(db)
    for (const status of rentalStatus.options) rentals.set(0, { status })
    for (const state of hostStates) hosts.set(0, { state })
    for (const { what, label, n } of counted.rows) {
      if (what === 'rental') rentals.set(n, { status: label })
      else if (what === 'stuck') stuck.set(n)
      else if (what === 'gpu') gpus.set(n, { state: label })
      else if (what === 'host') hosts.set(n, { state: label })
      else pending.set(n)
    }
    connections.set(pool.totalCount - pool.idleCount, { state: 'busy' })
    connections.set(pool.idleCount, { state: 'idle' })
    connections.set(pool.waitingCount, { state: 'waited_for' })
    memory.set(process.memoryUsage.rss())
  })
}
