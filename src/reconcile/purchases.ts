/**
 * Records what machines and volumes of other clouds cost us. `observe` and `observe-volumes` compare what a provider
 * lists with the open purchases: a machine that begins to cost opens one, another price ends it and opens the next, and
 * a machine that is gone or costs nothing any more ends it, rounded up by the rules of the vendor. This loop posts the
 * cost of those that run.
 */
import { addMs, MINUTE_MS, type Instant } from '../base/instant.ts'
import { nanoUsdOf } from '../base/money.ts'
import type { App } from '../app/app.ts'
import { idOfTag } from '../domain/rental.ts'
import { billedUntil } from '../domain/purchase.ts'
import type { Driver, ProviderCost } from '../drivers/driver.ts'
import { transact, type Tx } from '../store/platform/database.ts'
import { findMachine } from '../store/machine/machine.ts'
import {
  findAskedAt,
  findBoughtAt,
  listOpenPurchases,
  listUnsettledPurchases,
  openPurchase,
  settlePurchase,
  type PurchasedItem,
  type Purchase,
} from '../store/provider/purchase.ts'
import type { Rental } from '../store/rental/rental.ts'
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
      await eachOf(due, 1, async ({ id, external_id: externalId }) => {
        await transact(app.database, (tx) => settlePurchase(tx, id, now, { ends: false, memo: memoOf(externalId) }))
      })
      return due.length === BATCH
    },
  }
}

/** A machine or a volume as its provider lists it. The cost is missing while its account does not answer. */
interface Listed {
  readonly externalId: string
  readonly tag: string
  readonly cost?: ProviderCost
}

/** `listed`: all machines, or all volumes, that the provider listed at `now`. */
export async function recordPurchases(
  app: App,
  driver: Driver,
  noun: PurchasedItem['noun'],
  listed: readonly Listed[],
  now: Instant,
): Promise<void> {
  if (driver.providers === undefined) return
  const open = await listOpenPurchases(app.database.db, driver.id, noun)
  const byExternalId = new Map(listed.map((one) => [one.externalId, one]))
  await eachOf(open, 1, (purchase) => followPrice(app, purchase, byExternalId.get(purchase.external_id), now))
  const openIds = new Set(open.map((one) => one.external_id))
  await eachOf(listed, 1, async ({ externalId, tag, cost }) => {
    const id = idOfTag(app.installationId, noun, tag)
    if (id === undefined || cost === undefined || cost.perHour === 0n || openIds.has(externalId)) return
    await transact(app.database, (tx) => buy(tx, { noun, id }, externalId, cost, now))
  })
}

/**
 * Ends the purchase of a machine that is gone or costs nothing now. If the price has changed, the next purchase follows
 * without a gap.
 */
async function followPrice(app: App, purchase: Purchase, one: Listed | undefined, now: Instant): Promise<void> {
  // A cloud that does not answer still bills.
  if (one !== undefined && one.cost === undefined) return
  const perHour = one?.cost?.perHour ?? nanoUsdOf(0n)
  if (perHour === purchase.nano_per_hour) return
  const { id, bought_at: boughtAt, external_id: externalId } = purchase
  const rules = { incrementMs: purchase.increment_ms, minimumMs: Number(purchase.minimum_ms) }
  const until = perHour === 0n ? billedUntil(boughtAt, now, rules) : now
  await transact(app.database, async (tx) => {
    const endedAt = await settlePurchase(tx, id, until, { ends: true, memo: memoOf(externalId) })
    if (endedAt === undefined || one?.cost === undefined || perHour === 0n) return
    const { account, incrementMs, minimumMs } = one.cost
    const common = { account, externalId, perHour, incrementMs, minimumMs, boughtAt, startedAt: endedAt }
    await openPurchase(tx, { ...common, bought: boughtOf(purchase) })
  })
}

async function buy(tx: Tx, bought: PurchasedItem, externalId: string, cost: ProviderCost, now: Instant): Promise<void> {
  const askedAt = await findAskedAt(tx.db, bought)
  // Another database has the order, such as one from before a backup was restored.
  if (askedAt === undefined) return
  const { account, perHour, from, incrementMs, minimumMs } = cost
  const before = await findBoughtAt(tx.db, externalId)
  const startedAt = before === undefined && from === 'create' ? (askedAt ?? now) : now
  const boughtAt = before ?? startedAt
  await openPurchase(tx, { account, bought, externalId, perHour, incrementMs, minimumMs, boughtAt, startedAt })
}

/**
 * Records the cost of a machine that its customer ended before it was ever listed with a cost. It has cost money all
 * the same: from the order on, or for the first increment, since it may have run between two lists. Its price is that
 * of its offer.
 */
export async function recordUnseenPurchase(tx: Tx, driver: Driver, rental: Rental): Promise<void> {
  const billing = driver.providers?.billing
  const { external_id: externalId, create_asked_at: askedAt, destroy_asked_at: endedAt, spec } = rental
  if (billing === undefined || externalId === null || askedAt === null || endedAt === null) return
  const [account = '', id = ''] = externalId.split('/')
  if (id === '' || (await findBoughtAt(tx.db, externalId)) !== undefined) return
  const machine = await findMachine(tx.db, spec.nodes[0]?.machineId ?? '')
  const perGpuHour = machine?.cost_nano_per_gpu_hour ?? null
  if (perGpuHour === null) return
  const startedAt = billing.from === 'create' ? askedAt : endedAt
  const purchase = await openPurchase(tx, {
    account,
    bought: { noun: 'rental', id: rental.id },
    externalId,
    perHour: nanoUsdOf(perGpuHour * BigInt(spec.gpuCount)),
    incrementMs: billing.incrementMs,
    minimumMs: billing.minimumMs,
    boughtAt: startedAt,
    startedAt,
  })
  if (purchase === undefined) return
  await settlePurchase(tx, purchase, billedUntil(startedAt, endedAt, billing), {
    ends: true,
    memo: memoOf(externalId),
  })
}

function boughtOf({ rental_id: rentalId, volume_id: volumeId }: Purchase): PurchasedItem {
  return rentalId === null ? { noun: 'volume', id: volumeId ?? 0 } : { noun: 'rental', id: rentalId }
}

function memoOf(externalId: string): string {
  return `Cost of ${externalId}`
}
