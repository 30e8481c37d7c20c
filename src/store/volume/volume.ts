/** Volumes and their attachments. */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { Mount, RentalKind } from '../../domain/rental.ts'
import { volumeMoves, type VolumeState } from '../../domain/volume.ts'
import { prepareAs, type Db, type Tx } from '../platform/database.ts'
import { livingStates } from '../rental/state-list.ts'
import type { DueQuery, DueWork } from '../platform/due-work.ts'
import { hasDue, leaseDue, noLease, type Leased, type LeaseOptions } from '../platform/lease.ts'
import type { Tables } from '../platform/tables.ts'

export type Volume = Selectable<Tables['volume']>
export type Attachment = Selectable<Tables['attachment']>

export async function insertVolume(
  tx: Tx,
  volume: {
    accountId: string
    personId: string
    keyId: string
    region: string
    driver: ProviderId
    label: string
    sizeGb: number
    costPerHour: NanoUsd
    machineId?: string | undefined
    copyOf?: number | undefined
  },
): Promise<Volume> {
  const now = toDate(tx.clock.now())
  return tx.db
    .insertInto('volume')
    .values({
      account_id: volume.accountId,
      person_id: volume.personId,
      api_key_id: volume.keyId,
      region: volume.region,
      driver: volume.driver,
      label: volume.label,
      size_gb: volume.sizeGb,
      cost_nano_per_hour: volume.costPerHour,
      machine_id: volume.machineId ?? null,
      copy_of: volume.copyOf ?? null,
      state_since: now,
      created_at: now,
      due_at: now,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

export async function lockVolume(tx: Tx, id: number): Promise<Volume | undefined> {
  return tx.db.selectFrom('volume').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

export async function listVolumes(
  db: Db,
  accountId: string,
  query: { before?: number; limit: number },
): Promise<Volume[]> {
  let select = db.selectFrom('volume').selectAll().where('account_id', '=', accountId).where('state', '!=', 'deleted')
  if (query.before !== undefined) select = select.where('id', '<', query.before)
  return select.orderBy('id', 'desc').limit(query.limit).execute()
}

export async function countVolumes(db: Db, accountId: string): Promise<{ volumes: number; gb: number }> {
  const rows = await sql<{ volumes: number; gb: number }>`
    select count(*)::integer as volumes, coalesce(sum(coalesce(grow_to_gb, size_gb)), 0)::integer as gb
    from volume where account_id = ${accountId} and state not in ('deleted', 'failed')`.execute(db)
  return rows.rows[0] ?? { volumes: 0, gb: 0 }
}

/**
 * Locks the driver's storage and returns the GB sold since it reported its free space at `since`. Orders at one driver
 * take turns here until their transactions end, so no two get the same space.
 */
export async function lockPromisedGb(tx: Tx, driver: ProviderId, since: Instant): Promise<number> {
  await sql`select pg_advisory_xact_lock(hashtext('berth volume room'), hashtext(${driver}))`.execute(tx.db)
  const rows = await sql<{ gb: number }>`
    select (coalesce((select sum(v.size_gb) from volume v, installation i
        where v.driver = ${driver} and (v.state = 'creating' or v.state = 'active' and v.started_at >= ${toDate(since)})
          and not exists (select 1 from host_volume h
            where h.tag = 'berth-' || i.id || '-v' || v.id || '-' || v.nonce and h.created_at < ${toDate(since)})), 0)
      + coalesce((select sum(v.grow_to_gb - v.size_gb) from volume v
        where v.driver = ${driver} and v.grow_to_gb is not null), 0))::integer as gb`.execute(tx.db)
  return rows.rows[0]?.gb ?? 0
}

/** Returns those of `drivers` that have volumes which are not deleted yet. */
export async function findVolumeDrivers(db: Db, drivers: readonly ProviderId[]): Promise<Set<ProviderId>> {
  const { rows } = await sql<{ driver: ProviderId }>`${prepareAs('volume_drivers')}
    select driver from unnest(${drivers}::text[]) driver where exists (select from volume v where v.driver = driver.driver
      and v.state in ('creating', 'active', 'suspended', 'unknown', 'deleting'))`.execute(db)
  return new Set(rows.map(({ driver }) => driver))
}

/** Lists the volumes that the provider should list too. */
export async function listWatchedVolumes(db: Db, driver: ProviderId): Promise<Volume[]> {
  return db
    .selectFrom('volume')
    .selectAll()
    .where('driver', '=', driver)
    .where('state', 'in', ['active', 'unknown'])
    .where('external_id', 'is not', null)
    .orderBy('id')
    .execute()
}

type Change = Partial<Pick<Volume, 'state_reason' | 'vip' | 'external_id' | 'started_at' | 'terminated_at'>>

/** Moves a volume, if the table of moves allows it from its current state. undefined: it does not. */
export async function moveVolume(tx: Tx, id: number, to: VolumeState, change: Change): Promise<Volume | undefined> {
  const before = (Object.keys(volumeMoves) as VolumeState[]).filter((from) =>
    (volumeMoves[from] as readonly VolumeState[]).includes(to),
  )
  const now = toDate(tx.clock.now())
  const { started_at, terminated_at, ...texts } = change
  return tx.db
    .updateTable('volume')
    .set({
      state: to,
      state_since: now,
      updated_at: now,
      due_at: now,
      attempts: 0,
      ...noLease,
      ...texts,
      ...(started_at === undefined ? {} : { started_at: toDateOrNull(started_at) }),
      ...(terminated_at === undefined ? {} : { terminated_at: toDateOrNull(terminated_at) }),
    })
    .where('id', '=', id)
    .where('state', 'in', before)
    .returningAll()
    .executeTakeFirst()
}

/** Leases due volumes to create, grow, resume or delete. Those of drivers that this server lacks are left to others. */
export async function leaseVolumes(
  db: Db,
  drivers: readonly ProviderId[],
  options: LeaseOptions,
): Promise<Leased<Volume>> {
  return leaseDue(db, 'volume', toReconcile(sql`${drivers}::text[]`), options)
}

export const hasDueVolume: DueWork = ({ now, drivers }) => hasDue('volume', toReconcile(drivers), now)

function toReconcile(drivers: DueQuery['drivers']): RawBuilder<unknown> {
  return sql`(t.state in ('creating', 'suspended', 'deleting') or t.state = 'active' and t.grow_to_gb is not null)
    and t.driver = any (${drivers})`
}

/** Records the create call before it is made. False: the volume has left `creating`, or the lease was lost. */
export async function recordVolumeCreateCall(db: Db, id: number, token: string, now: Instant): Promise<boolean> {
  const row = await db
    .updateTable('volume')
    .set({ create_asked_at: toDate(now) })
    .where('id', '=', id)
    .where('lease_token', '=', token)
    .where('state', '=', 'creating')
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

export async function insertAttachment(
  tx: Tx,
  volumeId: number,
  rentalId: number,
  { path, readOnly }: Mount = { path: null, readOnly: false },
): Promise<void> {
  const now = toDate(tx.clock.now())
  await tx.db
    .insertInto('attachment')
    .values({ volume_id: volumeId, rental_id: rentalId, path, read_only: readOnly, asked_at: now, due_at: now })
    .onConflict((conflict) =>
      // A volume that is attached again while it is being detached stays, at its new path.
      conflict.columns(['volume_id', 'rental_id']).doUpdateSet({
        state: sql`'attaching'`,
        path,
        read_only: readOnly,
        asked_at: now,
        due_at: now,
      }),
    )
    .execute()
}

export async function hasAttachments(db: Db, rentalId: number): Promise<boolean> {
  const row = await db.selectFrom('attachment').select('volume_id').where('rental_id', '=', rentalId).executeTakeFirst()
  return row !== undefined
}

/** Marks attachments for removal: of one volume (to some rentals, or all), or of one rental. */
export async function detach(
  tx: Tx,
  attachments: { volumeId: number; rentalIds?: readonly number[] } | { rentalId: number },
): Promise<number[]> {
  const now = toDate(tx.clock.now())
  let update = tx.db
    .updateTable('attachment')
    .set({ state: 'detaching', asked_at: now, due_at: now, attempts: 0 })
    .where('state', '!=', 'detaching')
  if ('rentalId' in attachments) update = update.where('rental_id', '=', attachments.rentalId)
  else {
    update = update.where('volume_id', '=', attachments.volumeId)
    if (attachments.rentalIds !== undefined) update = update.where('rental_id', 'in', attachments.rentalIds)
  }
  const rows = await update.returning('rental_id').execute()
  return rows.map((row) => row.rental_id)
}

/** Returns the ids of their volumes. */
export async function deleteAttachments(
  tx: Tx,
  of: { rentalId: number } | { volumeId: number; rentalId?: number },
): Promise<number[]> {
  let query = tx.db.deleteFrom('attachment')
  if ('volumeId' in of) query = query.where('volume_id', '=', of.volumeId)
  if (of.rentalId !== undefined) query = query.where('rental_id', '=', of.rentalId)
  const rows = await query.returning('volume_id').execute()
  return rows.map((row) => row.volume_id)
}

/**
 * Attachments with both sides in place. A rental that is ending takes its mounts with it, and so does a container, which
 * cannot give up a volume while it runs; `observe` clears those rows.
 */
export async function leaseAttachments(db: Db, options: LeaseOptions): Promise<Leased<Attachment>> {
  return leaseDue(db, 'attachment', toMountOrUnmount, options)
}

export const hasDueAttachment: DueWork = ({ now }) => hasDue('attachment', toMountOrUnmount, now)

const toMountOrUnmount = sql`
  (t.state = 'attaching'
    and exists (select 1 from rental r where r.id = t.rental_id and r.status = 'Running' and r.external_id is not null)
    and exists (select 1 from volume v where v.id = t.volume_id and v.state = 'active'))
  or (t.state = 'detaching'
    and exists (select 1 from rental r where r.id = t.rental_id and r.kind <> 'container'
      and r.status in (${livingStates})))`

/** undefined: the lease was lost. */
export async function lockLeasedAttachment(
  tx: Tx,
  attachment: Attachment,
  token: string,
): Promise<Attachment | undefined> {
  return tx.db
    .selectFrom('attachment')
    .selectAll()
    .where('volume_id', '=', attachment.volume_id)
    .where('rental_id', '=', attachment.rental_id)
    .where('lease_token', '=', token)
    .forUpdate()
    .executeTakeFirst()
}

export interface AttachedVolume {
  readonly rentalId: number
  readonly volumeId: number
  readonly kind: RentalKind
  /** The name and the label of the rental. */
  readonly name: string
  readonly label: string | null
  readonly state: Attachment['state']
  readonly path: string | null
  readonly readOnly: boolean
}

/** Lists attachments of the rentals or of the volumes. */
export async function listAttachments(
  db: Db,
  of: { rentalIds: readonly number[] } | { volumeIds: readonly number[] },
): Promise<AttachedVolume[]> {
  const ids = 'rentalIds' in of ? of.rentalIds : of.volumeIds
  if (ids.length === 0) return []
  const rows = await db
    .selectFrom('attachment')
    .innerJoin('rental', 'rental.id', 'attachment.rental_id')
    .select(['rental_id', 'volume_id', 'kind', 'name', 'label', 'state', 'path', 'read_only'])
    .where('rentalIds' in of ? 'rental_id' : 'volume_id', 'in', ids)
    .orderBy('volume_id')
    .orderBy('rental_id')
    .execute()
  return rows.map((row) => ({
    rentalId: row.rental_id,
    volumeId: row.volume_id,
    kind: row.kind,
    name: row.name,
    label: row.label,
    state: row.state,
    path: row.path,
    readOnly: row.read_only,
  }))
}

/** Lists volumes of all accounts, newest first. `failing`: the volume or one of its attachments has an error. */
export async function listAllVolumes(
  db: Db,
  query: { accountId?: string; state?: VolumeState; failing?: boolean; before?: number; limit: number },
): Promise<Volume[]> {
  let select = db.selectFrom('volume').selectAll()
  if (query.accountId !== undefined) select = select.where('account_id', '=', query.accountId)
  if (query.state !== undefined) select = select.where('state', '=', query.state)
  if (query.failing !== undefined) {
    const isFailing = sql<boolean>`(last_error is not null or exists (
      select 1 from attachment a where a.volume_id = volume.id and a.last_error is not null))`
    select = select.where(query.failing ? isFailing : sql<boolean>`not ${isFailing}`)
  }
  if (query.before !== undefined) select = select.where('id', '<', query.before)
  return select.orderBy('id', 'desc').limit(query.limit).execute()
}

export async function readAttachments(db: Db, volumeIds: readonly number[]): Promise<Attachment[]> {
  if (volumeIds.length === 0) return []
  return db.selectFrom('attachment').selectAll().where('volume_id', 'in', volumeIds).orderBy('rental_id').execute()
}

export async function readVolumes(db: Db, ids: readonly number[]): Promise<Map<number, Volume>> {
  if (ids.length === 0) return new Map()
  const rows = await db.selectFrom('volume').selectAll().where('id', 'in', ids).execute()
  return new Map(rows.map((row) => [row.id, row]))
}
