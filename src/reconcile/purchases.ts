/**
 * Records what machines of other clouds cost us. `observe` compares what an engine lists with the open purchases: a machine
 * that begins to cost opens one, another price ends it and opens the next, and a machine that is gone or costs nothing any
 * more ends it, rounded up by the rules of the vendor. This loop posts the cost of those that run.
 */
import { addMs, MINUTE_MS, type Instant } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { idOfTag } from '../domain/rental.ts'
import { billedUntil } from '../domain/purchase.ts'
import type { Driver, EngineCost, EngineMachine } from '../engines/driver.ts'
import { transact } from '../store/database.ts'
import {
  findBoughtAt,
  listOpenPurchases,
  listUnsettledPurchases,
  openPurchase,
  settlePurchase,
  type Purchase,
} from '../store/purchase.ts'
import type { LiveRow } from '../store/rental.ts'
import { eachOf, type Reconciler } from './loop.ts'

const SETTLE_EVERY_MS = 10 * MINUTE_MS
const BATCH = 200

export function settlePurchases(app: App): Reconciler {
  return {
    name: 'purchases',
    everyMs: MINUTE_MS,
    run: async () => {
      const now = app.clock.now()
      const due = await listUnsettledPurchases(app.database.db, addMs(now, -SETTLE_EVERY_MS), BATCH)
      await eachOf(due, 1, ({ id, external_id }) =>
        transact(app.database, (tx) => settlePurchase(tx, id, now, { ends: false, memo: `Cost of ${external_id}` })),
      )
      return due.length === BATCH
    },
  }
}

/** `rows`: rentals that are not released. `shown`: what the engine listed at `now`. */
export async function recordPurchases(
  app: App,
  driver: Driver,
  shown: readonly EngineMachine[],
  rows: readonly LiveRow[],
  now: Instant,
): Promise<void> {
  if (driver.providers === undefined) return
  const open = new Map((await listOpenPurchases(app.database.db, driver.id)).map((one) => [one.external_id, one]))
  const listed = new Map(shown.map((machine) => [machine.externalId, machine]))
  const askedAt = new Map(rows.map((row) => [row.id, row.create_asked_at]))
  await eachOf([...open.values()], 1, (purchase) => endIfChanged(app, purchase, listed.get(purchase.external_id), now))
  await eachOf(shown, 1, async (machine) => {
    const { cost, externalId, tag, state } = machine
    const rentalId = idOfTag(app.installationId, 'rental', tag)
    const known = open.get(externalId)
    const isSame = known !== undefined && cost !== undefined && known.nano_per_hour === cost.perHour
    if (rentalId === undefined || cost === undefined || cost.perHour === 0n || isSame || state === 'unreachable') return
    await buy(
      app,
      { rentalId, externalId, cost, askedAt: askedAt.get(rentalId) ?? now, isChange: known !== undefined },
      now,
    )
  })
}

async function endIfChanged(
  app: App,
  purchase: Purchase,
  machine: EngineMachine | undefined,
  now: Instant,
): Promise<void> {
  // A cloud that does not answer still bills.
  if (machine?.state === 'unreachable' && machine.cost === undefined) return
  const perHour = machine?.cost?.perHour ?? 0n
  if (perHour === purchase.nano_per_hour) return
  const rules = { incrementMs: purchase.increment_ms, minimumMs: Number(purchase.minimum_ms) }
  const until = perHour === 0n ? billedUntil(purchase.bought_at, now, rules) : now
  const memo = `Cost of ${purchase.external_id}`
  await transact(app.database, (tx) => settlePurchase(tx, purchase.id, until, { ends: true, memo }))
}

interface Bought {
  readonly rentalId: number
  readonly externalId: string
  readonly cost: EngineCost
  readonly askedAt: Instant
  /** Its price has changed. */
  readonly isChange: boolean
}

async function buy(app: App, { rentalId, externalId, cost, askedAt, isChange }: Bought, now: Instant): Promise<void> {
  const { account, perHour, from, incrementMs, minimumMs } = cost
  await transact(app.database, async (tx) => {
    const before = await findBoughtAt(tx.db, externalId)
    const startedAt = before === undefined && from === 'create' && !isChange ? askedAt : now
    const boughtAt = before ?? startedAt
    await openPurchase(tx, { account, rentalId, externalId, perHour, incrementMs, minimumMs, boughtAt, startedAt })
  })
}
