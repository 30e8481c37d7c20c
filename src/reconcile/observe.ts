/**
 * Compares what each engine shows with the books, in one list per engine, and writes down what follows. This is the
 * only place where a rental becomes Running, Unknown or gone.
 *
 * What runs needs no write: that an engine's list was good at a certain time is one row (`loop.done_at`), and the meter
 * never charges past it. So an engine that we cannot reach stops the bills of its machines by itself.
 */
import { addMs, formatInstant, later, MINUTE_MS, type Instant } from '../base/instant.ts'
import { zeroUsd, type NanoUsd } from '../base/money.ts'
import type { App } from '../app/app.ts'
import { failRental, releaseRental, rentalTag, terminateRental } from '../app/rental.ts'
import { recordRentalEvent, rentalMemo } from '../app/rental-event.ts'
import { passTermEnd } from '../app/rental-term.ts'
import { tagPrefix } from '../domain/rental.ts'
import type { Driver, EngineMachine } from '../engines/driver.ts'
import { findAccount } from '../store/account.ts'
import { transact, type Tx } from '../store/database.ts'
import { endTurn, readDoneAt, takeTurn } from '../store/lease.ts'
import { findMachine } from '../store/machine.ts'
import {
  listUnreleased,
  lockRental,
  moveRental,
  readTerms,
  updateRental,
  type LiveRow,
  type Rental,
} from '../store/rental.ts'
import { endSegment, findOpenSegment, openSegment, supplierOfSegment } from '../store/segment.ts'
import { callSignal, eachOf, throwAll, type Reconciler } from './loop.ts'

const EVERY_MS = 2_000
const WIDTH = 8
const LEASE_SLACK_MS = 15_000
/** More of an engine's machines missing at once than this share (and number) is taken for a fault of the engine. */
const MASS_SHARE = 0.5
const MASS_COUNT = 10
/** After so many passes in a row the engine is believed. */
const MASS_PASSES = 5
/** How long a machine must be left out of the list before it is given up: while it starts, and after it had to go. */
const ABSENT_AT_START_MS = MINUTE_MS
const ABSENT_AT_END_MS = 10 * MINUTE_MS

export function observe(app: App, onMassLoss: (driver: string, missing: number) => void = () => {}): Reconciler {
  const doubtful = new Map<string, number>()
  return {
    name: 'observe',
    everyMs: EVERY_MS,
    run: async (signal) => {
      const results = await Promise.allSettled(
        [...app.drivers.values()].map((driver) => observeDriver(app, driver, doubtful, onMassLoss, signal)),
      )
      throwAll(results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : [])))
      return false
    },
  }
}

async function observeDriver(
  app: App,
  driver: Driver,
  doubtful: Map<string, number>,
  onMassLoss: (driver: string, missing: number) => void,
  signal: AbortSignal,
): Promise<void> {
  const { db } = app.database
  const loop = `observe:${driver.id}`
  const startedAt = app.clock.now()
  const token = await takeTurn(db, loop, {
    now: startedAt,
    leaseMs: driver.callTimeoutMs + LEASE_SLACK_MS,
  })
  if (token === undefined) return
  let good = false
  try {
    const lastGood = await readDoneAt(db, loop)
    // The books first, then the engine: what is in the books and not shown was not made after we looked.
    const rows = await listUnreleased(db, driver.id)
    const shown = groupByTag(await driver.list(tagPrefix(app.installationId), callSignal(signal, driver.callTimeoutMs)))
    const steps = rows.flatMap((row) => stepFor(driver, row, shown.get(rentalTag(app, row)) ?? [], startedAt) ?? [])
    const vanished = steps.filter((step) => step.kind === 'lost' || step.kind === 'missing').length
    const expected = rows.filter((row) => row.status === 'Running' || row.status === 'Pending').length
    const believed = vanished < MASS_COUNT || vanished <= expected * MASS_SHARE
    doubtful.set(driver.id, believed ? 0 : (doubtful.get(driver.id) ?? 0) + 1)
    const doubted = !believed && (doubtful.get(driver.id) ?? 0) < MASS_PASSES
    if (doubted) onMassLoss(driver.id, vanished)
    const taken = await eachOf(doubted ? steps.filter((step) => 'machine' in step) : steps, WIDTH, (step) =>
      transact(app.database, (tx) => takeStep(tx, driver, step, startedAt, lastGood)),
    ).catch((error: unknown) => ({ error }))
    // One row that cannot be written does not make the list any less good.
    good = !doubted
    if (taken !== undefined) throw taken.error
  } finally {
    await endTurn(db, loop, token, good ? startedAt : undefined)
  }
}

function groupByTag(machines: readonly EngineMachine[]): Map<string, EngineMachine[]> {
  const shown = new Map<string, EngineMachine[]>()
  for (const machine of machines) shown.set(machine.tag, [...(shown.get(machine.tag) ?? []), machine])
  return shown
}

type Step =
  | {
      readonly kind: 'adopt' | 'running' | 'another_run' | 'failed'
      readonly id: number
      readonly machine: EngineMachine
    }
  | { readonly kind: 'lost'; readonly id: number; readonly seenAt?: Instant }
  | { readonly kind: 'shown_again' | 'missing' | 'never_came' | 'gone'; readonly id: number }

/** What a row and what the engine shows of it call for. undefined: nothing. */
function stepFor(driver: Driver, row: LiveRow, shown: readonly EngineMachine[], now: Instant): Step | undefined {
  // With duplicates ours is the one in the books, else the first by id; `reap` ends the others.
  const machine =
    shown.find((one) => one.externalId === row.external_id) ??
    (row.external_id === null ? [...shown].sort((a, b) => (a.externalId < b.externalId ? -1 : 1))[0] : undefined)
  const { id } = row
  if (machine !== undefined) {
    if (row.status === 'Pending' || row.status === 'Unknown') {
      if (machine.state === 'running') return { kind: 'running', id, machine }
      if (machine.state === 'failed') return { kind: 'failed', id, machine }
    }
    if (row.status === 'Running' && machine.state === 'failed') return { kind: 'failed', id, machine }
    if (row.status === 'Running' && machine.state === 'unreachable') {
      return { kind: 'lost', id, ...(machine.seenAt === undefined ? {} : { seenAt: machine.seenAt }) }
    }
    // It stands still, since its host or the engine there was restarted. Whether it comes back is not known yet.
    if (row.status === 'Running' && machine.state === 'starting') return { kind: 'lost', id }
    if (row.external_id === null) return { kind: 'adopt', id, machine }
    // Between two looks it stood still for no longer than that.
    if (row.status === 'Running' && machine.state === 'running' && isAnotherRun(row, machine)) {
      return { kind: 'another_run', id, machine }
    }
    return row.missing_since === null ? undefined : { kind: 'shown_again', id }
  }
  // Nothing is shown. While a call may still be under way, or the list may lag, that means nothing.
  const asked = row.create_asked_at
  const visible = asked === null || addMs(asked, driver.callTimeoutMs + driver.listLagMs) <= now
  const known = row.external_id !== null && asked !== null && addMs(asked, driver.listLagMs) <= now
  const idle = row.lease_until === null || row.lease_until <= now
  // What the engine has named must have been asked to go before its absence counts.
  const askedToGo = row.external_id === null || row.destroy_asked_at !== null
  const missing = row.missing_since
  switch (row.status) {
    case 'Running':
      return { kind: 'lost', id }
    case 'Pending':
      if (!known) return undefined
      if (missing === null) return { kind: 'missing', id }
      return addMs(missing, ABSENT_AT_START_MS) <= now ? { kind: 'never_came', id } : undefined
    case 'Failed':
    case 'Terminating': {
      // One that the list had left out before it was asked to go proves nothing by being left out still, for a while.
      const absent = missing === null || addMs(later(missing, row.destroy_asked_at ?? missing), ABSENT_AT_END_MS) <= now
      return (known || visible) && idle && askedToGo && absent && shown.length === 0 ? { kind: 'gone', id } : undefined
    }
    case 'Unknown':
    case 'Terminated':
      return undefined
  }
}

async function takeStep(tx: Tx, driver: Driver, step: Step, now: Instant, lastGood: Instant | null): Promise<void> {
  const rental = await lockRental(tx, step.id)
  if (rental === undefined || rental.released_at !== null) return
  switch (step.kind) {
    case 'adopt':
      return adopt(tx, rental, step.machine)
    case 'running':
      return becomeRunning(tx, rental, step.machine, now)
    case 'failed':
      await adopt(tx, rental, step.machine)
      // It is paid for as long as the engine has shown it running, and no longer.
      await failRental(tx, rental, step.machine.failure ?? 'engine_failure', step.machine.message, lastGood ?? now)
      return
    case 'another_run':
      await updateRental(tx, rental.id, { incarnation: step.machine.incarnation ?? null })
      return
    case 'shown_again':
      await updateRental(tx, rental.id, { missing_since: null })
      return
    case 'missing':
      await updateRental(tx, rental.id, { missing_since: now })
      return
    case 'lost':
      return becomeUnknown(tx, rental, step.seenAt ?? lastGood)
    case 'never_came':
      if (rental.status === 'Pending') await failRental(tx, rental, 'machine_lost', `${driver.id} no longer shows it`)
      return
    case 'gone':
      if (rental.status === 'Terminating' || rental.status === 'Failed') await releaseRental(tx, rental)
  }
}

async function adopt(tx: Tx, rental: Rental, machine: EngineMachine): Promise<void> {
  if (rental.external_id !== null) return
  await updateRental(tx, rental.id, { external_id: machine.externalId })
  tx.wake.add('terminate')
}

async function becomeRunning(tx: Tx, rental: Rental, machine: EngineMachine, now: Instant): Promise<void> {
  const change = {
    external_id: machine.externalId,
    seen_at: now,
    missing_since: null,
    ...(machine.incarnation === undefined ? {} : { incarnation: machine.incarnation }),
    ...(machine.data === undefined ? {} : { provider_data: machine.data }),
  }
  if (rental.status === 'Unknown') {
    if (await endedWithTerm(tx, rental, now)) return
    const stoodStill = isAnotherRun(rental, machine)
    const moved = await moveRental(tx, rental.id, 'Running', change)
    if (moved === undefined) return
    // Unless it stood still it ran all the while, and its open stretch covers that time.
    const free = stoodStill ? await leaveOut(tx, moved, rental.seen_at, now) : {}
    recordRentalEvent(tx, rental, 'rental.recovered', { restarted: stoodStill, ...free })
    tx.wake.add('meter')
    return
  }
  const started = later(now, rental.created_at)
  if ((await moveRental(tx, rental.id, 'Running', { ...change, started_at: started })) === undefined) return
  await openSegment(tx, {
    metered: { rentalId: rental.id, volumeId: null },
    accountId: rental.account_id,
    startedAt: started,
    pricePerHour: await readPrice(tx, rental.id),
    supplier: await supplierOf(tx, rental),
    // At once: the meter then knows how far the money and the limits reach, and when to look again.
    dueAt: started,
  })
  recordRentalEvent(tx, rental, 'rental.running', { sshNetworking: machine.data?.sshNetworking ?? [] })
  tx.wake.add('meter')
  tx.wake.add('attachments')
}

/** Whether it is known to have stood still since it was last seen. */
function isAnotherRun(rental: Pick<Rental, 'incarnation'>, machine: EngineMachine): boolean {
  return rental.incarnation !== null && machine.incarnation !== undefined && rental.incarnation !== machine.incarnation
}

/**
 * The time from when it was last seen costs nothing. It stands in the books all the same, at no price. A term that
 * ended before or in that time goes over to on demand, so what follows has the price of the term of today.
 */
async function leaveOut(
  tx: Tx,
  rental: Rental,
  lastSeenAt: Instant | null,
  now: Instant,
): Promise<{ freeFrom?: string; freeUntil?: string }> {
  const metered = { rentalId: rental.id, volumeId: null }
  const charged = await findOpenSegment(tx.db, metered)
  if (charged === undefined || lastSeenAt === null) return {}
  const from = later(charged.settled_until, lastSeenAt)
  if (from >= now) return {}
  const forced = await passTermEnd(tx, rental, from)
  const closed = forced === undefined ? await endSegment(tx, metered, from, rentalMemo(rental)) : undefined
  const ended = forced ?? (closed?.endReason ? { reason: closed.endReason, at: closed.until } : undefined)
  if (ended !== undefined) {
    await terminateRental(tx, rental, ended.reason, ended.at)
    return {}
  }
  const common = { metered, accountId: rental.account_id, supplier: supplierOfSegment(charged), dueAt: now }
  await openSegment(tx, { ...common, startedAt: from, pricePerHour: zeroUsd })
  await endSegment(tx, metered, now, rentalMemo(rental))
  await passTermEnd(tx, rental, now)
  const pricePerHour = await readPrice(tx, rental.id)
  await openSegment(tx, { ...common, startedAt: now, pricePerHour })
  return { freeFrom: formatInstant(from), freeUntil: formatInstant(now) }
}

async function readPrice(tx: Tx, rentalId: number): Promise<NanoUsd> {
  const term = (await readTerms(tx.db, [rentalId])).get(rentalId)
  if (term === undefined) throw new Error(`rental ${rentalId} has no term`)
  return term.costPerHour
}

/** Whether it ends with a term that is over: then it does not come back. */
async function endedWithTerm(tx: Tx, rental: Rental, now: Instant): Promise<boolean> {
  if (rental.convert_on_expiry !== false) return false
  const end = (await readTerms(tx.db, [rental.id])).get(rental.id)?.reservation?.endsAt
  return end !== undefined && end <= now
}

async function supplierOf(tx: Tx, rental: Rental): Promise<{ accountId: string; platformFeeBp: number } | null> {
  const node = rental.spec.nodes[0]
  const machine = node === undefined ? undefined : await findMachine(tx.db, node.machineId)
  if (machine === undefined || machine.supplier_id === null) return null
  const supplier = await findAccount(tx.db, machine.supplier_id)
  return { accountId: machine.supplier_id, platformFeeBp: supplier?.platform_fee_bp ?? 0 }
}

/** Not shown any more. The bill stands still at the last time that it was shown, or where it has got to already. */
async function becomeUnknown(tx: Tx, rental: Rental, shownAt: Instant | null): Promise<void> {
  if (rental.status !== 'Running' || rental.started_at === null) return
  const segment = await findOpenSegment(tx.db, { rentalId: rental.id, volumeId: null })
  const seenAt = later(segment?.settled_until ?? rental.started_at, shownAt ?? rental.started_at)
  if ((await moveRental(tx, rental.id, 'Unknown', { seen_at: seenAt, missing_since: tx.clock.now() })) === undefined)
    return
  recordRentalEvent(tx, rental, 'rental.unknown', { lastSeenAt: new Date(seenAt).toISOString() })
}
