/**
 * Reads what the detail of a rental tells beyond its row: its events, what it has cost, its ports, what its host says.
 * Rentals and instances of the marketplace take it from here, so both show the same cost.
 */
import type { Instant } from '../base/instant.ts'
import { costOfSpan, nanoUsdOf, type NanoUsd } from '../base/money.ts'
import type { App } from '../app/app.ts'
import { rentalTag } from '../app/rental.ts'
import type { Db } from '../store/database.ts'
import { listEvents } from '../store/event.ts'
import type { Rental } from '../store/rental.ts'
import { listSegments } from '../store/segment.ts'
import { readPublicPorts, readWorkloadMessages } from '../store/workload.ts'
import type { DetailFacts } from './rental-view.ts'

const DETAIL_EVENTS = 100

export async function readDetailFacts(app: App, rental: Rental): Promise<DetailFacts> {
  const { db } = app.database
  const isHosted = rental.driver === 'host' || rental.driver === 'private-cloud'
  const tag = rentalTag(app, rental)
  const [events, costSoFar, publicPorts, messages] = await Promise.all([
    listEvents(db, rental.account_id, { subject: { kind: 'rental', id: String(rental.id) }, limit: DETAIL_EVENTS }),
    readCost(db, rental, app.clock.now()),
    readPublicPorts(db, isHosted && rental.external_id !== null ? [rental.external_id] : []),
    readWorkloadMessages(db, isHosted && rental.status === 'Pending' ? [tag] : []),
  ])
  return { events, costSoFar, publicPorts: publicPorts.get(rental.external_id ?? ''), doing: messages.get(tag) }
}

/** Closed stretches as charged, the open one as it stands now. */
async function readCost(db: Db, rental: Rental, now: Instant): Promise<NanoUsd> {
  const until = rental.status === 'Unknown' && rental.seen_at !== null ? rental.seen_at : now
  let cost = 0n
  for (const segment of await listSegments(db, rental.id)) {
    cost +=
      segment.ended_at === null
        ? costOfSpan(segment.price_nano_per_hour, Math.max(0, until - segment.started_at))
        : segment.settled_nano
  }
  return nanoUsdOf(cost)
}
