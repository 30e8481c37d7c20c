/** Rentals and their terms. */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { RentalName } from '../../contract/billing.ts'
import { statesWhere, type RentalState } from '../../contract/rental-state.ts'
import { statesBefore, type RentalSpec, type RentalKind } from '../../domain/rental.ts'
import type { Term } from '../../domain/term.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import type { Tables } from '../platform/tables.ts'
import { livingStates, pausedStates, reservedStates } from './state-list.ts'

export type Rental = Selectable<Tables['rental']>

export async function insertTerm(tx: Tx, rentalId: number, n: number, term: Term): Promise<void> {
  await tx.db
    .insertInto('term')
    .values({
      rental_id: rentalId,
      n,
      term_type: term.termType,
      effective_at: toDate(term.effectiveAt),
      cost_nano_per_hour: term.costPerHour,
      reservation_ends_at: toDateOrNull(term.reservation?.endsAt ?? null),
      term_period_days: term.reservation?.periodDays ?? null,
      discount_percentage: term.reservation?.discountPercentage ?? null,
      original_cost_nano: term.reservation?.originalCostPerHour ?? null,
    })
    .execute()
}

/** Returns names of the account's rentals by id; ids of other accounts are left out. */
export async function nameRentals(db: Db, accountId: string, ids: readonly number[]): Promise<Map<number, RentalName>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('rental')
    .select(['id', 'kind', 'name', 'label'])
    .where('account_id', '=', accountId)
    .where('id', 'in', ids)
    .execute()
  return new Map(rows.map(({ id, ...name }) => [id, name]))
}

/** Reads the current term of each rental. */
export async function readTerms(db: Db, rentalIds: readonly number[]): Promise<Map<number, Term & { n: number }>> {
  if (rentalIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('term')
    .distinctOn('rental_id')
    .selectAll()
    .where('rental_id', 'in', rentalIds)
    .orderBy('rental_id')
    .orderBy('n', 'desc')
    .execute()
  return new Map(rows.map((row) => [row.rental_id, { ...termOf(row), n: row.n }]))
}

function termOf(row: Selectable<Tables['term']>): Term {
  const bound =
    row.reservation_ends_at !== null &&
    row.term_period_days !== null &&
    row.discount_percentage !== null &&
    row.original_cost_nano !== null
  return {
    termType: row.term_type,
    effectiveAt: row.effective_at,
    costPerHour: row.cost_nano_per_hour,
    reservation: bound
      ? {
          endsAt: row.reservation_ends_at as Instant,
          periodDays: Number.parseFloat(row.term_period_days as string),
          discountPercentage: Number.parseFloat(row.discount_percentage as string),
          originalCostPerHour: row.original_cost_nano as NanoUsd,
        }
      : null,
  }
}

export async function findRental(db: Db, id: number): Promise<Rental | undefined> {
  return db.selectFrom('rental').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Rentals come first in the lock order (rental, volume, ledger, machine, events). */
export async function lockRental(tx: Tx, id: number): Promise<Rental | undefined> {
  return tx.db.selectFrom('rental').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

export async function lockRentals(tx: Tx, ids: readonly number[]): Promise<Rental[]> {
  if (ids.length === 0) return []
  return tx.db.selectFrom('rental').selectAll().where('id', 'in', ids).orderBy('id').forUpdate().execute()
}

export async function findRentalByName(db: Db, name: string): Promise<Rental | undefined> {
  return db.selectFrom('rental').selectAll().where('name', '=', name).executeTakeFirst()
}

/** Whether its id, name or label has the text. */
function hasText(q: string) {
  return sql<boolean>`position(lower(${q}) in lower(concat_ws(' ', id, name, label))) > 0`
}

export async function listRentals(
  db: Db,
  query: {
    accountId: string
    /** undefined: every kind. */
    kind?: RentalKind | undefined
    /** Part of the id, name or label. */
    q?: string | undefined
    /** `current`: neither ended nor ending. */
    which: 'all' | 'ended' | 'not-ended' | 'current'
    before?: number
    limit: number
  },
): Promise<Rental[]> {
  let select = db.selectFrom('rental').selectAll().where('account_id', '=', query.accountId)
  if (query.which !== 'all') select = select.where('status', query.which === 'ended' ? '=' : '!=', 'Terminated')
  if (query.q !== undefined) select = select.where(hasText(query.q))
  if (query.kind !== undefined) select = select.where('kind', '=', query.kind)
  if (query.which === 'current') select = select.where('status', '!=', 'Terminating')
  if (query.before !== undefined) select = select.where('id', '<', query.before)
  return select.orderBy('id', 'desc').limit(query.limit).execute()
}

/** Finds rentals of the account, of any kind, by id or name, in no order. */
export async function findOwnRentals(db: Db, accountId: string, idsOrNames: readonly string[]): Promise<Rental[]> {
  const ids = idsOrNames.filter((one) => /^\d{1,9}$/.test(one)).map((one) => Number.parseInt(one, 10))
  return db
    .selectFrom('rental')
    .selectAll()
    .where('account_id', '=', accountId)
    .where((where) => where.or([where('id', 'in', [0, ...ids]), where('name', 'in', ['', ...idsOrNames])]))
    .execute()
}

/** Lists rentals of an account whose machines run. */
export async function listRunningRentals(db: Db, accountId: string, limit: number): Promise<Rental[]> {
  return db
    .selectFrom('rental')
    .selectAll()
    .where('account_id', '=', accountId)
    .where(
      'status',
      'in',
      statesWhere(({ billing }) => billing === 'full' || billing === 'paused'),
    )
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Lists rentals of all accounts, for operators. */
export async function listAllRentals(
  db: Db,
  query: {
    q?: string | undefined
    accountId?: string
    status?: RentalState
    stuck?: boolean
    before?: number
    limit: number
  },
): Promise<Rental[]> {
  let select = db.selectFrom('rental').selectAll()
  if (query.q !== undefined) select = select.where(hasText(query.q))
  if (query.accountId !== undefined) select = select.where('account_id', '=', query.accountId)
  if (query.status !== undefined) select = select.where('status', '=', query.status)
  if (query.stuck !== undefined) select = select.where('stuck_at', query.stuck ? 'is not' : 'is', null)
  if (query.before !== undefined) select = select.where('id', '<', query.before)
  return select.orderBy('id', 'desc').limit(query.limit).execute()
}

type ChangeableColumn =
  | 'label'
  | 'convert_on_expiry'
  | 'auto_terminate_at'
  | 'stop_at'
  | 'idle'
  | 'start_requested_at'
  | 'stopped_nano_per_hour'
  | 'cpu_nano_per_hour'
  | 'spec'
  | 'reboots'
  | 'spending_limit_nano'
  | 'status_reason'
  | 'exit_code'
  | 'termination_note'
  | 'updated_at'
  | 'started_at'
  | 'stuck_at'
  | 'terminate_requested_at'
  | 'terminated_at'
  | 'released_at'
  | 'seen_at'
  | 'missing_since'
  | 'incarnation'
  | 'external_id'
  | 'provider_data'
  | 'create_asked_at'

/** Undefined columns stay as they are. */
export type RentalColumns = { readonly [Column in ChangeableColumn]?: Rental[Column] | undefined }

/** Moves a rental, if the table of moves allows it from its current status. undefined: it does not. */
export async function moveRental(
  tx: Tx,
  id: number,
  to: RentalState,
  change: RentalColumns,
): Promise<Rental | undefined> {
  const now = toDate(tx.clock.now())
  return tx.db
    .updateTable('rental')
    .set({
      status: to,
      status_since: now,
      stuck_at: null,
      updated_at: now,
      due_at: now,
      attempts: 0,
      ...toUpdate(change),
    })
    .where('id', '=', id)
    .where('status', 'in', statesBefore(to))
    .returningAll()
    .executeTakeFirst()
}

/** Changes a rental within its status. */
export async function updateRental(tx: Tx, id: number, change: RentalColumns): Promise<Rental> {
  return tx.db.updateTable('rental').set(toUpdate(change)).where('id', '=', id).returningAll().executeTakeFirstOrThrow()
}

/** Kysely leaves out undefined columns. */
function toUpdate(change: RentalColumns) {
  const { provider_data: data, idle, spec, label, convert_on_expiry, spending_limit_nano, ...columns } = change
  const { status_reason, exit_code, termination_note, external_id, incarnation, reboots, ...prices } = columns
  const { stopped_nano_per_hour, cpu_nano_per_hour, ...instants } = prices
  const dates = Object.fromEntries(
    Object.entries(instants).map(([column, value]) => [column, value === undefined ? undefined : toDateOrNull(value)]),
  ) as Partial<Record<keyof typeof instants, Date | null>>
  return {
    ...dates,
    label,
    convert_on_expiry,
    spending_limit_nano,
    status_reason,
    exit_code,
    termination_note,
    external_id,
    incarnation,
    stopped_nano_per_hour,
    cpu_nano_per_hour,
    reboots,
    spec: spec && JSON.stringify(spec),
    provider_data: data && JSON.stringify(data),
    idle: idle && JSON.stringify(idle),
  }
}

/** Lists live rentals whose term, `auto_terminate_at` or `stop_at` has passed. */
export async function listEnding(db: Db, now: Instant, limit: number): Promise<number[]> {
  const { end, stop, term } = endings(at(now))
  const rows = await sql<{ id: number }>`
    select r.id ${end} union select r.id ${stop} union select r.id ${term} order by id limit ${limit}`.execute(db)
  return rows.rows.map((row) => row.id)
}

/**
 * Whether `listEnding` would find a rental. `order by … limit 1` makes PostgreSQL look into the indexes of these times,
 * where few are past. In a plan for unknown values it cannot know that, and would read all living rentals.
 */
export const hasEnding: DueWork = ({ now }) => {
  const { end, stop, term } = endings(now)
  return sql`coalesce(
    (select true ${end} order by r.auto_terminate_at limit 1),
    (select true ${stop} order by r.stop_at limit 1),
    (select true ${term} order by t.reservation_ends_at limit 1), false)`
}

function endings(now: RawBuilder<Instant>): Record<'end' | 'stop' | 'term', RawBuilder<unknown>> {
  return {
    end: sql`from rental r
      where r.status in (${livingStates})
        and r.auto_terminate_at <= ${now}`,
    stop: sql`from rental r where r.status = 'Running' and r.stop_at <= ${now}`,
    term: sql`from term t join rental r on r.id = t.rental_id
      where t.reservation_ends_at <= ${now} and not t.closed
        -- A lost rental is converted when its machine is listed again: until then it is not billed.
        and r.status in (${reservedStates}) and (r.status not in (${pausedStates}) or r.convert_on_expiry is false)
        and not exists (select 1 from term later where later.rental_id = t.rental_id and later.n > t.n)`,
  }
}

/** Closes past terms that cannot expire any more, so that nothing reads them again. Returns how many. */
export async function closeTerms(db: Db, now: Instant, limit: number): Promise<number> {
  const result = await sql`
    update term set closed = true where (rental_id, n) in (
      select t.rental_id, t.n from term t join rental r on r.id = t.rental_id
      where t.reservation_ends_at <= ${at(now)} and not t.closed
        and (r.status not in (${livingStates})
          or exists (select 1 from term later where later.rental_id = t.rental_id and later.n > t.n))
      order by t.reservation_ends_at limit ${limit})`.execute(db)
  return Number(result.numAffectedRows ?? 0n)
}

export interface AuditRow {
  readonly id: number
  readonly nonce: string
  readonly driver: ProviderId
  readonly released: boolean
  readonly externalId: string | null
}

export async function findRentalsForAudit(db: Db, ids: readonly number[]): Promise<Map<number, AuditRow>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('rental')
    .select(['id', 'nonce', 'driver', 'released_at', 'external_id'])
    // It is one parameter, because there may be more ids than a statement can have.
    .where(sql<boolean>`id = any (${ids})`)
    .execute()
  return new Map(
    rows.map((row) => [
      row.id,
      {
        id: row.id,
        nonce: row.nonce,
        driver: row.driver,
        released: row.released_at !== null,
        externalId: row.external_id,
      },
    ]),
  )
}

/** Moves a Pending rental that its provider refused to machines of another place, whose provider was not called yet. */
export async function moveToPlace(
  tx: Tx,
  id: number,
  place: { driver: ProviderId; clusterName: string; spec: RentalSpec; refusedBy: readonly string[] },
): Promise<void> {
  await tx.db
    .updateTable('rental')
    .set({
      driver: place.driver,
      cluster_name: place.clusterName,
      spec: JSON.stringify(place.spec),
      refused_by: [...place.refusedBy],
      due_at: toDate(tx.clock.now()),
      create_asked_at: null,
      external_id: null,
    })
    .where('id', '=', id)
    .execute()
}
