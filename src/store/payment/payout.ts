/** Runs of payouts and their rows. What they do to the ledger is in payout-posting.ts. */
import { sql, type Selectable } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import { runStateOf, type PayoutRunState } from '../../domain/payout.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import { hasDue, leaseDue, noLease, releaseLease, type Leased, type LeaseOptions } from '../platform/lease.ts'
import type { Tables } from '../platform/tables.ts'
import type { PayoutAccount } from './payout-account.ts'

export type PayoutRun = Selectable<Tables['payout_run']>
export type Payout = Selectable<Tables['payout']>

const all = sql`true`

/** A supplier with earnings, and what is known about paying it. */
export interface Supplier {
  readonly account_id: string
  readonly name: string
  readonly is_suspended: boolean
  readonly balance_nano: NanoUsd
  /** Charged since the start of the holdback. */
  readonly maturing_nano: NanoUsd
  readonly kind: PayoutAccount['kind'] | null
  readonly is_live: boolean | null
  readonly is_confirmed: boolean | null
  readonly changed_at: Instant | null
  readonly hint: string | null
}

/** Lists suppliers with earnings, the largest first; of one account, it also without any. */
export async function listSuppliers(
  db: Db,
  options: { readonly until: Instant; readonly limit: number; readonly accountId?: string },
): Promise<Supplier[]> {
  const { until, limit, accountId } = options
  const which = accountId === undefined ? sql`l.balance_nano > 0` : sql`l.account_id = ${accountId}`
  const { rows } = await sql<Supplier>`
    select l.account_id, a.name, a.suspended_at is not null as is_suspended, l.balance_nano,
           coalesce(m.nano, 0)::bigint as maturing_nano,
           d.kind, d.is_live, d.is_confirmed, d.changed_at, d.hint
    from ledger_account l
    join account a on a.id = l.account_id
    left join payout_account d on d.account_id = l.account_id
    left join lateral (
      select sum(t.amount_nano) as nano
      from (select distinct rental_id from segment where supplier_id = l.account_id) mine
      join posting p on p.rental_id = mine.rental_id and p.at >= ${at(until)} and p.kind = 'charge'
      join transfer t on t.posting_id = p.id and t.to_id = l.id) m on true
    where l.kind = 'earnings' and ${which}
    order by l.balance_nano desc, l.account_id limit ${limit}`.execute(db)
  return rows
}

export interface NewRun {
  readonly id: string
  readonly until: Instant
  readonly createdBy: string | null
}

/** False: another draft waits for its approval. */
export async function insertRun(tx: Tx, run: NewRun): Promise<boolean> {
  const row = await tx.db
    .insertInto('payout_run')
    .values({
      id: run.id,
      state: 'draft',
      until: toDate(run.until),
      created_by: run.createdBy,
      created_at: toDate(tx.clock.now()),
    })
    .onConflict((conflict) => conflict.column('state').where('state', '=', 'draft').doNothing())
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

export interface NewPayout {
  readonly id: string
  readonly runId: string
  readonly accountId: string
  readonly kind: Payout['kind']
  readonly isLive: boolean | null
  readonly amount: NanoUsd
  readonly hint: string
}

export async function insertPayouts(tx: Tx, payouts: readonly NewPayout[]): Promise<void> {
  if (payouts.length === 0) return
  const now = toDate(tx.clock.now())
  await tx.db
    .insertInto('payout')
    .values(
      payouts.map((payout) => ({
        id: payout.id,
        run_id: payout.runId,
        account_id: payout.accountId,
        kind: payout.kind,
        is_live: payout.kind === 'stripe' ? payout.isLive : null,
        state: 'draft' as const,
        amount_nano: payout.amount,
        hint: payout.hint,
        created_at: now,
      })),
    )
    .execute()
}

export async function findRun(db: Db, id: string): Promise<PayoutRun | undefined> {
  return db.selectFrom('payout_run').selectAll().where('id', '=', id).executeTakeFirst()
}

export async function lockRun(tx: Tx, id: string): Promise<PayoutRun | undefined> {
  return tx.db.selectFrom('payout_run').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

export interface RunSums {
  readonly run: PayoutRun
  readonly payouts: number
  /** Without those that were canceled. */
  readonly amount: NanoUsd
  readonly returned: NanoUsd
}

/** Lists the newest first; those that wait for an operator come before all. */
export async function listRuns(db: Db, limit: number, id?: string): Promise<RunSums[]> {
  let query = db.selectFrom('payout_run').selectAll()
  if (id !== undefined) query = query.where('id', '=', id)
  const runs = await query
    .orderBy(sql`state in ('draft', 'approved', 'sent')`, 'desc')
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(limit)
    .execute()
  const ids = runs.map((run) => run.id)
  const { rows } = await sql<{ run_id: string; payouts: number; amount: NanoUsd; returned: NanoUsd }>`
    select run_id, count(*)::integer as payouts,
           coalesce(sum(amount_nano) filter (where state <> 'canceled'), 0)::bigint as amount,
           coalesce(sum(returned_nano), 0)::bigint as returned
    from payout where run_id = any (${ids}::text[]) group by 1`.execute(db)
  const sums = new Map(rows.map((row) => [row.run_id, row]))
  return runs.map((run) => {
    const { payouts = 0, amount = 0n as NanoUsd, returned = 0n as NanoUsd } = sums.get(run.id) ?? {}
    return { run, payouts, amount, returned }
  })
}

export interface NamedPayout extends Payout {
  readonly account_name: string
}

/** The largest first; at most a run has. */
export async function listPayoutsOf(db: Db, runId: string): Promise<NamedPayout[]> {
  return db
    .selectFrom('payout')
    .innerJoin('account', 'account.id', 'payout.account_id')
    .selectAll('payout')
    .select('account.name as account_name')
    .where('run_id', '=', runId)
    .orderBy('amount_nano', 'desc')
    .orderBy('payout.id')
    .execute()
}

/** In the order of accounts, in which balances are locked too. */
export async function lockPayoutsOf(tx: Tx, runId: string): Promise<Payout[]> {
  return tx.db.selectFrom('payout').selectAll().where('run_id', '=', runId).orderBy('account_id').forUpdate().execute()
}

/** Lists the payouts of an account, the newest first. Drafts are the operator's. */
export async function listPayoutsTo(db: Db, accountId: string, limit: number): Promise<Payout[]> {
  return db
    .selectFrom('payout')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('state', 'not in', ['draft', 'canceled'])
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(limit)
    .execute()
}

export async function findPayoutOf(db: Db, transferId: string): Promise<Payout | undefined> {
  return db.selectFrom('payout').selectAll().where('transfer_id', '=', transferId).executeTakeFirst()
}

export async function findPayout(db: Db, id: string): Promise<Payout | undefined> {
  return db.selectFrom('payout').selectAll().where('id', '=', id).executeTakeFirst()
}

export async function lockPayout(tx: Tx, id: string): Promise<Payout | undefined> {
  return tx.db.selectFrom('payout').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

/** A draft that is not paid: the whole run, or one payout of it for which something has changed. */
export async function cancelPayouts(tx: Tx, ids: readonly string[], failure: string | null): Promise<void> {
  if (ids.length === 0) return
  await tx.db
    .updateTable('payout')
    .set({ state: 'canceled', failure, ended_at: toDate(tx.clock.now()) })
    .where('id', 'in', ids)
    .where('state', '=', 'draft')
    .execute()
}

export async function cancelRun(tx: Tx, id: string): Promise<void> {
  await tx.db
    .updateTable('payout_run')
    .set({ state: 'canceled', ended_at: toDate(tx.clock.now()) })
    .where('id', '=', id)
    .where('state', '=', 'draft')
    .execute()
}

export async function approveRun(tx: Tx, id: string, approvedBy: string): Promise<void> {
  await tx.db
    .updateTable('payout_run')
    .set({ state: 'approved', approved_by: approvedBy, approved_at: toDate(tx.clock.now()) })
    .where('id', '=', id)
    .where('state', '=', 'draft')
    .execute()
}

/** Brings an approved run to where its payouts are. The caller has locked it. */
export async function refreshRun(tx: Tx, runId: string): Promise<PayoutRunState> {
  const payouts = await tx.db.selectFrom('payout').select('state').where('run_id', '=', runId).execute()
  const state = runStateOf(payouts.map((payout) => payout.state))
  await tx.db
    .updateTable('payout_run')
    .set({ state, ended_at: state === 'paid' ? toDate(tx.clock.now()) : null })
    .where('id', '=', runId)
    .where('state', 'in', ['approved', 'sent', 'paid'])
    .execute()
  return state
}

/** The processor has the transfer. It is paid once the processor shows it. */
export async function markSent(tx: Tx, id: string, transferId: string, dueAt: Instant): Promise<void> {
  await tx.db
    .updateTable('payout')
    .set({
      ...noLease,
      state: 'sent',
      transfer_id: transferId,
      sent_at: toDate(tx.clock.now()),
      failure: null,
      due_at: toDate(dueAt),
      attempts: 0,
    })
    .where('id', '=', id)
    .where('state', '=', 'approved')
    .execute()
}

export async function markPaid(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  await tx.db
    .updateTable('payout')
    .set({ ...noLease, state: 'paid', due_at: null, failure: null, ended_at: toDate(tx.clock.now()) })
    .where('id', 'in', ids)
    .where('state', '=', 'sent')
    .execute()
}

/** It stays approved and is tried again. `isRefused`: the processor refused, and would repeat that for the same key. */
export async function noteWait(db: Db, id: string, failure: string, isRefused: boolean): Promise<void> {
  await sql`
    update payout set failure = ${failure.slice(0, 500)}, refusals = refusals + ${isRefused ? 1 : 0}
    where id = ${id} and state = 'approved'`.execute(db)
}

export interface Exported {
  readonly runId: string
  readonly by: string
  readonly format: 'csv' | 'pain.001'
  readonly currency: 'USD' | 'EUR'
  readonly rate: string | null
  readonly lines: ReadonlyArray<{ readonly id: string; readonly cents: number }>
}

/** Once: the caller has locked the run, and found it not exported. */
export async function saveExport(tx: Tx, file: Exported): Promise<void> {
  const now = toDate(tx.clock.now())
  const ids = file.lines.map(({ id }) => id)
  const cents = file.lines.map((line) => line.cents)
  await sql`
    update payout p set state = 'sent', exported_cents = line.cents, sent_at = ${now}
    from unnest(${ids}::text[], ${cents}::bigint[]) as line (id, cents)
    where p.id = line.id and p.state = 'approved'`.execute(tx.db)
  await tx.db
    .updateTable('payout_run')
    .set({
      exported_at: now,
      exported_by: file.by,
      export_format: file.format,
      currency: file.currency,
      rate: file.rate === null ? null : sql<number>`${file.rate}::numeric`,
      exported_cents: BigInt(cents.reduce((sum, one) => sum + one, 0)),
    })
    .where('id', '=', file.runId)
    .execute()
}

export const hasDuePayout: DueWork = ({ now }) => hasDue('payout', all, now)

export async function leasePayouts(db: Db, options: LeaseOptions): Promise<Leased<Payout>> {
  return leaseDue(db, 'payout', all, options)
}

export async function releasePayout(db: Db, id: string, token: string, dueAt: Instant | null): Promise<boolean> {
  return releaseLease(db, 'payout', { id }, token, { due_at: toDateOrNull(dueAt) })
}
