/** Budgets and what counts against them. */
import { sql, type Selectable } from 'kysely'
import { randomId } from '../../base/id.ts'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { BudgetAction, BudgetScope } from '../../contract/budget.ts'
import type { Budget, BudgetMarks } from '../../domain/budget.ts'
import type { OpenSegment } from '../../domain/metering.ts'
import type { Db, Tx } from '../platform/database.ts'
import { sqlStates } from '../rental/state-list.ts'
import { isUnseen } from '../../domain/rental.ts'
import type { Tables } from '../platform/tables.ts'

type Row = Selectable<Tables['budget']>

export interface StoredBudget extends Budget {
  readonly id: string
  readonly accountId: string
  readonly name: string
  readonly scope: BudgetScope
  /** The key or the label. Empty for the scope `account`. */
  readonly scopeValue: string
  readonly createdAt: Instant
  readonly updatedAt: Instant | null
}

function budgetOf(row: Row): StoredBudget {
  return {
    id: row.id,
    accountId: row.account_id,
    name: row.name,
    scope: row.scope,
    scopeValue: row.scope_value,
    amount: row.amount_nano,
    alerts: row.alerts,
    action: row.action,
    marks: { month: row.month, alerted: row.alerted, exceededAt: row.exceeded_at },
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

export async function insertBudget(
  tx: Tx,
  budget: {
    accountId: string
    name: string
    scope: BudgetScope
    scopeValue: string
    amount: NanoUsd
    alerts: readonly number[]
    action: BudgetAction
  },
): Promise<StoredBudget | undefined> {
  const row = await tx.db
    .insertInto('budget')
    .values({
      id: randomId('bud'),
      account_id: budget.accountId,
      name: budget.name,
      scope: budget.scope,
      scope_value: budget.scopeValue,
      amount_nano: budget.amount,
      alerts: [...budget.alerts],
      action: budget.action,
      created_at: toDate(tx.clock.now()),
    })
    .onConflict((conflict) => conflict.columns(['account_id', 'scope', 'scope_value']).doNothing())
    .returningAll()
    .executeTakeFirst()
  return row === undefined ? undefined : budgetOf(row)
}

/** Lists the budgets of an account, oldest first. */
export async function listBudgets(db: Db, accountId: string): Promise<StoredBudget[]> {
  const rows = await db
    .selectFrom('budget')
    .selectAll()
    .where('account_id', '=', accountId)
    .orderBy('created_at')
    .orderBy('id')
    .limit(limits.budgets)
    .execute()
  return rows.map(budgetOf)
}

/** Lists budgets of all accounts in the order of ids, for the reconciler. */
export async function listBudgetsAfter(db: Db, after: string, limit: number): Promise<StoredBudget[]> {
  const rows = await db.selectFrom('budget').selectAll().where('id', '>', after).orderBy('id').limit(limit).execute()
  return rows.map(budgetOf)
}

export async function lockBudget(tx: Tx, accountId: string, id: string): Promise<StoredBudget | undefined> {
  const row = await tx.db
    .selectFrom('budget')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  return row === undefined ? undefined : budgetOf(row)
}

export async function changeBudget(
  tx: Tx,
  id: string,
  change: { name: string; amount: NanoUsd; alerts: readonly number[]; action: BudgetAction; marks: BudgetMarks },
): Promise<StoredBudget> {
  const row = await tx.db
    .updateTable('budget')
    .set({
      name: change.name,
      amount_nano: change.amount,
      alerts: [...change.alerts],
      action: change.action,
      ...marksOnRow(change.marks),
      updated_at: toDate(tx.clock.now()),
    })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  return budgetOf(row)
}

/** No person makes this change, so `updated_at` stays. */
export async function saveBudgetMarks(tx: Tx, id: string, marks: BudgetMarks): Promise<void> {
  await tx.db.updateTable('budget').set(marksOnRow(marks)).where('id', '=', id).execute()
}

function marksOnRow({ month, alerted, exceededAt }: BudgetMarks) {
  return { month, alerted, exceeded_at: toDateOrNull(exceededAt) }
}

export async function deleteBudget(tx: Tx, accountId: string, id: string): Promise<boolean> {
  const result = await tx.db
    .deleteFrom('budget')
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
  return result.numDeletedRows > 0n
}

/** The budgets that apply to an order and may block it. */
export async function listBlockingBudgets(
  db: Db,
  order: { accountId: string; keyId: string | null; label: string | null },
  month: string,
): Promise<StoredBudget[]> {
  const rows = await sql<Row>`
    select * from budget
    where account_id = ${order.accountId} and action <> 'alert' and month = ${month}::date and exceeded_at is not null
      and (scope = 'account' or scope = 'key' and scope_value = ${order.keyId}
           or scope = 'label' and scope_value = ${order.label})
    order by amount_nano limit 1`.execute(db)
  return rows.rows.map(budgetOf)
}

/** Sums up charges less refunds in a month by key, and by label. The account's own sum is in `account_spend`. */
export async function sumScopeSpend(
  db: Db,
  budget: Pick<StoredBudget, 'accountId' | 'scope' | 'scopeValue'>,
  month: { first: string; last: string },
): Promise<NanoUsd> {
  const matches =
    budget.scope === 'key'
      ? sql`coalesce(nullif(d.api_key_id, ''), r.api_key_id, v.api_key_id) = ${budget.scopeValue}`
      : sql`coalesce(r.label, v.label) = ${budget.scopeValue}`
  const { rows } = await sql<{ spent: NanoUsd }>`
    select coalesce(sum(-d.amount_nano), 0)::bigint as spent
    from ledger_day d
    left join rental r on r.id = d.rental_id
    left join volume v on v.id = d.volume_id
    where d.account_id = ${budget.accountId} and d.day between ${month.first}::date and ${month.last}::date
      and d.kind in ('charge', 'refund') and ${matches}`.execute(db)
  return rows[0]?.spent ?? zeroUsd
}

/** A running segment, and who pays for it. */
export interface Accruing {
  readonly segment: OpenSegment
  /** Nothing is charged after this instant. null: its machine is reachable. */
  readonly chargedUntil: Instant | null
  readonly apiKeyId: string | null
  readonly label: string | null
}

export async function listAccruing(db: Db, accountIds: readonly string[]): Promise<Map<string, Accruing[]>> {
  if (accountIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('segment as s')
    .leftJoin('rental as r', 'r.id', 's.rental_id')
    .leftJoin('volume as v', 'v.id', 's.volume_id')
    .select(['s.account_id', 's.started_at', 's.price_nano_per_hour', 's.settled_until', 's.settled_nano'])
    .select(['s.supplier_nano', 's.platform_fee_bp', 'r.status', 'r.seen_at', 'r.missing_since'])
    .select((row) => [
      row.fn.coalesce('r.api_key_id', 'v.api_key_id').as('api_key_id'),
      row.fn.coalesce('r.label', 'v.label').as('label'),
    ])
    .where('s.account_id', 'in', accountIds)
    .where('s.ended_at', 'is', null)
    .execute()
  const byAccount = new Map<string, Accruing[]>()
  for (const row of rows) {
    const list = byAccount.get(row.account_id) ?? []
    list.push({
      segment: {
        startedAt: row.started_at,
        pricePerHour: row.price_nano_per_hour,
        settledUntil: row.settled_until,
        settled: row.settled_nano,
        supplierPaid: row.supplier_nano,
        platformFeeBp: row.platform_fee_bp,
      },
      chargedUntil: isUnseen(row) ? (row.seen_at ?? row.settled_until) : null,
      apiKeyId: row.api_key_id,
      label: row.label,
    })
    byAccount.set(row.account_id, list)
  }
  return byAccount
}

/** Lists rentals that a budget stops, in the order of ids: those on demand, since a reserved term is paid for already. */
export async function listStoppable(
  db: Db,
  budget: Pick<StoredBudget, 'accountId' | 'scope' | 'scopeValue'>,
  page: { after: number; limit: number },
): Promise<number[]> {
  const matches =
    budget.scope === 'account'
      ? sql`true`
      : budget.scope === 'key'
        ? sql`r.api_key_id = ${budget.scopeValue}`
        : sql`r.label = ${budget.scopeValue}`
  const { rows } = await sql<{ id: number }>`
    select r.id from rental r
    where r.account_id = ${budget.accountId} and r.id > ${page.after}
      and r.status in (${sqlStates(({ goal }) => goal === 'on')}) and ${matches}
      and not exists (select 1 from commitment c where c.rental_id = r.id and c.closed_at is null)
    order by r.id limit ${page.limit}`.execute(db)
  return rows.map(({ id }) => id)
}

export async function readSpendMany(
  db: Db,
  accountIds: readonly string[],
  month: string,
): Promise<Map<string, NanoUsd>> {
  if (accountIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('account_spend')
    .select(['account_id', 'spent_nano'])
    .where('account_id', 'in', accountIds)
    .where('month', '=', month)
    .execute()
  return new Map(rows.map((row) => [row.account_id, nanoUsdOf(row.spent_nano)]))
}
