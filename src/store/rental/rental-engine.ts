/** Rentals as the loops drive them at providers: rows that are due, and calls that were made. */
import { sql, type RawBuilder } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import { statesWhere, type RentalState } from '../../contract/rental-state.ts'
import { wholeOf, type RentalSpec } from '../../domain/rental.ts'
import { asMs, at, prepareAs, type Db, type Tx } from '../platform/database.ts'
import type { DueQuery, DueWork } from '../platform/due-work.ts'
import { hasDue, leaseDue, releaseLease, type Leased, type LeaseOptions } from '../platform/lease.ts'
import { CAPACITY_WAKE } from '../machine/machine.ts'
import { lockRental, type Rental } from './rental.ts'
import { callStates } from './state-list.ts'

export interface LiveRow {
  readonly id: number
  readonly nonce: string
  readonly status: RentalState
  readonly external_id: string | null
  readonly create_asked_at: Instant | null
  readonly destroy_asked_at: Instant | null
  readonly missing_since: Instant | null
  readonly incarnation: string | null
  readonly lease_until: Instant | null
  readonly stuck_at: Instant | null
  /** The group of a pending rental. null: the rental is not pending, or not in a group. */
  readonly waits_for_group: string | null
}

/** Returns those of `drivers` that have rentals which are not released yet. */
export async function findUsedDrivers(db: Db, drivers: readonly ProviderId[]): Promise<Set<ProviderId>> {
  const { rows } = await sql<{ driver: ProviderId }>`${prepareAs('used_drivers')}
    select driver from unnest(${drivers}::text[]) driver
    where exists (select from rental r where r.driver = driver.driver and r.released_at is null)`.execute(db)
  return new Set(rows.map(({ driver }) => driver))
}

/**
 * Rentals per JSON text. One text of all rentals would be one message, and the memory for its buffers is not given
 * back.
 */
const RENTALS_PER_TEXT = 1_000

/**
 * Rentals of a provider that are not released yet, with the columns that `observe` compares. Many of them in one JSON
 * text: reading 50,000 as rows takes the server ten times as long.
 */
export async function listUnreleased(db: Db, driver: ProviderId): Promise<LiveRow[]> {
  const { rows } = await sql<{ part: LiveTuple[] }>`${prepareAs('unreleased_rentals')}
    select json_agg(json_build_array(id, nonce, status, external_id, incarnation, ${asMs('create_asked_at')},
      ${asMs('destroy_asked_at')}, ${asMs('missing_since')}, ${asMs('lease_until')}, ${asMs('stuck_at')},
      case when status = 'Pending' then (select n.group_id from group_node n where n.rental_id = rental.id) end) order by id)
      as part
    from rental where driver = ${driver} and released_at is null
    group by id / ${sql.lit(RENTALS_PER_TEXT)} order by id / ${sql.lit(RENTALS_PER_TEXT)}`.execute(db)
  return rows.flatMap(({ part }) => part.map(liveRowOf))
}

function liveRowOf(tuple: LiveTuple): LiveRow {
  const [id, nonce, status, external_id, incarnation, created, destroyed, missing, leased, stuck, group] = tuple
  return {
    id,
    nonce,
    status,
    external_id,
    incarnation,
    create_asked_at: created,
    destroy_asked_at: destroyed,
    missing_since: missing,
    lease_until: leased,
    stuck_at: stuck,
    waits_for_group: group,
  }
}

type LiveTuple = readonly [
  id: number,
  nonce: string,
  status: RentalState,
  externalId: string | null,
  incarnation: string | null,
  createAskedAt: Instant | null,
  destroyAskedAt: Instant | null,
  missingSince: Instant | null,
  leaseUntil: Instant | null,
  stuckAt: Instant | null,
  waitsForGroup: string | null,
]

/** Leases pending rentals without a driver's id. Those of drivers that this server lacks are left to other servers. */
export async function leaseToCreate(
  db: Db,
  drivers: readonly ProviderId[],
  options: LeaseOptions,
): Promise<Leased<Rental>> {
  return leaseDue(db, 'rental', toCreate(sql`${drivers}::text[]`), options)
}

export const hasToCreate: DueWork = ({ now, drivers }) => hasDue('rental', toCreate(drivers), now)

/**
 * True for rentals to create: the condition of the index rental_to_create, less the few that wait for promised GPUs.
 */
function toCreate(drivers: DueQuery['drivers']): RawBuilder<unknown> {
  return sql`t.status in (${callStates('create')}) and t.external_id is null and t.released_at is null
    and t.gpus_due_at is null and t.driver = any (${drivers})`
}

/** Finds running rentals by the driver's id of their machine. */
export async function findRunningAt(
  db: Db,
  driver: ProviderId,
  externalIds: readonly string[],
): Promise<Map<string, number>> {
  if (externalIds.length === 0) return new Map()
  const { rows } = await sql<{ id: number; externalId: string }>`
    select id, external_id as "externalId" from rental
    where driver = ${driver} and status = 'Running' and external_id = any (${externalIds}::text[])`.execute(db)
  return new Map(rows.map(({ id, externalId }) => [externalId, id]))
}

/** Leases ended and failed rentals that may still run at a provider. */
export async function leaseToDestroy(
  db: Db,
  drivers: readonly ProviderId[],
  options: LeaseOptions,
): Promise<Leased<Rental>> {
  return leaseDue(db, 'rental', toDestroy(sql`${drivers}::text[]`), options)
}

export const hasToDestroy: DueWork = ({ now, drivers }) => hasDue('rental', toDestroy(drivers), now)

/** True for rentals to destroy: the condition of the index rental_to_destroy. */
function toDestroy(drivers: DueQuery['drivers']): RawBuilder<unknown> {
  return sql`t.status in (${callStates('destroy')}) and t.released_at is null and t.external_id is not null
    and t.driver = any (${drivers})`
}

/** Leases rentals that a driver should stop, start or reboot. */
export async function leaseToPower(
  db: Db,
  drivers: readonly ProviderId[],
  options: LeaseOptions,
): Promise<Leased<Rental>> {
  return leaseDue(db, 'rental', toPower(sql`${drivers}::text[]`), options)
}

/** Rentals that wait for GPUs (`listWaiting`) count too. */
export const hasToPower: DueWork = ({ now, drivers }) =>
  sql`(${hasDue('rental', toPower(drivers), now)} or exists (select ${fromWaiting(drivers)}))`

/** True for rentals to stop, start or reboot: the condition of the index rental_to_power. */
function toPower(drivers: DueQuery['drivers']): RawBuilder<unknown> {
  return sql`(t.status in (${callStates('start', 'stop')}) or t.status = 'Running' and t.reboots > t.reboots_done)
    and t.released_at is null and t.external_id is not null and t.driver = any (${drivers})`
}

/** Ends the lease. A rental whose status has changed meanwhile is due at once, for the loop that is now responsible. */
export async function releasePowerLease(db: Db, rental: Rental, token: string, dueAt: Instant): Promise<boolean> {
  const due_at = sql`case when status = ${rental.status} then ${toDate(dueAt)} else due_at end`
  return releaseLease(db, 'rental', rental, token, { due_at })
}

/** The provider has accepted the reboots that were requested when the rental was leased. False: the lease was lost. */
export async function saveRebootsDone(tx: Tx, rental: Rental, token: string): Promise<boolean> {
  return releaseLease(tx.db, 'rental', rental, token, { reboots_done: rental.reboots })
}

/** Lists stopped rentals that wait for GPUs which their machine may have now, longest wait first. */
export async function listWaiting(db: Db, drivers: readonly ProviderId[], limit: number): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select r.id ${fromWaiting(sql`${drivers}::text[]`)} order by r.start_requested_at, r.id limit ${limit}`.execute(db)
  return rows.map(({ id }) => id)
}

function fromWaiting(drivers: DueQuery['drivers']): RawBuilder<unknown> {
  return sql`from rental r join machine m on m.id = r.spec -> 'nodes' -> 0 ->> 'machineId'
    where r.start_requested_at is not null and r.status = 'Stopped' and r.driver = any (${drivers})
      and m.status = 'node_ready' and m.gpus_free >= r.gpu_count`
}

/** Claims GPUs again on the machines that have the disk, the same ones if possible. undefined: too few are free. */
export async function reclaimGpus(tx: Tx, rental: Rental): Promise<RentalSpec['nodes'] | undefined> {
  const nodes: Array<RentalSpec['nodes'][number]> = []
  for (const { machineId, gpuIndexes } of rental.spec.nodes) {
    const { rows } = await sql<{ indexes: number[] | null }>`
      select reclaim_gpus(${machineId}, ${[...gpuIndexes]}::integer[], ${rental.id}::integer,
        ${toDate(tx.clock.now())}) as indexes`.execute(tx.db)
    const indexes = rows[0]?.indexes
    if (indexes === undefined || indexes === null) return undefined
    nodes.push({ machineId, gpuIndexes: indexes })
  }
  tx.wake.add(CAPACITY_WAKE)
  return nodes
}

/** Claims GPUs and disk space for a rental on another machine than its own. undefined: it has too little of either. */
export async function claimShare(tx: Tx, rental: Rental, machineId: string): Promise<number[] | undefined> {
  const { rows } = await sql<{ indexes: number[] | null }>`
    select claim_share(${machineId}, ${rental.gpu_count}::integer, ${wholeOf(rental.spec).storageGb}::double precision,
      ${rental.id}::integer, ${toDate(tx.clock.now())}) as indexes`.execute(tx.db)
  tx.wake.add(CAPACITY_WAKE)
  return rows[0]?.indexes ?? undefined
}

/** Whether the machine can run the rental without GPUs, beside its other rentals. Locks the machine. */
export async function hasRoomWithoutGpus(tx: Tx, { spec }: Pick<Rental, 'spec'>): Promise<boolean> {
  const { rows } = await sql<{ hasRoom: boolean | null }>`
    select has_room_without_gpus(${spec.nodes[0]?.machineId ?? ''}) as "hasRoom"`.execute(tx.db)
  return rows[0]?.hasRoom === true
}

/** Records the create call before it is made. False: the rental was ended or the lease was lost, so do not call. */
export async function recordCreateCall(db: Db, id: number, token: string, now: Instant): Promise<boolean> {
  const row = await db
    .updateTable('rental')
    .set({ create_asked_at: toDate(now) })
    .where('id', '=', id)
    .where('lease_token', '=', token)
    .where(
      'status',
      'in',
      statesWhere(({ driverCall }) => driverCall === 'create'),
    )
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Ends the lease with the provider's answer to a create call; the row comes back locked. `externalId` null: the
 * provider refused and made nothing. undefined: the lease was lost.
 */
export async function saveCreateAnswer(
  tx: Tx,
  rental: Rental,
  token: string,
  externalId: string | null,
): Promise<Rental | undefined> {
  const isSaved = await releaseLease(tx.db, 'rental', rental, token, {
    due_at: toDate(tx.clock.now()),
    attempts: 0,
    ...(externalId === null ? { create_asked_at: null } : { external_id: externalId }),
  })
  return isSaved ? lockRental(tx, rental.id) : undefined
}

interface OverdueRental<State> {
  readonly id: number
  readonly status: State
}

/** Lists rentals that have been in one of the states since before its time, and are not flagged yet. */
export async function listOverdue<State extends RentalState>(
  db: Db,
  since: ReadonlyArray<readonly [state: State, before: Instant]>,
  /** A Pending rental at these drivers is overdue only if it began before this. */
  slowStarts: ReadonlyArray<readonly [driver: ProviderId, before: Instant]>,
  /** A rental that moves to another machine is overdue only if it began before this. */
  movedBefore: Instant,
  limit: number,
): Promise<Array<OverdueRental<State>>> {
  const states = since.map(([state, before]) => sql`(status = ${sql.lit(state)} and status_since <= ${at(before)})`)
  const [drivers, befores] = [slowStarts.map(([driver]) => driver), slowStarts.map(([, before]) => toDate(before))]
  const names = since.map(([state]) => sql.lit(state))
  const { rows } = await sql<OverdueRental<State>>`${prepareAs('overdue_rentals')}
    select id, status from rental
    where status in (${sql.join(names)}) and released_at is null and stuck_at is null and (${sql.join(states, sql` or `)})
      and not exists (select from unnest(${drivers}::text[], ${befores}::timestamptz[]) as slow (driver, before)
        where rental.status = 'Pending' and slow.driver = rental.driver and rental.status_since > slow.before)
      and not (status = 'Starting' and spec ? 'movesFrom' and status_since > ${at(movedBefore)})
    order by status_since limit ${limit}`.execute(db)
  return rows
}
