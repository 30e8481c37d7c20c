/** Opens the loops, and the bus that wakes them and others when something was written to the database. */
import type { Logger } from 'pino'
import type { App } from '../../app/app.ts'
import { allReconcilers, type Notices } from '../../reconcile/all.ts'
import { deliverWebhooks } from '../../reconcile/deliver-webhooks.ts'
import { startLoops, type Loops, type Reconciler } from '../../reconcile/loop.ts'
import { readDue } from '../../store/platform/due-work.ts'
import { openBus, type Bus } from '../events/bus.ts'
import { openParts, type Context, type Part } from './part.ts'

export interface LoopsPart extends Part {
  readonly bus: Pick<Bus, 'on'>
}

/** `loops`: those of other parts. undefined: this server runs no loops. */
export function openLoops(context: Context, app: App, loops: readonly Reconciler[] | undefined): Promise<LoopsPart> {
  const { settings, log } = context
  return openParts(async (parts) => {
    const webhooks = await parts.add(deliverWebhooks(app))
    const all = loops && [...allReconcilers(app, webhooks, noticesIn(log), settings.retention), ...loops]
    const running = all && startAll(context, app, all)
    if (running !== undefined) await parts.add({ close: () => running.stop() })
    const bus = openBus({
      database: app.database,
      log,
      wakeLoop: (name) => running?.wake(name),
      onGap: () => running?.noteChange(),
    })
    await parts.add(bus)
    app.database.onCommit = (wake) => {
      running?.noteChange()
      bus.publish(wake)
    }
    return { bus }
  })
}

function startAll({ clock, log, metrics }: Context, app: App, loops: readonly Reconciler[]): Loops {
  return startLoops(loops, {
    metrics,
    clock,
    readDue: (due, at) => readDue(app.database.steady, { at, drivers: [...app.drivers.keys()] }, due),
    onError: (loop, error) => log.error({ loop, err: error }, 'reconciler failed; it will run again'),
  })
}

function noticesIn(log: Logger): Notices {
  return {
    massLoss: (driver, missing) =>
      log.error({ driver, missing }, 'many machines disappeared at once; waiting for confirmation'),
    reaped: (driver, externalId, why) => log.warn({ driver, externalId, why }, 'terminated an unknown machine'),
    ledgerFindings: (findings) => log.error({ findings }, 'ledger check failed; run berth ledger verify'),
    dropped: (partition) => log.info({ partition }, 'dropped a partition of old requests'),
  }
}
