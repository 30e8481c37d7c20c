/**
 * Rentals: ordering, ending and failing them. A request only writes an intent and the money and GPUs that go with it;
 * the reconcilers make it true. Each function here runs inside one transaction and leaves the books in balance.
 */
import { addMs, formatInstant, type Instant } from '../base/instant.ts'
import { MAX_INT32 } from '../base/limits.ts'
import { costOfSpan, formatUsd, nanoUsdOf, usd, type NanoUsd } from '../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../contract/result.ts'
import type { ProviderId } from '../contract/provider-data.ts'
import type { GpuType, NetworkType } from '../contract/shared.ts'
import type { Commitment } from '../domain/commitment.ts'
import { HOLD_COVERS_MS } from '../domain/metering.ts'
import { isLiving, tagOf, type EngineSpec, type RentalKind } from '../domain/rental.ts'
import { quotaOf } from '../domain/quota.ts'
import type { Term } from '../domain/term.ts'
import { findCommitment, insertCommitment } from '../store/commitment.ts'
import type { Db, Tx } from '../store/database.ts'
import { recordEvent } from '../store/event.ts'
import { drawCredit } from '../store/ledger.ts'
import { CAPACITY_WAKE, releaseGpus } from '../store/machine.ts'
import { lockOrderFacts, writeOrder, type NewOrder, type OrderFacts, type Place } from '../store/order.ts'
import { findRental, findRentalByName, moveRental, updateRental, type Rental } from '../store/rental.ts'
import { meterNow } from '../store/segment.ts'
import { deleteAttachments, detach } from '../store/volume.ts'
import type { Actor, App } from './app.ts'
import { recordRentalEvent } from './rental-event.ts'
import { closeRentalMeter, passTermEnd } from './rental-term.ts'

export interface RentalOrder {
  readonly kind: RentalKind
  readonly region: string
  readonly gpuType: GpuType | null
  readonly gpuModel: string
  readonly gpuFormFactor: EngineSpec['gpuFormFactor']
  readonly gpuCount: number
  readonly networkType: NetworkType
  readonly label: string | null
  readonly driver: ProviderId
  readonly term: Term
  /** null: on demand. */
  readonly commitment: Commitment | null
  readonly resources: EngineSpec['resources']
  readonly maxCostUsdPerGpuHour?: string | undefined
  readonly ports: readonly number[]
  readonly image: EngineSpec['image']
  readonly cudaVersion: string | null
  readonly convertOnExpiry: boolean | null
  readonly monitoringEnabled: boolean | null
  readonly autoTerminateAt: Instant | null
  readonly spendingLimit: NanoUsd | null
  /** null: any price will do. */
  readonly maxCostPerHour: NanoUsd | null
  /** Where it may go, tried in this order. */
  readonly places: readonly Place[]
  /** For the answer when none of them has room. */
  readonly wanted: { readonly gpus: string; readonly where: string }
}

/** A larger hold does not fit the ledger's 64 bits; no balance is ever that large. */
const MAX_HOLD = nanoUsdOf(4n * usd('999999999'))

/** Takes the money and the GPUs and writes the rental down as Pending, or says what is missing. */
export async function placeOrder(app: App, tx: Tx, actor: Actor, order: RentalOrder): Promise<Result<Rental>> {
  const facts = await lockOrderFacts(tx, actor.accountId, actor.keyId)
  const refused = refuseOrder(app, order, facts, tx.clock.now())
  if (refused !== undefined) return refused
  const hold = holdOf(order)
  if (
    order.commitment !== null &&
    (hold > MAX_HOLD || (await drawCredit(tx, actor.accountId, hold)) === 'insufficient')
  ) {
    return tooLittle(order)
  }
  const written = await writeOrder(tx, {
    ...order,
    accountId: actor.accountId,
    personId: actor.personId,
    keyId: actor.keyId,
    spec: specOf(order, facts.ssh_keys),
    hold,
  })
  if (written.kind === 'insufficient') return tooLittle(order)
  if (written.kind === 'no_place') return fail('no_capacity', order.wanted)
  const { rental } = written
  if (order.commitment !== null) await insertCommitment(tx, rental.id, order.commitment)
  recordRentalEvent(tx, rental, 'rental.created', {
    gpuCount: rental.gpu_count,
    region: rental.region,
    costPerHourUsd: formatUsd(order.term.costPerHour),
  })
  tx.wake.add('provision').add(CAPACITY_WAKE)
  return ok(rental)
}

/** Checks that need no machine: dates, price cap, quota, keys, limits. */
function refuseOrder(app: App, order: RentalOrder, facts: OrderFacts, now: Instant): Failure | undefined {
  if (order.autoTerminateAt !== null && order.autoTerminateAt <= now) {
    return failField(['autoTerminateAt'], 'end_in_the_past')
  }
  const { costPerHour } = order.term
  if (order.maxCostPerHour !== null && costPerHour > order.maxCostPerHour) {
    return failField(['maxCostPerHourUsd'], 'price_changed', { perHour: costPerHour, max: order.maxCostPerHour })
  }
  const quota = quotaOf(facts.quota)
  if (facts.gpus_in_use + order.gpuCount > quota.gpus) {
    return fail('quota_exceeded', { quota: `${quota.gpus} GPUs`, used: String(facts.gpus_in_use) })
  }
  if (facts.ssh_keys.length === 0 && app.drivers.get(order.driver)?.traits.ssh === true) {
    return fail('no_ssh_key')
  }
  return limitBelowTerm(order.spendingLimit, order.commitment) ?? overKeyBudget(facts, holdOf(order))
}

export function overKeyBudget(facts: OrderFacts, hold: NanoUsd): Failure | undefined {
  if (facts.key_budget === null || facts.key_budget >= hold) return undefined
  return fail('key_spending_limit', { amount: hold, left: facts.key_budget, failureKind: 'forbidden' })
}

/** A limit below the price of the term would contradict the commitment. */
function limitBelowTerm(
  limit: NanoUsd | null | undefined,
  commitment: Pick<Commitment, 'total'> | null | undefined,
): Failure | undefined {
  if (!commitment || limit === null || limit === undefined || limit >= commitment.total) return undefined
  return failField(['spendingLimitUsd'], 'limit_below_term', { total: commitment.total })
}

/** What an order sets aside: the whole term where it is reserved, else the first hour. */
function holdOf(order: RentalOrder): NanoUsd {
  return order.commitment?.total ?? costOfSpan(order.term.costPerHour, HOLD_COVERS_MS)
}

function tooLittle(order: RentalOrder): Failure {
  return fail('insufficient_balance', {
    amount: holdOf(order),
    purpose: order.commitment === null ? 'first_hour' : 'term',
  })
}

function specOf(order: RentalOrder, sshKeys: readonly string[]): NewOrder['spec'] {
  return {
    kind: order.kind,
    label: order.label,
    region: order.region,
    gpuType: order.gpuType,
    gpuModel: order.gpuModel,
    gpuFormFactor: order.gpuFormFactor,
    gpuCount: order.gpuCount,
    networkType: order.networkType,
    resources: order.resources,
    ...(order.maxCostUsdPerGpuHour === undefined ? {} : { maxCostUsdPerGpuHour: order.maxCostUsdPerGpuHour }),
    sshKeys,
    ports: order.ports,
    image: order.image,
    cudaVersion: order.cudaVersion,
    monitoringEnabled: order.monitoringEnabled ?? false,
  }
}

/**
 * Ends a rental that the caller has locked: the bill stops at `end`, what was set aside goes back, and the engine is
 * asked to let go. A rental that no engine has ever been asked for is gone at once. Where its term had ended before
 * `end`, that comes first.
 */
export async function terminateRental(
  tx: Tx,
  rental: Rental,
  reason: string,
  end: Instant,
  note?: string,
): Promise<Rental> {
  if (rental.status === 'Terminating' || rental.status === 'Terminated') return rental
  // A term that ends at the very same instant is over, and nothing follows it.
  const forced = await passTermEnd(tx, rental, addMs(billedUntil(rental, end), -1))
  const ended = forced ?? { reason, at: end }
  const moved = await moveRental(tx, rental.id, 'Terminating', {
    status_reason: ended.reason,
    terminate_requested_at: ended.at,
    ...(note === undefined ? {} : { termination_note: note }),
  })
  if (moved === undefined) throw new Error(`rental ${rental.id} cannot be ended from ${rental.status}`)
  // Nobody is bound to a machine that we cannot reach.
  const atFault = rental.status === 'Unknown'
  const ending = await closeRentalMeter(tx, rental, billedUntil(rental, ended.at), atFault)
  await detach(tx, { rentalId: rental.id })
  recordRentalEvent(tx, rental, 'rental.terminating', {
    reason: ended.reason,
    at: formatInstant(ended.at),
    ...(note === undefined ? {} : { note }),
    ...(ending === undefined || ending.extra === 0n ? {} : { earlyEndUsd: formatUsd(ending.extra) }),
  })
  if (rental.released_at !== null || neverAsked(rental, tx.clock.now())) return releaseRental(tx, moved)
  tx.wake.add('terminate')
  return moved
}

/** Marks a locked rental as failed. It costs nothing from then on, and its GPUs go back once the engine shows it gone. */
export async function failRental(
  tx: Tx,
  rental: Rental,
  reason: string,
  detail?: string,
  shownUntil: Instant = tx.clock.now(),
): Promise<Rental | undefined> {
  if (!isLiving(rental.status)) return undefined
  const until = billedUntil(rental, shownUntil)
  const forced = await passTermEnd(tx, rental, addMs(until, -1))
  const moved = await moveRental(tx, rental.id, 'Failed', { status_reason: reason })
  if (moved === undefined) return undefined
  await closeRentalMeter(tx, rental, forced?.at ?? until, true)
  await detach(tx, { rentalId: rental.id })
  recordRentalEvent(tx, rental, 'rental.failed', { reason, ...(detail === undefined ? {} : { detail }) })
  if (neverAsked(moved, tx.clock.now())) return releaseRental(tx, moved)
  tx.wake.add('terminate')
  return moved
}

/** The engine has shown that nothing of it is left: the GPUs go back on sale, and an ending rental has ended. */
export async function releaseRental(tx: Tx, rental: Rental): Promise<Rental> {
  await releaseGpus(tx, rental.id)
  for (const volumeId of await deleteAttachments(tx, { rentalId: rental.id })) {
    recordEvent(tx, {
      accountId: rental.account_id,
      type: 'volume.detached',
      subject: { kind: 'volume', id: String(volumeId) },
      data: { storageVolumeId: volumeId, rentalId: rental.id },
    })
  }
  const now = tx.clock.now()
  if (rental.status === 'Terminating') {
    const ended = await moveRental(tx, rental.id, 'Terminated', {
      terminated_at: now,
      released_at: rental.released_at ?? now,
    })
    if (ended === undefined) throw new Error(`rental ${rental.id} is no longer Terminating`)
    recordRentalEvent(tx, rental, 'rental.terminated', { reason: rental.status_reason })
    return ended
  }
  return updateRental(tx, rental.id, { released_at: now })
}

/** No engine has been asked for it, and no reconciler is about to ask. */
function neverAsked(rental: Rental, now: Instant): boolean {
  return rental.create_asked_at === null && (rental.lease_until === null || rental.lease_until <= now)
}

/** While the engine does not show a machine, its bill stands still at the last time it did. */
function billedUntil(rental: Rental, end: Instant): Instant {
  return rental.status === 'Unknown' && rental.seen_at !== null && rental.seen_at < end ? rental.seen_at : end
}

export interface RentalChange {
  readonly label?: string | null | undefined
  readonly convertOnExpiry?: boolean | undefined
  readonly autoTerminateAt?: Instant | null | undefined
  readonly spendingLimit?: NanoUsd | null | undefined
}

/** Changes what the customer may change while the (locked) rental lives. */
export async function changeRental(tx: Tx, rental: Rental, change: RentalChange): Promise<Result<Rental>> {
  if (!isLiving(rental.status)) {
    return fail('already_terminated', { rentalId: rental.id, status: rental.status })
  }
  if (change.autoTerminateAt && change.autoTerminateAt <= tx.clock.now()) {
    return failField(['autoTerminateAt'], 'end_in_the_past')
  }
  const commitment = await findCommitment(tx.db, rental.id)
  const contradiction = limitBelowTerm(change.spendingLimit, commitment?.closedAt === null ? commitment : null)
  if (contradiction !== undefined) return contradiction
  const changed = await updateRental(tx, rental.id, {
    updated_at: tx.clock.now(),
    ...(change.label === undefined ? {} : { label: change.label }),
    ...(change.convertOnExpiry === undefined ? {} : { convert_on_expiry: change.convertOnExpiry }),
    ...(change.autoTerminateAt === undefined ? {} : { auto_terminate_at: change.autoTerminateAt }),
    ...(change.spendingLimit === undefined ? {} : { spending_limit_nano: change.spendingLimit }),
  })
  // A new limit may end the rental sooner than the meter had planned to look.
  await meterNow(tx, rental.id)
  recordRentalEvent(tx, changed, 'rental.changed')
  return ok(changed)
}

export function rentalTag(app: App, rental: Pick<Rental, 'id' | 'nonce'>): string {
  return tagOf(app.installationId, 'rental', rental)
}

/** The caller's own rental of any kind, by its id or its name, or the answer that there is none. */
export async function findAnyRental(db: Db, actor: Actor, idOrName: string): Promise<Result<Rental>> {
  const id = /^\d{1,10}$/.test(idOrName) ? Number.parseInt(idOrName, 10) : undefined
  const isId = id !== undefined && id > 0 && id <= MAX_INT32
  const rental = isId ? await findRental(db, id) : await findRentalByName(db, idOrName)
  return rental === undefined ? noRental() : ownRental(rental, actor, rental.kind)
}

/** The caller's own rental of the v2 interface, of either kind or of one, or the answer that there is none. */
export function ownRental(rental: Rental | undefined, actor: Actor, kind?: RentalKind): Result<Rental> {
  const fits = kind === undefined ? rental?.kind !== 'container' : rental?.kind === kind
  if (rental === undefined || rental.account_id !== actor.accountId || !fits) {
    return noRental()
  }
  return ok(rental)
}

function noRental(): Failure {
  return fail('rental_not_found')
}
