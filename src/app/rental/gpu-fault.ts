/**
 * A GPU that breaks while it is rented. Its host reports it from the kernel log; from the instant of the fault the rental
 * costs only what its other GPUs cost, and its customer is told. Time that was charged meanwhile is taken back. If the
 * host reports the GPU as working again, because the machine booted, the full price is back from the report on; a stop
 * and a start, or a new rental, gets GPUs that work.
 *
 * A report can only lower what the rental costs and its supplier earns: the price never exceeds that of the term.
 */
import { earlier, formatInstant, instantOf, later, type Instant } from '../../base/instant.ts'
import { costOfSpan, formatUsd } from '../../base/money.ts'
import type { HostReport } from '../../contract/agent.ts'
import { freeFrom } from '../../domain/gpu-fault.ts'
import { HOLD_COVERS_MS } from '../../domain/metering.ts'
import { isUnseen } from '../../domain/rental.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import { hasOpenCommitment } from '../../store/ledger/commitment.ts'
import { releaseExcess } from '../../store/ledger/ledger.ts'
import { listClaims, listMisjudgedRentals, markFault } from '../../store/machine/gpu-fault.ts'
import { lockRental, type Rental } from '../../store/rental/rental.ts'
import { startsFree } from '../../store/serving/replica.ts'
import {
  endSegment,
  findOpenSegment,
  holdKey,
  openSegment,
  shortenSegment,
  supplierOfSegment,
} from '../../store/ledger/segment.ts'
import type { App } from '../app.ts'
import { recordRentalEvent, rentalMemo, segmentMemo } from './rental-event.ts'
import { runningSegmentOf } from './rental-power.ts'
import { passTermEnd } from './rental-term.ts'
import { terminateRental } from './rental.ts'

type ReportedFault = NonNullable<HostReport['gpuFaults']>[number]

/** `faults`: all broken GPUs of the host, as its connection `session` reports them. */
export async function applyGpuFaults(
  app: App,
  hostId: string,
  session: string,
  faults: readonly ReportedFault[],
): Promise<void> {
  const indexes = faults.map(({ index }) => index)
  for (const rentalId of await listMisjudgedRentals(app.database.db, hostId, session, indexes)) {
    await transact(app.database, (tx) => applyToRental(tx, rentalId, hostId, faults))
  }
}

async function applyToRental(
  tx: Tx,
  rentalId: number,
  hostId: string,
  faults: readonly ReportedFault[],
): Promise<void> {
  const rental = await lockRental(tx, rentalId)
  if (rental === undefined) return
  const now = tx.clock.now()
  const claims = (await listClaims(tx.db, rentalId)).filter(({ machineId }) => machineId === hostId)
  const byIndex = new Map(faults.map((fault) => [fault.index, fault]))
  const broken = claims
    .flatMap((claim) => {
      const fault = byIndex.get(claim.gpuIndex)
      if (fault === undefined || claim.faultySince !== null) return []
      return [{ claim, since: later(claim.claimedAt, earlier(instantOf(fault.at), now)), message: fault.message }]
    })
    .toSorted((one, other) => one.since - other.since)
  for (const { claim, since, message } of broken) {
    await markFault(tx, claim, { since, message })
    const price = await reprice(tx, rental, since)
    recordRentalEvent(tx, rental, 'rental.gpu_fault', {
      gpu: claim.position,
      at: formatInstant(since),
      detail: message,
      ...price,
    })
  }
  // While nothing is known of the machine, a price that rises would be charged for that time.
  if (isUnseen(rental)) return
  const repaired = claims.filter(({ gpuIndex, faultySince }) => faultySince !== null && !byIndex.has(gpuIndex))
  for (const claim of repaired) {
    await markFault(tx, claim, null)
    const price = await reprice(tx, rental, now)
    recordRentalEvent(tx, rental, 'rental.gpu_recovered', { gpu: claim.position, at: formatInstant(now), ...price })
  }
}

/** Ends the open segment at `at`, as far as a report is believed, and begins one at the price of the GPUs that work. */
async function reprice(tx: Tx, rental: Rental, at: Instant): Promise<{ costPerHourUsd?: string }> {
  const metered = { rentalId: rental.id, volumeId: null }
  const now = tx.clock.now()
  const forced = await passTermEnd(tx, rental, at)
  const open = await findOpenSegment(tx.db, metered)
  // A replica that is free until it answers has its price from then on.
  if (open === undefined || open.while_stopped || open.without_gpus || (await startsFree(tx.db, rental.id))) return {}
  const shownAt = isUnseen(rental) && rental.seen_at !== null ? earlier(at, rental.seen_at) : at
  const from = freeFrom(shownAt, { startedAt: open.started_at, settledUntil: open.settled_until }, now)
  const shortened =
    forced === undefined && from < open.settled_until && (await shortenSegment(tx, open, from, refundMemo(rental)))
  const closed =
    forced === undefined && !shortened ? await endSegment(tx, metered, from, segmentMemo(rental)) : undefined
  const ended = forced ?? (closed?.endReason ? { reason: closed.endReason, at: closed.until } : undefined)
  if (ended !== undefined) {
    await terminateRental(tx, rental, ended.reason, ended.at)
    return {}
  }
  const { pricePerHour } = await runningSegmentOf(tx, rental)
  await openSegment(tx, {
    metered,
    accountId: rental.account_id,
    startedAt: closed?.until ?? from,
    pricePerHour,
    supplier: supplierOfSegment(open),
    dueAt: now,
  })
  if (!(await hasOpenCommitment(tx.db, rental.id)))
    await releaseExcess(tx, {
      holdKey: holdKey(metered),
      accountId: rental.account_id,
      keep: costOfSpan(pricePerHour, HOLD_COVERS_MS),
      postingKey: `fault:${rental.id}:${open.id}`,
      memo: `Unused by ${rentalMemo(rental)}`,
    })
  tx.wake.add('meter')
  return { costPerHourUsd: formatUsd(pricePerHour) }
}

function refundMemo(rental: Rental): string {
  return `Faulty GPU of ${rentalMemo(rental)}`
}
