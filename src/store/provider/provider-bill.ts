/** Imported bills of other clouds, and their comparison with the records here. */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { toDate } from '../../base/instant.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type ProviderBill = Omit<Selectable<Tables['provider_bill']>, 'provider_account_id' | 'digest'> & {
  readonly lines: number
  readonly billed: NanoUsd
}

/** The keys are the cloud's ids of machines and volumes. */
export type BillAmounts = ReadonlyMap<string, NanoUsd>

/** UTC days, inclusive. null: all time. */
export interface BillPeriod {
  readonly from: string | null
  readonly to: string | null
}

const columns = sql`b.id, b.label, b.imported_by, b.imported_at,
  to_char(b.from_day, 'YYYY-MM-DD') as from_day, to_char(b.to_day, 'YYYY-MM-DD') as to_day,
  count(l.machine)::integer as lines, coalesce(sum(l.billed_nano), 0)::bigint as billed`

/** The newest come first. */
export async function listProviderBills(db: Db, accountId: string, limit: number): Promise<ProviderBill[]> {
  const { rows } = await sql<ProviderBill>`
    select ${columns} from provider_bill b left join provider_bill_line l on l.bill_id = b.id
    where b.provider_account_id = ${accountId} group by b.id order by b.imported_at desc, b.id limit ${limit}`.execute(
    db,
  )
  return rows
}

export async function findProviderBill(
  db: Db,
  accountId: string,
  by: { readonly id: string } | { readonly digest: string },
): Promise<ProviderBill | undefined> {
  const matches = 'id' in by ? sql`b.id = ${by.id}` : sql`b.digest = ${by.digest}`
  const { rows } = await sql<ProviderBill>`
    select ${columns} from provider_bill b left join provider_bill_line l on l.bill_id = b.id
    where b.provider_account_id = ${accountId} and ${matches} group by b.id`.execute(db)
  return rows[0]
}

export async function countProviderBills(db: Db, accountId: string): Promise<number> {
  const { n } = await db
    .selectFrom('provider_bill')
    .select(sql<number>`count(*)::integer`.as('n'))
    .where('provider_account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return n
}

export interface NewBill extends BillPeriod {
  readonly id: string
  readonly accountId: string
  readonly digest: string
  readonly label: string
  readonly importedBy: string
  readonly amounts: BillAmounts
}

/** False: the account has a bill with this digest. */
export async function insertProviderBill(tx: Tx, bill: NewBill): Promise<boolean> {
  const { id, accountId, digest, label, from, to, importedBy } = bill
  const result = await sql`
    insert into provider_bill (id, provider_account_id, digest, label, from_day, to_day, imported_by, imported_at)
    values (${id}, ${accountId}, ${digest}, ${label}, ${from}, ${to}, ${importedBy}, ${toDate(tx.clock.now())})
    on conflict (provider_account_id, digest) do nothing`.execute(tx.db)
  if ((result.numAffectedRows ?? 0n) === 0n) return false
  await sql`
    insert into provider_bill_line (bill_id, machine, billed_nano)
    select ${id}, machine, billed_nano from ${rowsOf(bill.amounts)} l`.execute(tx.db)
  return true
}

export async function deleteProviderBill(tx: Tx, accountId: string, id: string): Promise<boolean> {
  const result = await tx.db
    .deleteFrom('provider_bill')
    .where('provider_account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
  return result.numDeletedRows > 0n
}

export interface BillComparison {
  readonly billed: NanoUsd
  readonly recorded: NanoUsd
  /** The number of differences; `differences` has the largest. */
  readonly differing: number
  readonly differences: readonly BillDifference[]
}

export interface BillDifference {
  readonly machine: string
  readonly rentalId: number | null
  readonly volumeId: number | null
  /** null: it is not on the bill. */
  readonly billed: NanoUsd | null
  /** null: it is not known here. */
  readonly recorded: NanoUsd | null
  readonly difference: NanoUsd
}

/** `bill` is the id of an imported one, or amounts. Recorded costs are counted to the millisecond within the period. */
export async function compareBill(
  db: Db,
  accountId: string,
  bill: { readonly id: string } | { readonly amounts: BillAmounts },
  { from, to }: BillPeriod,
  limit: number,
): Promise<BillComparison> {
  const billAmounts =
    'id' in bill
      ? sql`(select machine, billed_nano from provider_bill_line where bill_id = ${bill.id})`
      : rowsOf(bill.amounts)
  const [start, end] = [
    sql`coalesce(${from}::date::timestamp at time zone 'UTC', '-infinity')`,
    sql`coalesce((${to}::date + 1)::timestamp at time zone 'UTC', 'infinity')`,
  ]
  const { rows } = await sql<Compared>`
    with recorded as (
      select regexp_replace(external_id, '^.*/', '') as machine, max(rental_id) as rental_id, max(volume_id) as volume_id,
        sum(div(nano_per_hour * floor(extract(epoch from least(settled_until, ${end}) - greatest(started_at, ${start})) * 1000),
          3600000))::bigint as nano
      from purchase
      where provider_account_id = ${accountId} and started_at < ${end} and settled_until > ${start}
      group by 1),
    compared as (
      select machine, r.rental_id, r.volume_id, b.billed_nano as billed, r.nano as recorded,
        coalesce(b.billed_nano, 0) - coalesce(r.nano, 0) as difference
      from ${billAmounts} b full join recorded r using (machine))
    select *, coalesce(sum(billed) over (), 0)::bigint as all_billed, coalesce(sum(recorded) over (), 0)::bigint as all_recorded,
      (count(*) filter (where difference <> 0) over ())::integer as differing
    from compared order by abs(difference) desc, machine limit ${limit}`.execute(db)
  const [first] = rows
  return {
    billed: first?.all_billed ?? zeroUsd,
    recorded: first?.all_recorded ?? zeroUsd,
    differing: first?.differing ?? 0,
    differences: rows
      .filter(({ difference }) => difference !== 0n)
      .map(({ machine, rental_id, volume_id, billed: theirs, recorded, difference }) => ({
        machine,
        rentalId: rental_id,
        volumeId: volume_id,
        billed: theirs,
        recorded,
        difference: nanoUsdOf(difference),
      })),
  }
}

interface Compared {
  readonly machine: string
  readonly rental_id: number | null
  readonly volume_id: number | null
  readonly billed: NanoUsd | null
  readonly recorded: NanoUsd | null
  readonly difference: bigint
  readonly all_billed: NanoUsd
  readonly all_recorded: NanoUsd
  readonly differing: number
}

function rowsOf(amounts: BillAmounts): RawBuilder<unknown> {
  const machines = [...amounts.keys()]
  const nanos = [...amounts.values()].map(String)
  return sql`(select * from unnest(${machines}::text[], ${nanos}::bigint[]) as u (machine, billed_nano))`
}
