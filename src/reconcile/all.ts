/** All reconcilers of a server. */
import type { App } from '../app/app.ts'
import { reconcileAttachments } from './attachments.ts'
import { watchBudgets } from './budgets.ts'
import type { DeliverWebhooks } from './deliver-webhooks.ts'
import { sweepExpired, expireStates, expireTerms } from './expire.ts'
import { removeFiles } from './files.ts'
import { cleanUpGateways } from './gateways.ts'
import { advanceGroups } from './groups.ts'
import { watchIdle } from './idle.ts'
import { interrupt } from './interrupt.ts'
import { takeInventory } from './inventory.ts'
import { checkLedger } from './ledger-check.ts'
import { runJobs } from './jobs.ts'
import type { Reconciler } from './loop.ts'
import { watchUptime } from './machine-uptime.ts'
import { measure } from './measure.ts'
import { meter } from './meter.ts'
import { observeVolumes } from './observe-volumes.ts'
import { observe } from './observe.ts'
import { comparePaymentsDaily } from './payment-comparison.ts'
import { topUpAutomatically } from './auto-top-up.ts'
import { catchUpOnEvents, settlePayments } from './payments.ts'
import { draftPayoutRuns } from './payout-runs.ts'
import { power } from './power.ts'
import { settlePurchases } from './purchases.ts'
import { provision } from './provision.ts'
import { queueMail } from './queue-mail.ts'
import { reap } from './reap.ts'
import { serveDeployments } from './serve.ts'
import { countServingUsage } from './serving-usage.ts'
import { removeResponses } from './responses.ts'
import type { Retention } from '../domain/retention.ts'
import { applyRetention } from './retention.ts'
import { watchRunway } from './runway.ts'
import { sendMail } from './send-mail.ts'
import { summarizeMetrics } from './summarize-metrics.ts'
import { terminate } from './terminate.ts'
import { reconcileVolumes } from './volumes.ts'
import { hasDueDelivery } from '../store/notice/webhook-delivery.ts'
import { warnTerms } from './warn-terms.ts'
import { watchDrivers } from './watch-drivers.ts'

export interface Notices {
  readonly massLoss: (driver: string, missing: number) => void
  readonly reaped: (driver: string, externalId: string, why: string) => void
  /** The daily ledger check found something wrong. */
  readonly ledgerFindings: (findings: number) => void
  /** A partition of old requests was dropped. */
  readonly dropped: (partition: string) => void
}

export function allReconcilers(
  app: App,
  webhooks: DeliverWebhooks,
  notices: Notices,
  retention: Retention,
): Reconciler[] {
  return [
    takeInventory(app),
    provision(app),
    observe(app, notices.massLoss),
    observeVolumes(app),
    terminate(app),
    power(app),
    advanceGroups(app),
    interrupt(app),
    serveDeployments(app),
    runJobs(app),
    countServingUsage(app),
    meter(app),
    settlePurchases(app),
    expireTerms(app),
    expireStates(app),
    sweepExpired(app),
    watchRunway(app),
    watchBudgets(app),
    warnTerms(app),
    watchDrivers(app),
    queueMail(app),
    sendMail(app),
    reconcileVolumes(app),
    reconcileAttachments(app),
    reap(app, notices.reaped),
    cleanUpGateways(app),
    removeFiles(app),
    removeResponses(app),
    checkLedger(app, notices.ledgerFindings),
    applyRetention(app, retention, notices.dropped),
    measure(app),
    summarizeMetrics(app),
    watchIdle(app),
    watchUptime(app),
    draftPayoutRuns(app),
    ...paymentLoops(app),
    {
      name: 'deliver-webhooks',
      due: hasDueDelivery,
      run: async (signal) => {
        await webhooks.run(signal)
        return false
      },
    },
  ]
}

function paymentLoops(app: App): Reconciler[] {
  const { processor } = app
  if (processor === undefined) return []
  return [
    settlePayments(app, processor),
    catchUpOnEvents(app, processor),
    topUpAutomatically(app, processor),
    comparePaymentsDaily(app),
  ]
}
