/** Settlements that are written together, by one call of `settle_segments` (schema/baseline/10_segment.sql). */
import { sql } from 'kysely'
import { formatInstant, toDate } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { Settlement } from '../../domain/metering.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Rental } from '../rental/rental.ts'
import type { Segment } from './segment.ts'

/** The settlement of a rental without any limits has to know this. */
export interface PlainRental extends Pick<Rental, 'name' | 'kind' | 'gpu_count' | 'gpu_type' | 'api_key_id'> {
  readonly held: NanoUsd
  readonly spec: Pick<Rental['spec'], 'gpuModel'>
}

/** The keys are ids of segments. Those that a commitment or a limit of the rental or its key may end are missing. */
export async function readPlainRentals(db: Db, segmentIds: readonly bigint[]): Promise<Map<bigint, PlainRental>> {
  const { rows } = await sql<PlainRental & { id: bigint }>`
    select s.id, h.amount_nano as held, r.api_key_id, r.name, r.kind, r.gpu_count, r.gpu_type,
      jsonb_build_object('gpuModel', r.spec -> 'gpuModel') as spec
    from segment s
    join rental r on r.id = s.rental_id
    join hold h on h.key = s.hold_key
    left join api_key k on k.public_id = r.api_key_id
    where s.id = any (${segmentIds.map(String)}::bigint[]) and r.spending_limit_nano is null
      and num_nonnulls(k.total_limit_nano, k.monthly_limit_nano) = 0
      and not exists (select 1 from commitment c where c.rental_id = r.id and c.closed_at is null)`.execute(db)
  return new Map(rows.map(({ id, ...rental }) => [id, rental]))
}

export interface PlannedSettlement {
  readonly segment: Segment
  readonly plan: Settlement
  readonly apiKeyId: string | null
  readonly memo: string
}

/** Settles segments that go on, all or none; their rentals and balances are locked. */
export async function settleSegments(tx: Tx, settlements: readonly PlannedSettlement[]): Promise<void> {
  const rows = settlements.map(({ segment, plan, apiKeyId, memo }) => ({
    segment_id: segment.id.toString(),
    n: segment.settlements + 1,
    account_id: segment.account_id,
    hold_key: segment.hold_key,
    rental_id: segment.rental_id,
    api_key_id: apiKeyId,
    memo,
    until: formatInstant(plan.until),
    due_at: formatInstant(plan.dueAt),
    top_up_nano: plan.topUp.toString(),
    charge_nano: plan.charge.toString(),
    supplier_id: segment.supplier_id,
    supplier_nano: plan.supplierShare.toString(),
  }))
  await sql`select settle_segments(${JSON.stringify(rows)}::jsonb, ${toDate(tx.clock.now())})`.execute(tx.db)
}
