/** The history of offers: what became of orders there, and how many there were, in steps of ten minutes. */
import { sql } from 'kysely'
import { instantOf, MINUTE_MS, toDate, type Instant } from '../../base/instant.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { OfferHistory } from '../../domain/offer-history.ts'
import { offerOfUnit } from '../../domain/unit.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Rental } from '../rental/rental.ts'

const STEP_MS = 10 * MINUTE_MS

export type OfferOutcome =
  | { readonly kind: 'made' | 'no_capacity' | 'failed' }
  | { readonly kind: 'started'; readonly afterMs: number }

/** Machines that are not units of an offer are ignored. */
export async function recordOutcome(
  tx: Tx,
  { driver, spec }: Pick<Rental, 'driver' | 'spec'>,
  outcome: OfferOutcome,
): Promise<void> {
  const offerId = offerOfUnit(spec.nodes[0]?.machineId ?? '')
  if (offerId === undefined) return
  const column = sql.ref(outcome.kind)
  const startMs = outcome.kind === 'started' ? Math.max(0, Math.round(outcome.afterMs)) : 0
  await sql`
    insert into offer_outcome as o (driver, offer_id, at, ${column}, start_ms)
    values (${driver}, ${offerId}, ${toDate(stepOf(tx.clock.now()))}, 1, ${startMs})
    on conflict (driver, offer_id, at) do update
      set ${column} = o.${column} + 1, start_ms = o.start_ms + excluded.start_ms`.execute(tx.db)
}

/** Writes only counts that widen the range of these ten minutes. */
export async function recordCounts(
  tx: Tx,
  driver: ProviderId,
  counts: ReadonlyArray<{ readonly offerId: string; readonly available: number }>,
): Promise<void> {
  if (counts.length === 0) return
  const step = toDate(stepOf(tx.clock.now()))
  await sql`
    insert into offer_outcome as o (driver, offer_id, at, lowest, highest)
    select ${driver}, c.id, ${step}, c.n, c.n
    from unnest(${counts.map(({ offerId }) => offerId)}::text[], ${counts.map(({ available }) => available)}::integer[])
      as c (id, n) order by c.id
    on conflict (driver, offer_id, at) do update
      set lowest = least(o.lowest, excluded.lowest), highest = greatest(o.highest, excluded.highest)
      where o.lowest is null or excluded.lowest < o.lowest or excluded.highest > o.highest`.execute(tx.db)
}

/** Reads the history since an instant, by driver and offer (`originOf`). */
export async function readOfferHistory(db: Db, since: Instant): Promise<Map<string, OfferHistory>> {
  const { rows } = await sql<{ driver: string; offer_id: string; start_ms: bigint } & OfferHistory>`
    select driver, offer_id, sum(made)::integer as made, sum(no_capacity)::integer as "noCapacity",
      sum(failed)::integer as failed, sum(started)::integer as started, sum(start_ms)::bigint as start_ms,
      min(lowest) as lowest, max(highest) as highest
    from offer_outcome where at > ${at(since)} group by driver, offer_id`.execute(db)
  return new Map(
    rows.map(({ driver, offer_id, start_ms, ...row }) => {
      const startMs = row.started === 0 ? null : Math.round(Number(start_ms) / row.started)
      return [`${driver} ${offer_id}`, { ...row, startMs }]
    }),
  )
}

export async function deleteOutcomes(db: Db, before: Instant): Promise<void> {
  await db.deleteFrom('offer_outcome').where('at', '<', at(before)).execute()
}

function stepOf(now: Instant): Instant {
  return instantOf(Math.floor(now / STEP_MS) * STEP_MS)
}
