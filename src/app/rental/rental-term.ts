/**
 * The money of a rental's term: converting a reserved term to on demand, and closing the meter when the rental ends.
 * Each function runs in the caller's transaction, with the rental locked.
 */
import { addMs, earlier, formatInstant, SECOND_MS, type Instant } from '../../base/instant.ts'
import { formatUsd, shareOf, zeroUsd } from '../../base/money.ts'
import { planEnding, usageOf, type Ending } from '../../domain/commitment.ts'
import { isLiving } from '../../domain/rental.ts'
import { onDemandAfter, type Term } from '../../domain/term.ts'
import { closeCommitment, findCommitment, type RentalCommitment } from '../../store/ledger/commitment.ts'
import type { Tx } from '../../store/platform/database.ts'
import { chargeHold, releaseHold } from '../../store/ledger/ledger.ts'
import { insertTerm, readTerms, type Rental } from '../../store/rental/rental.ts'
import {
  endSegment,
  findOpenSegment,
  holdKey,
  listSegments,
  openSegment,
  releaseMeterHold,
  supplierOfSegment,
} from '../../store/ledger/segment.ts'
import { priceNow } from './rental-price.ts'
import { recordRentalEvent, rentalMemo, segmentMemo } from './rental-event.ts'

/** An end in the past, caused by the term or by a lack of money. */
export interface ForcedEnd {
  readonly reason: 'term_expired' | 'balance_empty' | 'spending_limit'
  readonly at: Instant
}

/**
 * Brings the term of a rental up to `at`: a term that has ended by then becomes on demand at the instant of its end.
 * Returns the end of the rental if it ends with its term or the money did not last that long.
 */
export async function passTermEnd(tx: Tx, rental: Rental, at: Instant): Promise<ForcedEnd | undefined> {
  if (!isLiving(rental.status)) return undefined
  const term = (await readTerms(tx.db, [rental.id])).get(rental.id)
  const end = term?.reservation?.endsAt
  if (term === undefined || end === undefined || end > at) return undefined
  if (rental.convert_on_expiry === false) return { reason: 'term_expired', at: end }
  return convertTerm(tx, rental, term, end)
}

/** The reserved segment ends and the on-demand one begins at the same instant, however late this runs. */
async function convertTerm(
  tx: Tx,
  rental: Rental,
  term: Term & { n: number },
  end: Instant,
): Promise<ForcedEnd | undefined> {
  const metered = { rentalId: rental.id, volumeId: null }
  const next = onDemandAfter(term)
  const open = await findOpenSegment(tx.db, metered)
  const isRunning = open !== undefined && open.started_at < end
  if (isRunning) {
    const closed = await endSegment(tx, metered, end, rentalMemo(rental))
    if (closed?.endReason) return { reason: closed.endReason, at: closed.until }
  }
  const commitment = await findCommitment(tx.db, rental.id)
  if (commitment?.closedAt === null) {
    await closeCommitmentAt(tx, rental, commitment, end, false)
    // Releases the unused part of the term; the meter holds the next hour from the balance. The posting key differs from
    // that of the release at the end of the rental, by which the ledger check sees whether the money ran out.
    await releaseHold(tx, holdKey(metered), `term:${rental.id}`, `Unused by the reserved term of ${rentalMemo(rental)}`)
  }
  await insertTerm(tx, rental.id, term.n + 1, next)
  if (isRunning) {
    await openSegment(tx, {
      metered,
      accountId: rental.account_id,
      startedAt: end,
      pricePerHour: await priceNow(tx, rental, next.costPerHour),
      supplier: supplierOfSegment(open),
      dueAt: earlier(tx.clock.now(), addMs(end, SECOND_MS)),
    })
    tx.wake.add('meter')
  }
  recordRentalEvent(tx, rental, 'rental.term_converted', {
    at: formatInstant(end),
    costPerHourUsd: formatUsd(next.costPerHour),
  })
  return undefined
}

/**
 * Ends the bill at `end` and releases the rest of the hold. A reserved rental that ends early is re-rated first, unless
 * its machine, its host or Berth is the cause (`atFault`).
 */
export async function closeRentalMeter(
  tx: Tx,
  rental: Rental,
  end: Instant,
  atFault: boolean,
): Promise<Ending | undefined> {
  const metered = { rentalId: rental.id, volumeId: null }
  await endSegment(tx, metered, end, segmentMemo(rental))
  const commitment = await findCommitment(tx.db, rental.id)
  const ending =
    commitment?.closedAt === null ? await closeCommitmentAt(tx, rental, commitment, end, atFault) : undefined
  await releaseMeterHold(tx, metered, rentalMemo(rental))
  return ending
}

async function closeCommitmentAt(
  tx: Tx,
  rental: Rental,
  commitment: RentalCommitment,
  end: Instant,
  atFault: boolean,
): Promise<Ending> {
  const segments = await listSegments(tx.db, rental.id)
  const used = usageOf(
    segments.map((row) => ({
      startedAt: row.started_at,
      endedAt: row.ended_at,
      pricePerHour: row.price_nano_per_hour,
    })),
    end,
  )
  const ending = planEnding(commitment, used, end, { atFault })
  const last = segments.at(-1)
  const supplier = last === undefined ? null : supplierOfSegment(last)
  const supplierShare = supplier === null ? zeroUsd : shareOf(ending.extra, 10_000 - supplier.platformFeeBp)
  await chargeHold(tx, {
    postingKey: `rerate:${rental.id}`,
    holdKey: holdKey({ rentalId: rental.id, volumeId: null }),
    amount: ending.extra,
    memo: `Early end of the reserved term of ${rentalMemo(rental)}`,
    supplierId: supplier?.accountId ?? null,
    supplierAmount: supplierShare,
    rentalId: rental.id,
    volumeId: null,
    apiKeyId: rental.api_key_id,
  })
  await closeCommitment(tx, rental.id, { at: end, ending, atFault, supplierShare })
  return ending
}
