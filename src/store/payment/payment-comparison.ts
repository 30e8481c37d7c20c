/** The processor's own ledger, its fees, and what differs from the rows here. */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { formatDay, toDate, type Instant } from '../../base/instant.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { usdOfCents } from '../../domain/payment.ts'
import type { ProcessorTransaction } from '../../domain/processor.ts'
import { post } from '../ledger/ledger.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type PaymentComparison = Selectable<Tables['payment_comparison']>
export type PaymentDifference = Selectable<Tables['payment_difference']>

/** Writes what is new, and books its fees. */
export async function saveTransactions(
  tx: Tx,
  isLive: boolean,
  transactions: readonly ProcessorTransaction[],
): Promise<void> {
  if (transactions.length === 0) return
  const readAt = toDate(tx.clock.now())
  const added = await tx.db
    .insertInto('processor_transaction')
    .values(
      transactions.map((one) => ({
        id: one.id,
        is_live: isLive,
        kind: one.kind,
        source_id: one.sourceId,
        cents: BigInt(one.cents),
        fee_cents: BigInt(one.feeCents),
        currency: one.currency,
        created_at: toDate(one.at),
        read_at: readAt,
      })),
    )
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .execute()
  const ids = new Set(added.map(({ id }) => id))
  for (const one of transactions) if (ids.has(one.id)) await bookFee(tx, one)
}

/** Fees in another currency are left to the comparison, which shows their transactions. */
async function bookFee(tx: Tx, { id, kind, cents, feeCents, currency }: ProcessorTransaction): Promise<void> {
  const fee = usdOfCents(kind === 'fee' ? feeCents - cents : feeCents)
  if (fee === 0n || currency !== 'usd') return
  const [processor, fees] = [
    { accountId: null, kind: 'processor' },
    { accountId: null, kind: 'processor_fees' },
  ] as const
  await post(tx, {
    key: `stripe-fee:${id}`,
    kind: 'fee',
    accountId: null,
    memo: 'Fee of the payment processor',
    actor: null,
    reason: null,
    transfers: [
      fee > 0n
        ? { from: fees, to: processor, amount: fee }
        : { from: processor, to: fees, amount: nanoUsdOf(0n - fee) },
    ],
  })
}

/** From when on to read the processor's ledger at first. null: nothing was ever paid, in or out. */
export async function readFirstPayment(db: Db, isLive: boolean): Promise<Instant | null> {
  const { rows } = await sql<{ at: Instant | null }>`
    select least((select min(created_at) from payment where is_live = ${isLive}),
                 (select min(sent_at) from payout where is_live = ${isLive})) as at`.execute(db)
  return rows[0]?.at ?? null
}

/** Money at the processor by its object, as its own ledger says. */
const theirs = (isLive: boolean): RawBuilder<unknown> => sql`(
  select coalesce(source_id, id) as subject, min(kind) as kind, max(created_at) as at, bool_or(currency <> 'usd') as is_foreign,
         (sum(cents) * 10000000)::bigint as nano
  from processor_transaction where is_live = ${isLive} and kind not in ('fee', 'own') group by 1)`

/** The same as the rows here say. One that the processor should have by now is named by our id. */
const ours = (isLive: boolean): RawBuilder<unknown> => sql`(
  select coalesce(charge_id, intent_id) as subject, 'charge' as kind, paid_at as at, amount_nano + tax_nano as nano
  from payment where state = 'paid' and is_live = ${isLive}
  union all
  select coalesce(nullif(r.refund_id, ''), r.id), 'refund', greatest(r.created_at, r.ended_at),
         case r.state when 'failed' then 0 else -r.amount_nano - r.tax_nano end
  from payment_refund r join payment p on p.id = r.payment_id where p.is_live = ${isLive}
  union all
  select d.id, 'dispute', d.updated_at, case when d.is_returned then 0 else -d.taken_nano - d.tax_nano end
  from payment_dispute d join payment p on p.id = d.payment_id where p.is_live = ${isLive}
  union all
  select transfer_id, 'transfer', sent_at, -amount_nano from payout where transfer_id is not null and is_live = ${isLive}
  union all
  select r.id, 'transfer', r.at, r.amount_nano
  from payout_return r join payout p on p.id = r.payout_id where p.transfer_id is not null and p.is_live = ${isLive})`

interface Sums {
  readonly objects: number
  readonly differences: number
  readonly processor: NanoUsd
  readonly recorded: NanoUsd
}

/** Compares everything that has not changed since `until`, and replaces the comparison of the day. */
export async function saveComparison(
  tx: Tx,
  options: { readonly isLive: boolean; readonly until: Instant; readonly limit: number },
): Promise<PaymentComparison> {
  const { isLive, until, limit } = options
  const now = tx.clock.now()
  const day = formatDay(now)
  const pairs = sql`(
    select coalesce(t.subject, o.subject) as subject, coalesce(t.kind, o.kind) as kind,
           case when not coalesce(t.is_foreign, false) then t.nano end as processor, o.nano as recorded,
           coalesce(t.is_foreign, false) or coalesce(t.nano, 0) <> coalesce(o.nano, 0) as differs
    from ${theirs(isLive)} t full join ${ours(isLive)} o on o.subject = t.subject
    where greatest(t.at, o.at) <= ${at(until)})`
  const { rows } = await sql<Sums>`
    select count(*)::integer as objects, (count(*) filter (where differs))::integer as differences,
           coalesce(sum(processor), 0)::bigint as processor, coalesce(sum(recorded), 0)::bigint as recorded
    from ${pairs} p`.execute(tx.db)
  const sums = rows[0] ?? { objects: 0, differences: 0, processor: zeroUsd, recorded: zeroUsd }
  await tx.db.deleteFrom('payment_comparison').where('day', '=', day).where('is_live', '=', isLive).execute()
  const comparison = await tx.db
    .insertInto('payment_comparison')
    .values({
      day,
      is_live: isLive,
      compared_at: toDate(now),
      until: toDate(until),
      objects: sums.objects,
      processor_nano: sums.processor,
      recorded_nano: sums.recorded,
      fees_nano: await readFees(tx.db, isLive),
      differences: sums.differences,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  await sql`
    insert into payment_difference (day, is_live, subject, kind, processor_nano, recorded_nano)
    select ${day}, ${isLive}, subject, kind, processor, recorded from ${pairs} p where differs
    order by abs(coalesce(processor, 0) - coalesce(recorded, 0)) desc, subject limit ${limit}`.execute(tx.db)
  return comparison
}

async function readFees(db: Db, isLive: boolean): Promise<NanoUsd> {
  const { rows } = await sql<{ nano: NanoUsd }>`
    select coalesce(sum(fee_cents - case kind when 'fee' then cents else 0 end) * 10000000, 0)::bigint as nano
    from processor_transaction where is_live = ${isLive} and currency = 'usd'`.execute(db)
  return rows[0]?.nano ?? zeroUsd
}

/** The newest, with its differences, the largest first. */
export async function readComparison(
  db: Db,
  isLive: boolean,
): Promise<{ readonly comparison: PaymentComparison; readonly differences: PaymentDifference[] } | undefined> {
  const comparison = await db
    .selectFrom('payment_comparison')
    .selectAll()
    .where('is_live', '=', isLive)
    .orderBy('day', 'desc')
    .limit(1)
    .executeTakeFirst()
  if (comparison === undefined) return undefined
  const { rows } = await sql<PaymentDifference>`
    select * from payment_difference where day = ${comparison.day} and is_live = ${isLive}
    order by abs(coalesce(processor_nano, 0) - coalesce(recorded_nano, 0)) desc, subject`.execute(db)
  return { comparison, differences: rows }
}
