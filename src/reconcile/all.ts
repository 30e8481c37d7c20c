/** Every reconciler of a server. */
import type { App } from '../app/app.ts'
import { SECOND_MS } from '../base/instant.ts'
import { tendAttachments } from './attachments.ts'
import type { DeliverWebhooks } from './deliver-webhooks.ts'
import { sweepExpired, expireStates, expireTerms } from './expire.ts'
import { tendGateways } from './gateways.ts'
import { takeInventory } from './inventory.ts'
import { checkLedger } from './ledger-check.ts'
import type { Reconciler } from './loop.ts'
import { meter } from './meter.ts'
import { observeVolumes } from './observe-volumes.ts'
import { observe } from './observe.ts'
import { provision } from './provision.ts'
import { reap } from './reap.ts'
import type { Retention } from '../domain/retention.ts'
import { keepRetention } from './retention.ts'
import { watchRunway } from './runway.ts'
import { terminate } from './terminate.ts'
import { tendVolumes } from './volumes.ts'

export interface Notices {
  readonly massLoss: (driver: string, missing: number) => void
  readonly reaped: (driver: string, externalId: string, why: string) => void
  /** The daily recount of the ledger has found something wrong. */
  readonly ledgerFaults: (findings: number) => void
  /** A partition of old requests is gone. */
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
    meter(app),
    expireTerms(app),
    expireStates(app),
    sweepExpired(app),
    watchRunway(app),
    tendVolumes(app),
    tendAttachments(app),
    reap(app, notices.reaped),
    tendGateways(app),
    checkLedger(app, notices.ledgerFaults),
    keepRetention(app, retention, notices.dropped),
    {
      name: 'deliver-webhooks',
      everyMs: SECOND_MS,
      run: async (signal) => {
        await webhooks.run(signal)
        return false
      },
    },
  ]
}
