/**
 * Stop and start of a rental. A request records the desired state; `power` passes it on to the provider, and `observe`
 * records when the machine has reached it. The bill follows what the provider shows: the full price until the machine is
 * off, then the price of the disk until the machine runs again, without a gap between the two segments.
 *
 *   Running ──> Stopping ──> Stopped ──> Starting ──> Running
 *                   ^───── start failed ─────┘
 *
 * If others use the GPUs, a rental can start without them: it then claims none, has a small part of its host, and costs
 * `cpu_nano_per_hour` until it is off again. Or it moves to another machine (rental-move.ts).
 */
import { randomUUID } from 'node:crypto'
import type { Instant } from '../../base/instant.ts'
import { formatInstant } from '../../base/instant.ts'
import { costOfSpan, formatUsd, type NanoUsd } from '../../base/money.ts'
import type { IfNoGpu } from '../../contract/rental-power.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { HOLD_COVERS_MS } from '../../domain/metering.ts'
import { keepsDisk, shareWithoutGpus, wholeOf, type RentalSpec, type Powers, type Share } from '../../domain/rental.ts'
import { cpuOnlyPricePerHour, stoppedPricePerHour, type Term } from '../../domain/term.ts'
import { offerOfUnit } from '../../domain/unit.ts'
import { canStop } from '../../drivers/driver.ts'
import type { Tx } from '../../store/platform/database.ts'
import { placeHold, releaseExcess } from '../../store/ledger/ledger.ts'
import { findMachine, releaseGpus } from '../../store/machine/machine.ts'
import { lockOrderFacts } from '../../store/rental/order.ts'
import { hasRoomWithoutGpus, reclaimGpus } from '../../store/rental/rental-engine.ts'
import { moveRental, readTerms, updateRental, type Rental } from '../../store/rental/rental.ts'
import { endSegment, findOpenSegment, holdKey, openSegment, supplierOfSegment } from '../../store/ledger/segment.ts'
import type { App } from '../app.ts'
import { refuseOverBudget } from '../money/budget.ts'
import { overGpuQuota, overKeyBudget } from '../order/place-order.ts'
import { priceNow } from './rental-price.ts'
import { recordRentalEvent, rentalMemo, segmentMemo } from './rental-event.ts'
import { claimElsewhere, specWhereItIs } from './rental-move.ts'
import { terminateRental } from './rental.ts'

/**
 * The actions that a rental allows beyond ending it. A reserved one keeps its GPUs until the term ends, so it cannot be
 * stopped; a unit of an offer cannot either, because its capacity at the cloud would be gone.
 */
export function powersOf(app: App, rental: Pick<Rental, 'driver' | 'kind' | 'spec'>, term: Term): Powers {
  const driver = app.drivers.get(rental.driver)
  const [node, ...others] = rental.spec.nodes
  const isOneMachine = node !== undefined && others.length === 0 && offerOfUnit(node.machineId) === undefined
  return {
    // The other nodes of a group would wait for a stopped one, at full price.
    stop: canStop(driver, rental.kind) && isOneMachine && term.reservation === null && rental.spec.group === undefined,
    reboot: driver?.power !== undefined && driver.traits.power.reboot.includes(rental.kind),
  }
}

/** The price of a stopped rental's disk. For a rental that runs, the price that a stop would have now. */
export function stoppedPriceOf(
  app: App,
  rental: Pick<Rental, 'spec' | 'status' | 'stopped_nano_per_hour'>,
  term: Term,
): NanoUsd {
  if (keepsDisk(rental.status) && rental.stopped_nano_per_hour !== null) return rental.stopped_nano_per_hour
  return stoppedPricePerHour(
    app.stoppedDiskPerGbMonth,
    rental.spec.workload?.diskGb ?? wholeOf(rental.spec).storageGb,
    term,
  )
}

/** The price of a rental that runs without its GPUs; otherwise the price that such a start would have now. */
export function cpuOnlyPriceOf(
  app: App,
  rental: Pick<Rental, 'spec' | 'status' | 'stopped_nano_per_hour' | 'cpu_nano_per_hour'>,
  term: Term,
): NanoUsd {
  if (rental.cpu_nano_per_hour !== null) return rental.cpu_nano_per_hour
  const { cpuCount } = wholeOf(shareWithoutGpus(rental.spec))
  return cpuOnlyPricePerHour(app.cpuPerHour, cpuCount, stoppedPriceOf(app, rental, term), term)
}

/** The share of its host that a running rental has. */
export function shareOf(rental: Pick<Rental, 'spec' | 'cpu_nano_per_hour'>): Share {
  return rental.cpu_nano_per_hour === null ? rental.spec : shareWithoutGpus(rental.spec)
}

/** The price of a running rental, and whether it runs without its GPUs. */
export async function runningSegmentOf(
  tx: Pick<Tx, 'db'>,
  rental: Rental,
): Promise<{ pricePerHour: NanoUsd; withoutGpus: boolean }> {
  if (rental.cpu_nano_per_hour !== null) return { pricePerHour: rental.cpu_nano_per_hour, withoutGpus: true }
  return { pricePerHour: await priceNow(tx, rental, (await readTerm(tx, rental.id)).costPerHour), withoutGpus: false }
}

export async function readTerm(tx: Pick<Tx, 'db'>, rentalId: number): Promise<Term> {
  const term = (await readTerms(tx.db, [rentalId])).get(rentalId)
  if (term === undefined) throw new Error(`rental ${rentalId} has no term`)
  return term
}

/** Why a locked rental cannot be stopped by its provider or its term. undefined: it can. */
export function whyNotStoppable(app: App, rental: Rental, term: Term): Failure | undefined {
  if (powersOf(app, rental, term).stop) return undefined
  return term.reservation === null ? fail('cannot_stop', { rentalId: rental.id }) : fail('reserved_not_stoppable')
}

/**
 * Begins to stop a locked rental. `off`: the instant at which the machine was seen off already. Absent: the full price
 * is charged until `observe` sees the machine off.
 */
export async function beginStop(
  app: App,
  tx: Tx,
  rental: Rental,
  stop: {
    readonly reason: string
    readonly event?: 'rental.stopping' | 'rental.start_failed'
    readonly detail?: string | undefined
    readonly off?: Instant
  },
): Promise<Rental> {
  const segment = await findOpenSegment(tx.db, meteredOf(rental))
  const moved = await moveRental(tx, rental.id, 'Stopping', {
    status_reason: stop.reason,
    start_requested_at: null,
    stop_at: pastStop(tx, rental),
    // The price of a disk that is paid for already does not change.
    ...(segment?.while_stopped === true
      ? {}
      : { stopped_nano_per_hour: stoppedPriceOf(app, rental, await readTerm(tx, rental.id)) }),
  })
  if (moved === undefined) throw new Error(`rental ${rental.id} cannot be stopped from ${rental.status}`)
  tx.wake.add('power')
  recordRentalEvent(tx, rental, stop.event ?? 'rental.stopping', {
    reason: stop.reason,
    ...(stop.detail === undefined ? {} : { detail: stop.detail }),
    diskKept: true,
  })
  return stop.off === undefined ? moved : ((await payForDiskOnly(tx, moved, stop.off)) ?? moved)
}

/** A time that has passed must not stop the rental again after its next start. */
function pastStop(tx: Tx, rental: Rental): null | undefined {
  return rental.stop_at !== null && rental.stop_at <= tx.clock.now() ? null : undefined
}

/**
 * The provider shows a locked, Stopping rental off since `off`, on the machine `machineId`: its GPUs are free, and only
 * its disk is charged.
 */
export async function finishStop(
  tx: Tx,
  rental: Rental,
  off: Instant,
  now: Instant,
  machineId?: string,
): Promise<void> {
  const isInterrupted = rental.status_reason === 'interrupted'
  if (isInterrupted && rental.after_interruption === 'terminate') {
    await terminateRental(tx, rental, 'interrupted', off)
    return
  }
  const ended = await payForDiskOnly(tx, rental, off)
  if (ended !== undefined) return
  const moved = await moveRental(tx, rental.id, 'Stopped', {
    seen_at: now,
    missing_since: null,
    cpu_nano_per_hour: null,
    spec: specWhereItIs(rental.spec, machineId),
  })
  if (moved === undefined) return
  await releaseGpus(tx, rental.id)
  const price = priceOfDisk(moved)
  await releaseExcess(tx, {
    holdKey: holdKey(meteredOf(rental)),
    accountId: rental.account_id,
    keep: costOfSpan(price, HOLD_COVERS_MS),
    postingKey: `stopped:${rental.id}:${randomUUID()}`,
    memo: `Unused by ${rentalMemo(rental)}`,
  })
  tx.wake.add('meter').add('power')
  recordRentalEvent(tx, rental, 'rental.stopped', {
    reason: rental.status_reason,
    at: formatInstant(off),
    stoppedCostPerHourUsd: formatUsd(price),
  })
  if (isInterrupted) await waitForGpus(tx, moved)
}

function priceOfDisk(rental: Rental): NanoUsd {
  if (rental.stopped_nano_per_hour === null) throw new Error(`the disk of rental ${rental.id} has no price`)
  return rental.stopped_nano_per_hour
}

/**
 * Ends the segment of the machine at `off` and begins that of its disk at the same instant. Returns the rental if the
 * money did not last that long: then it ends.
 */
async function payForDiskOnly(tx: Tx, rental: Rental, off: Instant): Promise<Rental | undefined> {
  const metered = meteredOf(rental)
  const open = await findOpenSegment(tx.db, metered)
  if (open === undefined || open.while_stopped) return undefined
  const closed = await endSegment(tx, metered, off, segmentMemo(rental))
  if (closed?.endReason) return terminateRental(tx, rental, closed.endReason, closed.until)
  await openSegment(tx, {
    metered,
    accountId: rental.account_id,
    startedAt: closed?.until ?? off,
    pricePerHour: priceOfDisk(rental),
    whileStopped: true,
    supplier: supplierOfSegment(open),
    dueAt: tx.clock.now(),
  })
  return undefined
}

/**
 * Starts a locked, Stopped rental: claims GPUs on the machine with its disk and holds the price of an hour. `ifNoGpu` says
 * what to do if they are not free.
 */
export async function beginStart(app: App, tx: Tx, rental: Rental, ifNoGpu: IfNoGpu): Promise<Result<Rental>> {
  const term = await readTerm(tx, rental.id)
  const refused = whyNotStoppable(app, rental, term)
  if (refused !== undefined) return refused
  const facts = await lockOrderFacts(tx, rental.account_id, rental.api_key_id ?? '')
  const overQuota = overGpuQuota(facts, rental.gpu_count)
  if (overQuota !== undefined) return overQuota
  const nodes = await reclaimGpus(tx, rental)
  const elsewhere = nodes === undefined && ifNoGpu === 'move' ? await claimElsewhere(app, tx, rental, term) : undefined
  if (elsewhere?.ok === false) return elsewhere
  const spec = nodes === undefined ? elsewhere?.value : { ...rental.spec, nodes }
  const cpuPrice = nodes === undefined && ifNoGpu === 'cpuOnly' ? cpuOnlyPriceOf(app, rental, term) : null
  const pricePerHour = cpuPrice ?? term.costPerHour
  const hold = costOfSpan(pricePerHour, HOLD_COVERS_MS)
  const payer = { accountId: rental.account_id, keyId: rental.api_key_id, label: rental.label }
  const overBudget = overKeyBudget(facts, hold) ?? (await refuseOverBudget(tx.db, payer, tx.clock.now()))
  if (overBudget !== undefined) return overBudget
  if (spec === undefined && cpuPrice === null)
    return ifNoGpu === 'wait' ? ok(await waitForGpus(tx, rental)) : noGpu(tx, rental)
  if (cpuPrice !== null && !(await hasRoomWithoutGpus(tx, rental))) return fail('no_room_without_gpus')
  const held = await placeHold(tx, {
    postingKey: `start:${rental.id}:${randomUUID()}`,
    holdKey: holdKey(meteredOf(rental)),
    accountId: rental.account_id,
    amount: hold,
    memo: `Held for ${rentalMemo(rental)}`,
  })
  if (held === 'insufficient') return fail('insufficient_balance', { amount: hold, purpose: 'first_hour' })
  return ok(await becomeStarting(tx, rental, spec ?? rental.spec, { pricePerHour, cpuPrice }))
}

async function becomeStarting(
  tx: Tx,
  rental: Rental,
  spec: RentalSpec,
  { pricePerHour, cpuPrice }: { readonly pricePerHour: NanoUsd; readonly cpuPrice: NanoUsd | null },
): Promise<Rental> {
  const moved = await moveRental(tx, rental.id, 'Starting', {
    spec,
    cpu_nano_per_hour: cpuPrice,
    status_reason: null,
    start_requested_at: null,
    stop_at: pastStop(tx, rental),
  })
  if (moved === undefined) throw new Error(`rental ${rental.id} cannot be started from ${rental.status}`)
  tx.wake.add('power')
  recordRentalEvent(tx, rental, 'rental.starting', {
    costPerHourUsd: formatUsd(pricePerHour),
    ...(cpuPrice === null ? {} : { cpuOnly: true }),
    ...(spec.movesFrom === undefined ? {} : { from: spec.movesFrom.machineId, to: spec.nodes[0]?.machineId }),
  })
  return moved
}

async function waitForGpus(tx: Tx, rental: Rental): Promise<Rental> {
  if (rental.start_requested_at !== null) return rental
  recordRentalEvent(tx, rental, 'rental.waiting', { gpuCount: rental.gpu_count })
  return updateRental(tx, rental.id, { start_requested_at: tx.clock.now() })
}

async function noGpu(tx: Tx, rental: Rental): Promise<Failure> {
  const node = rental.spec.nodes[0]
  const machine = node === undefined ? undefined : await findMachine(tx.db, node.machineId)
  const free = machine?.status === 'node_ready' ? machine.gpus_free : 0
  return fail('no_gpu_on_host', { gpus: rental.gpu_count, free, field: ['ifNoGpu'] })
}

/** The provider shows a locked, Starting rental running: the disk's segment ends and that of the machine begins. */
export async function finishStart(
  tx: Tx,
  rental: Rental,
  now: Instant,
  change: Parameters<typeof moveRental>[3],
  machineId?: string,
): Promise<void> {
  const metered = meteredOf(rental)
  const open = await findOpenSegment(tx.db, metered)
  const moved = await moveRental(tx, rental.id, 'Running', {
    ...change,
    status_reason: null,
    spec: specWhereItIs(rental.spec, machineId),
  })
  if (moved === undefined || open === undefined) return
  const closed = await endSegment(tx, metered, now, segmentMemo(rental))
  if (closed?.endReason) {
    await terminateRental(tx, moved, closed.endReason, closed.until)
    return
  }
  const running = await runningSegmentOf(tx, moved)
  await openSegment(tx, {
    metered,
    accountId: rental.account_id,
    startedAt: closed?.until ?? now,
    ...running,
    supplier: supplierOfSegment(open),
    dueAt: now,
  })
  recordRentalEvent(tx, rental, 'rental.started', {
    costPerHourUsd: formatUsd(running.pricePerHour),
    ...(running.withoutGpus ? { cpuOnly: true } : {}),
  })
  tx.wake.add('meter').add('attachments')
}

function meteredOf({ id }: Pick<Rental, 'id'>) {
  return { rentalId: id, volumeId: null } as const
}
