/**
 * Compares the machine list of each provider with the database and records the differences. This is the only place
 * where a rental becomes Running, Stopped, Unknown or gone.
 *
 * A running rental needs no write: the time of a provider's last good list is one row (`loop.done_at`), and the meter
 * never charges past it. So an unreachable provider stops the bills of its machines without further code.
 */
import { addMs, formatInstant, later, MINUTE_MS, type Instant } from '../base/instant.ts'
import { zeroUsd } from '../base/money.ts'
import type { App } from '../app/app.ts'
import { startGroup } from '../app/group/group.ts'
import { placeElsewhere } from '../app/order/place.ts'
import { failRental, releaseRental, rentalTag, terminateRental } from '../app/rental/rental.ts'
import { recordRentalEvent, segmentMemo } from '../app/rental/rental-event.ts'
import { runningSegmentOf } from '../app/rental/rental-power.ts'
import { passTermEnd } from '../app/rental/rental-term.ts'
import { rentalStateTable } from '../contract/rental-state.ts'
import { isLiving, keepsDisk, mayMove, tagPrefix } from '../domain/rental.ts'
import { hadNoRoom, type Driver, type DriverMachine } from '../drivers/driver.ts'
import { findAccount } from '../store/account/account.ts'
import { recordOutcome } from '../store/machine/offer-outcome.ts'
import { transact, type Tx } from '../store/platform/database.ts'
import { endTurn, readDoneAt, takeTurn } from '../store/platform/lease.ts'
import { findMachine } from '../store/machine/machine.ts'
import { findUsedDrivers, listUnreleased, type LiveRow } from '../store/rental/rental-engine.ts'
import { lockRental, moveRental, readTerms, updateRental, type Rental } from '../store/rental/rental.ts'
import { startsFree } from '../store/serving/replica.ts'
import { endSegment, findOpenSegment, openSegment, supplierOfSegment } from '../store/ledger/segment.ts'
import { driversToList } from './drivers.ts'
import { flagStuck } from './expire.ts'
import { callSignal, eachOf, throwAll, type Reconciler } from './loop.ts'
import { recordPurchases, recordUnseenPurchase } from './purchases.ts'
import {
  becomeUnseen,
  isOwnStop,
  powerStepFor,
  seenRunning,
  takePowerStep,
  type PowerStep,
  type UnshownStep,
} from './observe-power.ts'

const EVERY_MS = 2_000
/** Providers without rentals are listed only in every n-th pass. */
const UNUSED_PASSES = 15
const WIDTH = 8
const LEASE_SLACK_MS = 15_000
/** The list is suspected to be wrong if more than this share, and this number, of machines are missing at once. */
const MASS_SHARE = 0.5
const MASS_COUNT = 10
/** After this many suspect lists in a row, the machines count as missing. */
const MASS_PASSES = 5
/** A machine must be missing from the list for this long to count as gone: while it starts, and after its teardown. */
const ABSENT_AT_START_MS = MINUTE_MS
const ABSENT_AT_END_MS = 10 * MINUTE_MS

export function observe(app: App, onMassLoss: (driver: string, missing: number) => void = () => {}): Reconciler {
  const suspectLists = new Map<string, number>()
  const driversNow = driversToList(app, UNUSED_PASSES, findUsedDrivers)
  return {
    name: 'observe',
    everyMs: EVERY_MS,
    run: async (signal) => {
      const drivers = await driversNow()
      const results = await Promise.allSettled(
        drivers.map((driver) => observeDriver(app, driver, suspectLists, onMassLoss, signal)),
      )
      throwAll(results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : [])))
      return false
    },
  }
}

async function observeDriver(
  app: App,
  driver: Driver,
  suspectLists: Map<string, number>,
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
    // The database is read before the list: a row without a listed machine cannot be newer than the list.
    const rows = await listUnreleased(db, driver.id)
    const listed = await driver.list(tagPrefix(app.installationId), callSignal(signal, driver.callTimeoutMs))
    const byTag = groupByTag(listed)
    const all = rows.flatMap((row) => stepFor(driver, row, byTag.get(rentalTag(app, row)) ?? [], startedAt) ?? [])
    const { steps, groups } = groupSteps(rows, all)
    const vanished = steps.filter(({ kind }) => kind === 'lost' || kind === 'missing' || kind === 'unseen').length
    const expected = rows.filter(({ status }) => isLiving(status)).length
    const isSuspect = vanished >= MASS_COUNT && vanished > expected * MASS_SHARE
    suspectLists.set(driver.id, isSuspect ? (suspectLists.get(driver.id) ?? 0) + 1 : 0)
    const isRejected = isSuspect && (suspectLists.get(driver.id) ?? 0) < MASS_PASSES
    if (isRejected) onMassLoss(driver.id, vanished)
    else await recordPurchases(app, driver, 'rental', listed, startedAt)
    const newTags = new Map(rows.filter((row) => row.external_id === null).map((row) => [row.id, rentalTag(app, row)]))
    const failed = await eachOf(isRejected ? steps.filter((step) => 'machine' in step) : steps, WIDTH, async (step) => {
      const tag = step.kind === 'gone' ? newTags.get(step.id) : undefined
      if (tag !== undefined) await driver.discard?.(tag, callSignal(signal, driver.callTimeoutMs))
      await transact(app.database, (tx) => takeStep(app, tx, driver, step, startedAt, lastGood))
    }).catch((error: unknown) => ({ error }))
    if (!isRejected)
      for (const [id, machines] of groups)
        await transact(app.database, (tx) =>
          startGroup(tx, id, new Set(machines.keys()), startedAt, (rental) =>
            becomeRunning(tx, rental, machines.get(rental.id) as DriverMachine, startedAt),
          ),
        )
    // A row that cannot be written does not make the list wrong.
    good = !isRejected
    if (failed !== undefined) throw failed.error
  } finally {
    await endTurn(db, loop, token, good ? startedAt : undefined)
  }
}

function groupByTag(machines: readonly DriverMachine[]): Map<string, DriverMachine[]> {
  const byTag = new Map<string, DriverMachine[]>()
  for (const machine of machines) {
    const group = byTag.get(machine.tag)
    if (group === undefined) byTag.set(machine.tag, [machine])
    else group.push(machine)
  }
  return byTag
}

type Step =
  | PowerStep
  | {
      readonly kind: 'adopt' | 'running' | 'another_run' | 'failed'
      readonly id: number
      readonly machine: DriverMachine
    }
  | { readonly kind: 'lost'; readonly id: number; readonly seenAt?: Instant; readonly reason?: string | undefined }
  | UnshownStep
  | { readonly kind: 'missing' | 'never_came' | 'gone'; readonly id: number }

/**
 * Returns the running nodes of groups, by group and rental. They start together once all of them run and each has its
 * machine in the database.
 */
function groupSteps(rows: readonly LiveRow[], all: readonly Step[]) {
  const waiting = new Map(rows.flatMap((row) => (row.waits_for_group === null ? [] : [[row.id, row]])))
  const groups = new Map<string, Map<number, DriverMachine>>()
  const steps = all.flatMap((step): Step[] => {
    const row = waiting.get(step.id)
    if (row === undefined || step.kind !== 'running') return [step]
    if (row.external_id === null) return [{ ...step, kind: 'adopt' }]
    const group = row.waits_for_group ?? ''
    groups.set(group, (groups.get(group) ?? new Map()).set(step.id, step.machine))
    return []
  })
  return { steps, groups }
}

/** Returns the step that follows from a row and its machines at the provider. undefined: none. */
function stepFor(driver: Driver, row: LiveRow, machines: readonly DriverMachine[], now: Instant): Step | undefined {
  // Among duplicates the machine in the database counts, else the first by id; `reap` destroys the others. A machine
  // for which the provider had no room belongs to the order's earlier place.
  const machine =
    machines.find((one) => one.externalId === row.external_id) ??
    (row.external_id === null
      ? machines.filter((one) => !hadNoRoom(one)).sort((a, b) => (a.externalId < b.externalId ? -1 : 1))[0]
      : undefined)
  const { id } = row
  if (keepsDisk(row.status)) return powerStepFor(row, machine, now)
  if (machine !== undefined) {
    const isOff = machine.state === 'stopped' || isOwnStop(machine)
    if ((row.status === 'Running' || row.status === 'Unknown') && isOff) return { kind: 'off', id, machine }
    if (row.status === 'Pending' || row.status === 'Unknown') {
      if (machine.state === 'running') return { kind: 'running', id, machine }
      if (machine.state === 'failed' || machine.state === 'stopped') return { kind: 'failed', id, machine }
    }
    if (row.status === 'Running' && machine.state === 'failed') return { kind: 'failed', id, machine }
    if (row.status === 'Running' && machine.state === 'unreachable') {
      const seenAt = machine.seenAt === undefined ? {} : { seenAt: machine.seenAt }
      return { kind: 'lost', id, ...seenAt, reason: machine.failure }
    }
    // The host or the provider restarted, or somebody else ends the machine. Whether it comes back is not known yet.
    if (row.status === 'Running' && (machine.state === 'starting' || machine.state === 'stopping')) {
      return { kind: 'lost', id }
    }
    if (row.external_id === null) return { kind: 'adopt', id, machine }
    // The machine restarted between two lists, so the downtime is too short to be left out of the bill.
    if (row.status === 'Running' && machine.state === 'running' && hasRestarted(row, machine)) {
      return { kind: 'another_run', id, machine }
    }
    return row.missing_since === null ? undefined : { kind: 'shown_again', id }
  }
  // The machine is not in the list. While a create call may be in progress, or the list may lag, that proves nothing.
  const calledAt = row.create_asked_at
  const isCallOver = calledAt === null || addMs(calledAt, driver.callTimeoutMs + driver.listLagMs) <= now
  const isListDue = row.external_id !== null && calledAt !== null && addMs(calledAt, driver.listLagMs) <= now
  const isUnleased = row.lease_until === null || row.lease_until <= now
  // The absence of a machine with a provider id counts only after a destroy call.
  const isDestroyCalled = row.external_id === null || row.destroy_asked_at !== null
  const missing = row.missing_since
  if (mayMove(row.status, 'Unknown')) return { kind: 'lost', id }
  const { driverCall } = rentalStateTable[row.status]
  if (driverCall === 'create' && isListDue) {
    if (missing === null) return { kind: 'missing', id }
    return addMs(missing, ABSENT_AT_START_MS) <= now ? { kind: 'never_came', id } : undefined
  }
  if (driverCall !== 'destroy') return undefined
  // An absence that began before the destroy call proves nothing for a while.
  const isAbsent = missing === null || addMs(later(missing, row.destroy_asked_at ?? missing), ABSENT_AT_END_MS) <= now
  const isGone = (isListDue || isCallOver) && isUnleased && isDestroyCalled && isAbsent && machines.length === 0
  return isGone ? { kind: 'gone', id } : undefined
}

async function takeStep(
  app: App,
  tx: Tx,
  driver: Driver,
  step: Step,
  now: Instant,
  lastGood: Instant | null,
): Promise<void> {
  const rental = await lockRental(tx, step.id)
  if (rental === undefined || rental.released_at !== null) return
  switch (step.kind) {
    case 'adopt':
      return adopt(tx, rental, step.machine)
    case 'running':
      return becomeRunning(tx, rental, step.machine, now)
    case 'failed':
      // The provider accepted the order and had no room after all. `reap` removes any remains.
      if (hadNoRoom(step.machine) && rental.status === 'Pending' && (await placeElsewhere(app, tx, rental))) return
      await adopt(tx, rental, step.machine)
      return end(tx, rental, step.machine, lastGood ?? now)
    case 'unseen':
      return becomeUnseen(tx, rental, step.seenAt ?? lastGood, step.reason)
    case 'disk_lost':
      if (rental.stuck_at === null) await flagStuck(tx, rental, 'machine_lost')
      return
    case 'off':
    case 'stopped':
    case 'started':
    case 'start_failed':
    case 'runs':
      return takePowerStep(app, tx, rental, step, now, lastGood ?? now)
    case 'another_run':
      await updateRental(tx, rental.id, { incarnation: step.machine.incarnation ?? null })
      return
    case 'shown_again':
      // A stopped rental was flagged only because its disk was not shown.
      await updateRental(tx, rental.id, {
        missing_since: null,
        stuck_at: rental.status === 'Stopped' ? null : undefined,
      })
      return
    case 'missing':
      await updateRental(tx, rental.id, { missing_since: now })
      return
    case 'lost':
      return becomeUnknown(tx, rental, step.seenAt ?? lastGood, step.reason)
    case 'never_came':
      if (rental.status === 'Pending')
        await failRental(tx, rental, 'machine_lost', `${driver.id} no longer lists the machine`)
      return
    case 'gone':
      if (rental.status === 'Terminating') await recordUnseenPurchase(tx, driver, rental)
      if (rentalStateTable[rental.status].driverCall === 'destroy') await releaseRental(tx, rental)
  }
}

/**
 * Ends a rental whose machine has ended. It is billed up to the last time the provider showed it running, or up to the
 * end of its program, which an agent that was away reports late. A program that ended with exit code 0 has not failed.
 */
async function end(tx: Tx, rental: Rental, machine: DriverMachine, shownUntil: Instant): Promise<void> {
  const { failure = 'engine_failure', message, exitCode, endedAt = shownUntil } = machine
  // Charges for the time between are not taken back.
  const charged = await findOpenSegment(tx.db, { rentalId: rental.id, volumeId: null })
  const until = endedAt < shownUntil ? later(endedAt, charged?.settled_until ?? endedAt) : shownUntil
  if (exitCode !== undefined) await updateRental(tx, rental.id, { exit_code: exitCode })
  if (failure === 'process_exited' && exitCode === 0) await terminateRental(tx, rental, 'completed', until)
  else await failRental(tx, rental, failure, message, until)
}

async function adopt(tx: Tx, rental: Rental, machine: DriverMachine): Promise<void> {
  if (rental.external_id !== null) return
  await updateRental(tx, rental.id, { external_id: machine.externalId })
  tx.wake.add('terminate')
}

async function becomeRunning(tx: Tx, rental: Rental, machine: DriverMachine, now: Instant): Promise<void> {
  const change = seenRunning(machine, now)
  if (rental.status === 'Unknown') {
    if (await endedWithTerm(tx, rental, now)) return
    const restarted = hasRestarted(rental, machine)
    const moved = await moveRental(tx, rental.id, 'Running', { ...change, status_reason: null })
    if (moved === undefined) return
    // If it did not restart, it kept running, and its open segment covers that time.
    const free = restarted ? await leaveOut(tx, moved, rental.seen_at, now) : {}
    recordRentalEvent(tx, rental, 'rental.recovered', { restarted, ...free })
    tx.wake.add('meter')
    return
  }
  const started = later(now, rental.created_at)
  if ((await moveRental(tx, rental.id, 'Running', { ...change, started_at: started })) === undefined) return
  await openSegment(tx, {
    metered: { rentalId: rental.id, volumeId: null },
    accountId: rental.account_id,
    startedAt: started,
    ...(await currentSegment(tx, rental)),
    supplier: await supplierOf(tx, rental),
    // The segment is due at once: the meter then computes how far money and limits reach.
    dueAt: started,
  })
  if (rental.create_asked_at !== null)
    await recordOutcome(tx, rental, { kind: 'started', afterMs: now - rental.create_asked_at })
  recordRentalEvent(tx, rental, 'rental.running', { sshNetworking: machine.data?.sshNetworking ?? [] })
  tx.wake.add('meter')
  tx.wake.add('attachments')
}

/**
 * Returns the segment to open. A customer's replica is free until it answers (app/serving/replica.ts) or the free time
 * is used up (app/serving/free-start.ts).
 */
async function currentSegment(tx: Tx, rental: Rental): ReturnType<typeof runningSegmentOf> {
  const segment = await runningSegmentOf(tx, rental)
  return (await startsFree(tx.db, rental.id)) ? { ...segment, pricePerHour: zeroUsd } : segment
}

/** Whether the machine has restarted since it was last seen, as far as the provider tells. */
function hasRestarted(rental: Pick<Rental, 'incarnation'>, machine: DriverMachine): boolean {
  return rental.incarnation !== null && machine.incarnation !== undefined && rental.incarnation !== machine.incarnation
}

/**
 * Makes the time since the machine was last seen free, as a segment at price zero. A term that ended before or in that
 * time is converted to on demand, so the next segment has the price of the current term.
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
  const closed = forced === undefined ? await endSegment(tx, metered, from, segmentMemo(rental)) : undefined
  const ended = forced ?? (closed?.endReason ? { reason: closed.endReason, at: closed.until } : undefined)
  if (ended !== undefined) {
    await terminateRental(tx, rental, ended.reason, ended.at)
    return {}
  }
  const common = { metered, accountId: rental.account_id, supplier: supplierOfSegment(charged), dueAt: now }
  const withoutGpus = charged.without_gpus
  await openSegment(tx, { ...common, startedAt: from, pricePerHour: zeroUsd, withoutGpus })
  await endSegment(tx, metered, now, segmentMemo(rental))
  await passTermEnd(tx, rental, now)
  await openSegment(tx, { ...common, startedAt: now, ...(await currentSegment(tx, rental)) })
  return { freeFrom: formatInstant(from), freeUntil: formatInstant(now) }
}

/** Whether the rental ends with its term and the term is over: then it is not resumed. */
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

/**
 * The machine is no longer listed. Billing stops at the last time it was listed, or at the time up to which it is
 * already settled.
 */
async function becomeUnknown(tx: Tx, rental: Rental, shownAt: Instant | null, reason?: string): Promise<void> {
  if (rental.status !== 'Running' || rental.started_at === null) return
  const segment = await findOpenSegment(tx.db, { rentalId: rental.id, volumeId: null })
  const seenAt = later(segment?.settled_until ?? rental.started_at, shownAt ?? rental.started_at)
  const change = { seen_at: seenAt, missing_since: tx.clock.now(), status_reason: reason ?? null }
  if ((await moveRental(tx, rental.id, 'Unknown', change)) === undefined) return
  const lastSeenAt = new Date(seenAt).toISOString()
  recordRentalEvent(tx, rental, 'rental.unknown', { lastSeenAt, ...(reason === undefined ? {} : { reason }) })
}
