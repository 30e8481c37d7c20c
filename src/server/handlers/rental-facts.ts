/**
 * Reads the details of a rental beyond its row: events, cost, ports, host status. Rentals and marketplace instances both
 * use it, so they show the same cost.
 */
import { earlier, type Instant } from '../../base/instant.ts'
import { nanoUsdOf } from '../../base/money.ts'
import type { App } from '../../app/app.ts'
import { rentalTag } from '../../app/rental/rental.ts'
import { planEnding, usageOf } from '../../domain/commitment.ts'
import { isMeantToRun, isUnseen } from '../../domain/rental.ts'
import { findCommitment } from '../../store/ledger/commitment.ts'
import type { Db } from '../../store/platform/database.ts'
import { listEvents } from '../../store/notice/event.ts'
import { listClaims } from '../../store/machine/gpu-fault.ts'
import { readMachines } from '../../store/machine/machine.ts'
import { readPortHealth } from '../../store/rental/port.ts'
import type { Rental } from '../../store/rental/rental.ts'
import { listSegments } from '../../store/ledger/segment.ts'
import { readPublicPorts, readWorkloadMessages } from '../../store/host/workload.ts'
import type { DetailFacts } from './rental-view.ts'

const MAX_EVENTS = 100

export async function readDetailFacts(app: App, rental: Rental): Promise<DetailFacts> {
  const { db } = app.database
  const tag = rentalTag(app, rental)
  const machineId = rental.spec.nodes[0]?.machineId
  const faults = (await listClaims(db, rental.id)).filter(({ faultySince }) => faultySince !== null)
  const [events, cost, publicPorts, messages, machines, health] = await Promise.all([
    listEvents(db, rental.account_id, { subject: { kind: 'rental', id: String(rental.id) }, limit: MAX_EVENTS }),
    readCost(db, rental, app.clock.now(), faults.length > 0),
    readRelayedPorts(app, [rental]),
    readWorkloadMessages(db, isMeantToRun(rental.status) ? [tag] : []),
    readMachines(db, machineId === undefined ? [] : [machineId]),
    readPortHealth(db, rental),
  ])
  const machine = machines.get(machineId ?? '')
  return {
    events,
    ...cost,
    publicPorts: publicPorts.get(rental.id),
    portUrl: (port) => app.portUrl?.(rental.name, port),
    health,
    doing: messages.get(tag),
    faults,
    simulated: machine?.simulation ?? null,
  }
}

/** Maps each rental's target ports to public ports. Leaves out rentals with a public address. */
export async function readRelayedPorts(
  app: App,
  rentals: readonly Rental[],
): Promise<Map<number, ReadonlyMap<number, number>>> {
  const relayed = rentals.filter(({ driver }) => app.drivers.get(driver)?.traits.ports === 'relayed')
  const ports = await readPublicPorts(
    app.database.db,
    relayed.flatMap((rental) => rental.external_id ?? []),
  )
  return new Map(relayed.map(({ id, external_id }) => [id, ports.get(external_id ?? '') ?? new Map()]))
}

/** Returns closed segments as charged, the open one as of now, plus the cost of an early termination. */
async function readCost(
  db: Db,
  rental: Rental,
  now: Instant,
  hasFault: boolean,
): Promise<Pick<DetailFacts, 'costSoFar' | 'commitment'>> {
  const isLost = isUnseen(rental)
  const until = isLost && rental.seen_at !== null ? rental.seen_at : now
  const segments = (await listSegments(db, rental.id)).map((row) => ({
    startedAt: row.started_at,
    endedAt: row.ended_at,
    pricePerHour: row.price_nano_per_hour,
  }))
  const usage = usageOf(segments, until)
  const commitment = await findCommitment(db, rental.id)
  const costSoFar = nanoUsdOf(usage.charged + (commitment?.rerated ?? 0n))
  if (commitment === undefined) return { costSoFar, commitment: null }
  const inTerm = usageOf(
    segments.filter((segment) => segment.startedAt < commitment.endsAt),
    earlier(until, commitment.endsAt),
  )
  const isOpen = commitment.closedAt === null
  const endNow = isOpen ? planEnding(commitment, inTerm, until, { atFault: isLost || hasFault }) : null
  return { costSoFar, commitment: { ...commitment, charged: inTerm.charged, endNow } }
}
