/** Charges starts of replicas once the free start time of their account is used up (domain/free-start.ts). */
import { addMs, later, MINUTE_MS, startOfDay, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import { freeGpuMs, freeUntil } from '../../domain/free-start.ts'
import { transact, type Db, type Tx } from '../../store/platform/database.ts'
import { lockManaged, type ManagedDeployment } from '../../store/serving/managed-deployment.ts'
import { lockRental, type Rental } from '../../store/rental/rental.ts'
import { listFreeStarts, type Replica } from '../../store/serving/replica.ts'
import {
  endSegment,
  findOpenSegment,
  openSegment,
  supplierOfSegment,
  type Segment,
} from '../../store/ledger/segment.ts'
import type { App } from '../app.ts'
import { recordDeploymentEvent } from './deployment-event.ts'
import { rentalMemo } from '../rental/rental-event.ts'
import { runningSegmentOf } from '../rental/rental-power.ts'

/** The allowance of an account for one day, in GPU-milliseconds. */
function freeStartAllowance({ freeStartMinutes }: Pick<App, 'freeStartMinutes'>): number {
  return (freeStartMinutes ?? limits.freeStartMinutes) * MINUTE_MS
}

/** Free GPU-minutes that starts of the account still have today. */
export async function freeStartLeft(
  app: Pick<App, 'freeStartMinutes' | 'clock'>,
  db: Db,
  accountId: string,
): Promise<number> {
  const now = app.clock.now()
  const since = startOfDay(now)
  const used = freeGpuMs(await listFreeStarts(db, accountId, since), since, now)
  return Math.max(0, freeStartAllowance(app) - used) / MINUTE_MS
}

export async function chargeLongStarts(
  app: App,
  deployment: ManagedDeployment,
  replicas: readonly Replica[],
): Promise<void> {
  if (deployment.is_public) return
  const starting = replicas.filter(({ state, status }) => state === 'starting' && status === 'Running')
  if (starting.length === 0 || (await freeStartLeft(app, app.database.db, deployment.account_id)) > 0) return
  for (const replica of starting) {
    await transact(app.database, async (tx) => {
      if ((await lockManaged(tx, deployment.id)) !== undefined) await chargeStart(app, tx, deployment, replica)
    })
  }
}

async function chargeStart(app: App, tx: Tx, deployment: ManagedDeployment, replica: Replica): Promise<void> {
  const rental = await lockRental(tx, replica.rental_id)
  const metered = { rentalId: replica.rental_id, volumeId: null }
  const free = await findOpenSegment(tx.db, metered)
  if (rental?.status !== 'Running' || free === undefined || free.price_nano_per_hour > 0n) return
  const now = tx.clock.now()
  const since = startOfDay(now)
  const spans = await listFreeStarts(tx.db, rental.account_id, since)
  const usedUpAt = freeUntil(spans, freeStartAllowance(app), since, now)
  const { pricePerHour } = await runningSegmentOf(tx, rental)
  if (usedUpAt === null || pricePerHour === 0n) return
  // A period that is settled as free stays free.
  const from = later(later(usedUpAt, free.settled_until), addMs(free.started_at, 1))
  if (from > now) return
  await endFreeTime(tx, rental, free, { at: from, pricePerHour })
  recordDeploymentEvent(tx, deployment, 'deployment.start_charged', {
    replicaId: replica.id,
    rentalId: rental.id,
    version: replica.version,
    freeGpuMinutesPerDay: freeStartAllowance(app) / MINUTE_MS,
  })
}

/** From that instant on the rental is charged, and its supplier paid. `free`: its open segment. */
export async function endFreeTime(
  tx: Tx,
  rental: Rental,
  free: Segment,
  { at, pricePerHour }: { readonly at: Instant; readonly pricePerHour: NanoUsd },
): Promise<void> {
  const metered = { rentalId: rental.id, volumeId: null }
  await endSegment(tx, metered, at, rentalMemo(rental))
  await openSegment(tx, {
    metered,
    accountId: rental.account_id,
    startedAt: at,
    pricePerHour,
    supplier: supplierOfSegment(free),
    dueAt: tx.clock.now(),
  })
  tx.wake.add('meter')
}
