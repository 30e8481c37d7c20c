/** Gauges of a gateway, and of each of its workers. */
import type { Metrics } from '../../base/metrics.ts'
import type { RunningDispatcher } from '../../gateway/dispatch/dispatch.ts'
import type { Meter } from '../../gateway/money/meter.ts'

/** Gauges that are cheaper to read at each scrape than to keep up to date. */
export function watchGateway(metrics: Metrics, meter: Meter, dispatcher: RunningDispatcher): void {
  const unsettled = metrics.gauge('berth_meter_unsettled', 'Finished requests not yet settled in the ledger')
  const lag = metrics.gauge('berth_meter_lag_seconds', 'Age of the oldest unsettled request', 'max')
  const purses = metrics.gauge('berth_meter_purses', 'Purses held by this gateway')
  const capped = metrics.readCounter('berth_meter_capped_costs_total', 'Requests that cost more than was reserved')
  const inFlight = metrics.gauge('berth_deployment_in_flight', 'Requests in flight at a deployment')
  const breaker = metrics.gauge('berth_deployment_breaker_open', '1 while the circuit breaker is open', 'max')
  const faults = metrics.readCounter('berth_deployment_faults_total', 'Deployment faults by kind')
  const affinity = metrics.readCounter(
    'berth_deployment_affinity_total',
    'Requests by whether routing sent them to a deployment that has their prompt prefix',
  )
  const queued = metrics.gauge('berth_model_queued', 'Requests waiting for a free slot')
  const outstanding = metrics.gauge('berth_inference_outstanding', 'Requests in flight or waiting at this gateway')
  const waited = metrics.readCounter('berth_model_waits_total', 'Requests that had to wait for a free slot or replica')
  const waitSeconds = metrics.readCounter('berth_model_wait_seconds_total', 'Time that requests waited, added up')
  const refused = metrics.readCounter('berth_model_queue_refusals_total', 'Requests that the queue refused, by reason')
  const all = [inFlight, breaker, faults, affinity, queued, waited, waitSeconds, refused]
  metrics.collect(() => {
    const figures = meter.figures()
    unsettled.set(figures.unsettled)
    lag.set(figures.settleLagMs / 1_000)
    purses.set(figures.purses)
    capped.set(figures.cappedCosts)
    const stats = dispatcher.stats()
    // Otherwise a removed deployment would look busy forever, and ended replicas would pile up.
    for (const metric of all) metric.clear()
    const inFlightNow = stats.deployments.reduce((sum, one) => sum + one.inFlight, 0)
    outstanding.set(stats.models.reduce((sum, one) => sum + one.queued, inFlightNow))
    for (const { id: deployment, model, ...one } of stats.deployments) {
      inFlight.set(one.inFlight, { model, deployment })
      breaker.set(one.breaker === 'closed' ? 0 : 1, { model, deployment })
      for (const [kind, count] of Object.entries(one.faults)) faults.set(count, { model, deployment, kind })
      affinity.set(one.affinityHits, { model, deployment, found: 'yes' })
      affinity.set(one.affinityMisses, { model, deployment, found: 'no' })
    }
    for (const { model, ...one } of stats.models) {
      queued.set(one.queued, { model })
      waited.set(one.waited, { model })
      waitSeconds.set(one.waitedMs / 1_000, { model })
      refused.set(one.rejected, { model, reason: 'full' })
      refused.set(one.expired, { model, reason: 'timeout' })
    }
  })
}
