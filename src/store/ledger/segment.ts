/** Segments: opened, charged and closed together with the hold that pays for them. */
import { randomUUID } from 'node:crypto'
import { sql, type Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { nanoUsdOf, shareOf, type NanoUsd } from '../../base/money.ts'
import { costUntil, planClosing, type Funds, type OpenSegment, type Settlement } from '../../domain/metering.ts'
import type { Db, Tx } from '../platform/database.ts'
import { diskStates, pausedStates, reservedStates } from '../rental/state-list.ts'
import { hasOpenCommitment } from './commitment.ts'
import type { DueWork } from '../platform/due-work.ts'
import { chargeHold, lockAvailable, placeHold, releaseHold, takeBackCharge } from './ledger.ts'
import type { Tables } from '../platform/tables.ts'

export type Segment = Selectable<Tables['segment']>

/** The metered rental or volume; its hold is named after it. */
export type Metered =
  | { readonly rentalId: number; readonly volumeId: null }
  | { readonly rentalId: null; readonly volumeId: number }

export function holdKey(metered: Metered): string {
  return metered.rentalId === null ? `volume:${metered.volumeId}` : `rental:${metered.rentalId}`
}

export async function openSegment(
  tx: Tx,
  segment: {
    metered: Metered
    accountId: string
    startedAt: Instant
    pricePerHour: NanoUsd
    /** Only the disk is paid for. */
    whileStopped?: boolean
    /** The machine runs without its GPUs. */
    withoutGpus?: boolean
    supplier: { accountId: string; platformFeeBp: number } | null
    dueAt: Instant
  },
): Promise<void> {
  await tx.db
    .insertInto('segment')
    .values({
      account_id: segment.accountId,
      rental_id: segment.metered.rentalId,
      volume_id: segment.metered.volumeId,
      hold_key: holdKey(segment.metered),
      started_at: toDate(segment.startedAt),
      price_nano_per_hour: segment.pricePerHour,
      while_stopped: segment.whileStopped ?? false,
      without_gpus: segment.withoutGpus ?? false,
      supplier_id: segment.supplier?.accountId ?? null,
      platform_fee_bp: segment.supplier?.platformFeeBp ?? null,
      settled_until: toDate(segment.startedAt),
      due_at: toDate(segment.dueAt),
    })
    .execute()
}

export async function findOpenSegment(db: Db, metered: Metered): Promise<Segment | undefined> {
  let select = db.selectFrom('segment').selectAll().where('ended_at', 'is', null)
  select =
    metered.rentalId === null
      ? select.where('volume_id', '=', metered.volumeId)
      : select.where('rental_id', '=', metered.rentalId)
  return select.executeTakeFirst()
}

/** The money that a segment can be paid from; locks its account's balances. */
export async function lockFunds(tx: Tx, segment: Segment): Promise<Funds> {
  const available = (await lockAvailable(tx, [segment.account_id])).get(segment.account_id) ?? nanoUsdOf(0n)
  const held = await readHold(tx.db, segment.hold_key)
  const committed = segment.rental_id !== null && (await hasOpenCommitment(tx.db, segment.rental_id))
  return { held, available, committed, allowance: committed ? null : await readAllowance(tx.db, segment) }
}

/**
 * Money left under the limits of a rental and of the key that ordered it. Money in the key's purses and commitments
 * counts as spent. null: no limit is set.
 */
async function readAllowance(db: Db, segment: Segment): Promise<NanoUsd | null> {
  const rows = await sql<{ allowance: NanoUsd | null }>`
    select least(
      r.spending_limit_nano - (select coalesce(sum(settled_nano), 0) from segment where rental_id = r.id),
      k.total_limit_nano - purses.nano - committed.nano
        - (select coalesce(sum(spent_nano), 0) from key_spend where api_key_id = k.public_id),
      k.monthly_limit_nano - purses.nano - committed.nano - coalesce((select spent_nano from key_spend
        where api_key_id = k.public_id and month = date_trunc('month', ${toDate(segment.due_at)}::timestamptz at time zone 'UTC')::date), 0)
    )::bigint as allowance
    from segment s
    left join rental r on r.id = s.rental_id
    left join volume v on v.id = s.volume_id
    left join api_key k on k.public_id = coalesce(r.api_key_id, v.api_key_id)
    left join lateral (select coalesce(sum(h.amount_nano), 0) as nano from purse p join hold h on h.key = p.hold_key
                       where p.api_key_id = k.public_id) purses on true
    left join lateral (select coalesce(sum(h.amount_nano), 0) as nano
                       from rental o join commitment c on c.rental_id = o.id and c.closed_at is null
                       join hold h on h.key = 'rental:' || o.id
                       where o.account_id = k.account_id and o.status in (${reservedStates})
                         and o.api_key_id = k.public_id) committed on num_nonnulls(k.total_limit_nano, k.monthly_limit_nano) > 0
    where s.id = ${segment.id.toString()}::bigint`.execute(db)
  return rows.rows[0]?.allowance ?? null
}

export interface DueSegment extends Segment {
  /**
   * Until then the provider showed the machine. It is never past the end of the term, because the time after that has
   * another price.
   */
  readonly proved_until: Instant | null
}

/**
 * Due segments, their rentals and volumes locked; rows that another transaction has locked wait for the next pass.
 * `maxRentals` leaves room in the batch, so that many rentals do not keep volumes waiting.
 */
export async function lockDueSegments(tx: Tx, batch: { limit: number; maxRentals: number }): Promise<DueSegment[]> {
  const now = toDate(tx.clock.now())
  const rentals = await sql<{ id: number }>`
    select r.id from rental r join segment s on s.rental_id = r.id
    where s.ended_at is null and s.due_at <= ${now}
    order by s.due_at limit ${batch.maxRentals} for update of r skip locked`.execute(tx.db)
  const volumes = await sql<{ id: number }>`
    select v.id from volume v join segment s on s.volume_id = v.id
    where s.ended_at is null and s.due_at <= ${now}
    order by s.due_at limit ${batch.limit - rentals.rows.length} for update of v skip locked`.execute(tx.db)
  const { rows } = await sql<DueSegment>`
    select s.*, case
        when s.volume_id is not null then coalesce(lv.done_at, ${now}::timestamptz)
        when r.status in (${pausedStates}) or r.status in (${diskStates}) and r.missing_since is not null
          then least(r.seen_at, r.auto_terminate_at, t.reservation_ends_at)
        else least(l.done_at, r.auto_terminate_at, t.reservation_ends_at)
      end as proved_until
    from segment s
    left join rental r on r.id = s.rental_id
    left join loop l on l.name = 'observe:' || r.driver
    left join volume v on v.id = s.volume_id
    left join loop lv on lv.name = 'observe-volumes:' || v.driver
    left join lateral (select reservation_ends_at from term where rental_id = r.id order by n desc limit 1) t on true
    where s.ended_at is null and s.due_at <= ${now}
      and (s.rental_id = any (${rentals.rows.map((row) => row.id)}) or s.volume_id = any (${volumes.rows.map((row) => row.id)}))
    order by s.account_id, s.id`.execute(tx.db)
  return rows
}

/** Whether `lockDueSegments` would find a segment. */
export const hasDueSegment: DueWork = ({ now }) =>
  sql`exists (select from segment where ended_at is null and due_at <= ${now})`

export async function postponeSegment(tx: Tx, id: bigint, dueAt: Instant): Promise<void> {
  await tx.db
    .updateTable('segment')
    .set({ due_at: toDate(dueAt) })
    .where('id', '=', id)
    .execute()
}

/** Makes the running segment of a rental due now. */
export async function meterNow(tx: Tx, rentalId: number): Promise<void> {
  await tx.db
    .updateTable('segment')
    .set({ due_at: toDate(tx.clock.now()) })
    .where('rental_id', '=', rentalId)
    .where('ended_at', 'is', null)
    .execute()
  tx.wake.add('meter')
}

export function openSegmentOf(row: Segment): OpenSegment {
  return {
    startedAt: row.started_at,
    pricePerHour: row.price_nano_per_hour,
    settledUntil: row.settled_until,
    settled: row.settled_nano,
    supplierPaid: row.supplier_nano,
    platformFeeBp: row.platform_fee_bp,
  }
}

/** Writes a planned settlement: the top-up, the charge and the new high-water marks, all in this transaction. */
export async function settleSegment(tx: Tx, row: Segment, plan: Settlement, memo: string): Promise<void> {
  const n = row.settlements + 1
  if (plan.topUp > 0n) {
    const answer = await placeHold(tx, {
      postingKey: `segment:${row.id}:${n}:hold`,
      holdKey: row.hold_key,
      accountId: row.account_id,
      amount: plan.topUp,
      memo: `Held for ${memo}`,
    })
    if (answer === 'insufficient') throw new Error(`the balance of segment ${row.id} changed while it was locked`)
  }
  await chargeHold(tx, {
    postingKey: `segment:${row.id}:${n}`,
    holdKey: row.hold_key,
    amount: plan.charge,
    memo,
    supplierId: row.supplier_id,
    supplierAmount: plan.supplierShare,
    rentalId: row.rental_id,
    volumeId: row.volume_id,
    apiKeyId: await findKeyOf(tx.db, row),
  })
  await tx.db
    .updateTable('segment')
    .set({
      settled_until: toDate(plan.until),
      settled_nano: row.settled_nano + plan.charge,
      supplier_nano: row.supplier_nano + plan.supplierShare,
      settlements: n,
      due_at: toDate(plan.dueAt),
      ...(plan.endsAt === null ? {} : { ended_at: toDate(plan.endsAt) }),
    })
    .where('id', '=', row.id)
    .where('settlements', '=', row.settlements)
    .execute()
}

/** The key that ordered the metered resource, and whose limits apply. */
async function findKeyOf(db: Db, segment: Segment): Promise<string | null> {
  const [table, id] =
    segment.rental_id === null ? (['volume', segment.volume_id] as const) : (['rental', segment.rental_id] as const)
  const row =
    id === null ? undefined : await db.selectFrom(table).select('api_key_id').where('id', '=', id).executeTakeFirst()
  return row?.api_key_id ?? null
}

/** The supplier and fee fixed when the segment began. */
export function supplierOfSegment(
  segment: Pick<Segment, 'supplier_id' | 'platform_fee_bp'>,
): { accountId: string; platformFeeBp: number } | null {
  const { supplier_id: accountId, platform_fee_bp: platformFeeBp } = segment
  return accountId === null || platformFeeBp === null ? null : { accountId, platformFeeBp }
}

/** Ends the open segment at `end` and charges it. The hold stays; `closeMeter` releases it. */
export async function endSegment(
  tx: Tx,
  metered: Metered,
  end: Instant,
  memo: string | ((segment: Segment) => string),
): Promise<Settlement | undefined> {
  const row = await findOpenSegment(tx.db, metered)
  if (row === undefined) return undefined
  const plan = planClosing(openSegmentOf(row), await lockFunds(tx, row), end)
  await settleSegment(tx, row, plan, typeof memo === 'string' ? memo : memo(row))
  return plan
}

/**
 * Ends the open segment at `end`, before the time up to which it is charged, and takes back the later part of the
 * charge. False: the supplier no longer has its share of that part, so nothing was taken back.
 */
export async function shortenSegment(tx: Tx, row: Segment, end: Instant, memo: string): Promise<boolean> {
  const total = costUntil(openSegmentOf(row), end)
  const share = row.platform_fee_bp === null ? nanoUsdOf(0n) : shareOf(total, 10_000 - row.platform_fee_bp)
  const n = row.settlements + 1
  const answer = await takeBackCharge(tx, {
    postingKey: `segment:${row.id}:${n}`,
    holdKey: row.hold_key,
    amount: nanoUsdOf(row.settled_nano - total),
    memo,
    supplierId: row.supplier_id,
    supplierAmount: nanoUsdOf(row.supplier_nano - share),
    rentalId: row.rental_id,
  })
  if (answer === 'insufficient') return false
  await tx.db
    .updateTable('segment')
    .set({
      settled_until: toDate(end),
      ended_at: toDate(end),
      settled_nano: total,
      supplier_nano: share,
      settlements: n,
    })
    .where('id', '=', row.id)
    .execute()
  return true
}

/** Makes a segment free from its beginning, and takes back its charge. False: the supplier no longer has its share. */
export async function waiveSegment(tx: Tx, row: Segment, memo: string): Promise<boolean> {
  const n = row.settlements + 1
  const answer = await takeBackCharge(tx, {
    postingKey: `segment:${row.id}:${n}`,
    holdKey: row.hold_key,
    amount: row.settled_nano,
    memo,
    supplierId: row.supplier_id,
    supplierAmount: row.supplier_nano,
    rentalId: row.rental_id,
  })
  if (answer === 'insufficient') return false
  await tx.db
    .updateTable('segment')
    .set({
      price_nano_per_hour: nanoUsdOf(0n),
      settled_nano: nanoUsdOf(0n),
      supplier_nano: nanoUsdOf(0n),
      settlements: n,
    })
    .where('id', '=', row.id)
    .execute()
  return true
}

/** Ends the open segment, if any, and releases the rest of the hold. */
export async function closeMeter(tx: Tx, metered: Metered, end: Instant, memo: string): Promise<void> {
  await endSegment(tx, metered, end, memo)
  await releaseMeterHold(tx, metered, memo)
}

export async function releaseMeterHold(tx: Tx, metered: Metered, memo: string): Promise<void> {
  await releaseHold(tx, holdKey(metered), `release:${holdKey(metered)}:${randomUUID()}`, `Unused by ${memo}`)
}

async function readHold(db: Db, key: string): Promise<NanoUsd> {
  const row = await db.selectFrom('hold').select('amount_nano').where('key', '=', key).executeTakeFirst()
  return row?.amount_nano ?? nanoUsdOf(0n)
}

export async function listSegments(db: Db, rentalId: number): Promise<Segment[]> {
  return db.selectFrom('segment').selectAll().where('rental_id', '=', rentalId).orderBy('started_at').execute()
}

/** Lists the segments of each rental, in the order of time. */
export async function listSegmentsOf(db: Db, rentalIds: readonly number[]): Promise<Map<number, Segment[]>> {
  if (rentalIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('segment')
    .selectAll()
    .where(sql<boolean>`rental_id = any (${rentalIds}::integer[])`)
    .orderBy('started_at')
    .execute()
  const byRental = new Map<number, Segment[]>()
  for (const row of rows) {
    const { rental_id: id } = row
    if (id !== null) byRental.set(id, [...(byRental.get(id) ?? []), row])
  }
  return byRental
}
