/** Balances and current charges of accounts, from the ledger and the meters. */
import { sql } from 'kysely'
import { zeroUsd, type NanoUsd } from '../../base/money.ts'
import { isUnseen } from '../../domain/rental.ts'
import type { RunningSegment, Standing } from '../../domain/balance.ts'
import type { Db, Tx } from '../platform/database.ts'
import { reservedStates } from '../rental/state-list.ts'

/** Reads several accounts at once. Run it on one snapshot: a charge between two reads would count twice or not at all. */
export async function readStandings(db: Db, accountIds: readonly string[]): Promise<Map<string, Standing>> {
  if (accountIds.length === 0) return new Map()
  const ledger = await sql<Omit<Standing, 'segments'> & { accountId: string }>`
    select l.account_id as "accountId",
      sum(l.balance_nano) filter (where l.kind = 'available')::bigint as available,
      sum(l.balance_nano) filter (where l.kind = 'held')::bigint as held,
      sum(l.balance_nano) filter (where l.kind = 'earnings')::bigint as earnings,
      (select coalesce(sum(h.amount_nano), 0)::bigint
       from rental r join commitment c on c.rental_id = r.id and c.closed_at is null
       join hold h on h.key = 'rental:' || r.id
       where r.account_id = l.account_id and r.status in (${reservedStates})) as committed,
      (select greatest(0, coalesce(max(m.given_nano), 0) - coalesce(sum(s.settled_nano), 0))::bigint
       from house_money m
       left join managed_deployment d on d.account_id = m.account_id and d.is_public
       left join replica p on p.deployment_id = d.id and p.state <> 'ended'
       left join segment s on s.rental_id = p.rental_id
       where m.account_id = l.account_id) as "houseMoney",
      coalesce(max(k.line_nano), 0)::bigint as "creditLine", coalesce(max(k.used_nano), 0)::bigint as "creditUsed",
      coalesce(max(d.owed_nano), 0)::bigint as debt
    from ledger_account l left join credit_line k on k.account_id = l.account_id
      left join account_debt d on d.account_id = l.account_id
    where l.account_id = any (${accountIds}::text[])
    group by l.account_id`.execute(db)
  const segments = await listOpenSegments(db, accountIds)
  return new Map(
    ledger.rows.map(({ accountId, ...amounts }) => [
      accountId,
      { ...amounts, segments: segments.get(accountId) ?? [] },
    ]),
  )
}

export async function readStanding(db: Db, accountId: string): Promise<Standing> {
  const standing = (await readStandings(db, [accountId])).get(accountId)
  if (standing === undefined) throw new Error(`there is no account ${accountId}`)
  return standing
}

/** Lists resources that are charged now. A rental that its provider does not list is not. */
async function listOpenSegments(db: Db, accountIds: readonly string[]): Promise<Map<string, RunningSegment[]>> {
  const rows = await db
    .selectFrom('segment as s')
    .innerJoin('hold as h', 'h.key', 's.hold_key')
    .leftJoin('rental as r', 'r.id', 's.rental_id')
    .leftJoin('commitment as c', (join) => join.onRef('c.rental_id', '=', 's.rental_id').on('c.closed_at', 'is', null))
    .select(['s.account_id', 's.started_at', 's.price_nano_per_hour', 's.settled_until', 's.settled_nano'])
    .select(['s.supplier_nano', 's.platform_fee_bp', 'h.amount_nano', 'r.status', 'r.seen_at', 'r.missing_since'])
    .select(['s.rental_id', 'c.rental_id as committed'])
    .select(
      sql<boolean>`exists (select 1 from replica p join managed_deployment d on d.id = p.deployment_id
        where p.rental_id = s.rental_id and d.is_public)`.as('of_house'),
    )
    .where('s.account_id', 'in', accountIds)
    .where('s.ended_at', 'is', null)
    .execute()
  const byAccount = new Map<string, RunningSegment[]>()
  for (const row of rows) {
    const segment = {
      startedAt: row.started_at,
      pricePerHour: row.price_nano_per_hour,
      settledUntil: row.settled_until,
      settled: row.settled_nano,
      supplierPaid: row.supplier_nano,
      platformFeeBp: row.platform_fee_bp,
      held: row.amount_nano,
      chargedUntil: isUnseen(row) ? (row.seen_at ?? row.settled_until) : null,
      committed: row.committed !== null,
      ofHouse: row.of_house,
      isVolume: row.rental_id === null,
    }
    byAccount.set(row.account_id, [...(byAccount.get(row.account_id) ?? []), segment])
  }
  return byAccount
}

/** An account whose runway is watched, and its last warning. */
export interface Watched {
  readonly accountId: string
  readonly warnedH: number | null
}

/** Lists accounts with running resources, or with a warning that may be over, in the order of ids. */
export async function listWatched(db: Db, after: string, limit: number): Promise<Watched[]> {
  const rows = await sql<Watched>`
    select a.id as "accountId", a.runway_warned_h as "warnedH" from account a
    where a.id > ${after} and (a.runway_warned_h is not null
      or exists (select 1 from segment s where s.account_id = a.id and s.ended_at is null))
    order by a.id limit ${limit}`.execute(db)
  return rows.rows
}

export async function setRunwayWarned(tx: Tx, account: Watched, hours: number | null): Promise<boolean> {
  const row = await tx.db
    .updateTable('account')
    .set({ runway_warned_h: hours })
    .where('id', '=', account.accountId)
    .where('runway_warned_h', account.warnedH === null ? 'is' : '=', account.warnedH)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** Sets the credit line of an account. Money drawn earlier stays drawn. */
export async function saveCreditLine(tx: Tx, accountId: string, line: NanoUsd): Promise<void> {
  await tx.db
    .insertInto('credit_line')
    .values({ account_id: accountId, line_nano: line })
    .onConflict((conflict) => conflict.column('account_id').doUpdateSet({ line_nano: line }))
    .execute()
}

export async function readCreditLine(db: Db, accountId: string): Promise<NanoUsd> {
  const row = await db
    .selectFrom('credit_line')
    .select('line_nano')
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  return row?.line_nano ?? zeroUsd
}
