/** Gauges that are cheaper to query at each scrape than to keep up to date. */
import type { Logger } from 'pino'
import type { App } from '../../app/app.ts'
import type { Metrics } from '../../base/metrics.ts'
import { rentalStates } from '../../contract/rental-state.ts'
import type { HostState } from '../../domain/host.ts'
import { readCounts, readServing } from '../../store/platform/gauge.ts'

const hostStates = ['ready', 'draining', 'cleaning', 'quarantined', 'silent'] as const satisfies ReadonlyArray<
  HostState | 'silent'
>

export function watchGauges(app: App, metrics: Metrics): void {
  watchServing(app, metrics)
  const rentals = metrics.gauge('berth_rentals', 'Rentals by status, except Terminated')
  const stuck = metrics.gauge('berth_rentals_stuck', 'Rentals that stay in a state for too long')
  const gpus = metrics.gauge('berth_gpus', 'GPUs on sale by state')
  const hosts = metrics.gauge('berth_hosts', 'Hosts by state; silent means no recent heartbeat')
  const pending = metrics.gauge('berth_webhook_deliveries_pending', 'Pending webhook deliveries')
  const connections = metrics.gauge('berth_database_connections', 'Database pool connections by state')
  const memory = metrics.gauge('berth_process_resident_bytes', 'Resident memory of the server')
  metrics.collect(async () => {
    const { db, pool } = app.database
    for (const status of rentalStates) rentals.set(0, { status })
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

/** Managed deployments, as all servers see them. Those beyond the limit are left out, smallest first. */
const MAX_DEPLOYMENTS = 500

function watchServing({ database: { db }, clock }: App, metrics: Metrics): void {
  const replicas = metrics.gauge('berth_serving_replicas', 'Replicas of a managed deployment by state, and the target')
  const outstanding = metrics.gauge('berth_serving_outstanding', 'Requests waiting or running, of all servers')
  const cost = metrics.gauge('berth_serving_cost_usd_per_hour', 'Price of the living replicas')
  const budget = metrics.gauge('berth_serving_budget_usd_per_hour', 'Hourly budget; absent without one')
  const blocked = metrics.gauge('berth_serving_blocked', '1 while no further replica can be ordered, by reason')
  const total = metrics.gauge('berth_serving_deployments', 'Managed deployments, including those left out above')
  metrics.collect(async () => {
    const { deployments, count } = await readServing(db, clock.now(), MAX_DEPLOYMENTS)
    for (const gauge of [replicas, outstanding, cost, budget, blocked]) gauge.clear()
    total.set(count)
    for (const { model, ...one } of deployments) {
      for (const state of ['ready', 'starting', 'draining', 'desired'] as const)
        replicas.set(one[state], { model, state })
      outstanding.set(one.outstanding, { model })
      cost.set(one.costUsdPerHour, { model })
      if (one.budgetUsdPerHour !== null) budget.set(one.budgetUsdPerHour, { model })
      if (one.blockedReason !== null) blocked.set(1, { model, reason: one.blockedReason })
    }
  })
}

/** Counts every failure and logs those with a new cause. */
export function reportFaults(metrics: Metrics, log: Logger): NonNullable<App['driverFault']> {
  const faults = metrics.counter('berth_engine_call_failures_total', 'Failed calls of drivers')
  return ({ loop, driver, subject, error, isNew }) => {
    faults.add({ loop, driver })
    if (isNew) log.warn({ loop, driver, subject, err: error }, 'call of a driver failed; retrying')
  }
}

/** Counts the starts of replicas that this server drives. */
export function countStarts(metrics: Metrics): NonNullable<App['replicaStart']> {
  const starts = metrics.counter('berth_serving_starts_total', 'Starts of replicas by result')
  const models = new Set<string>()
  return (name, result) => {
    const model = models.has(name) || models.size < MAX_DEPLOYMENTS ? name : 'others'
    models.add(model)
    starts.add({ model, result })
  }
}
