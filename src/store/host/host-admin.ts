/** Hosts as their owners and operators manage them. Their desired state is in host.ts. */
import { sql } from 'kysely'
import { addMs, toDate } from '../../base/instant.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import type { HostOffer } from '../../contract/agent.ts'
import { SILENT_MS, type HostAddress, type HostState } from '../../domain/host.ts'
import type { Db, Tx } from '../platform/database.ts'
import { setHostState, type HostRow } from './host.ts'

export interface HostRecord extends HostRow {
  /** Workloads of customers on the host. */
  readonly tenants: number
  /** Bare metal: a tenant has ended and the host is not cleaned yet, because it is off or busy cleaning. */
  readonly awaits_cleaning: boolean
}

export const awaitsCleaning = sql<boolean>`(host.access is not null and host.state in ('ready', 'draining') and exists (
  select 1 from workload_node n join workload w on w.id = n.workload_id where n.host_id = host.id and w.want = 'gone'))`

function selectRecords(db: Db) {
  return db
    .selectFrom('host')
    .selectAll()
    .select((e) =>
      e
        .selectFrom('workload_node')
        .whereRef('workload_node.host_id', '=', 'host.id')
        .select(sql<number>`count(*)::integer`.as('count'))
        .as('tenants'),
    )
    .select(awaitsCleaning.as('awaits_cleaning'))
    .$narrowType<{ tenants: number }>()
}

export async function listHostRecords(
  db: Db,
  query: {
    /** null: the operator's own hosts. undefined: all. */
    supplierId?: string | null | undefined
    state?: HostState | 'cleaning_pending' | undefined
    driver?: HostRow['driver'] | undefined
    q?: string | undefined
    after?: string
    limit: number
  },
): Promise<HostRecord[]> {
  let select = selectRecords(db)
  if (query.supplierId === null) select = select.where('supplier_id', 'is', null)
  else if (query.supplierId !== undefined) select = select.where('supplier_id', '=', query.supplierId)
  if (query.state === 'cleaning_pending') select = select.where(awaitsCleaning)
  else if (query.state !== undefined) {
    select = select.where('state', '=', query.state).where(sql<boolean>`not ${awaitsCleaning}`)
  }
  if (query.driver !== undefined) select = select.where('driver', '=', query.driver)
  if (query.q !== undefined) {
    const text = sql`concat_ws(' ', id, offer ->> 'clusterName', offer ->> 'region')`
    select = select.where(sql<boolean>`position(lower(${query.q}) in lower(${text})) > 0`)
  }
  if (query.after !== undefined) select = select.where('id', '>', query.after)
  return select.orderBy('id').limit(query.limit).execute()
}

export async function readHostRecords(db: Db, ids: readonly string[]): Promise<Map<string, HostRecord>> {
  if (ids.length === 0) return new Map()
  const rows = await selectRecords(db).where('id', 'in', ids).execute()
  return new Map(rows.map((row) => [row.id, row]))
}

export async function findHostRecord(db: Db, id: string): Promise<HostRecord | undefined> {
  return selectRecords(db).where('id', '=', id).executeTakeFirst()
}

export async function lockHost(tx: Tx, where: { id: string } | { publicKey: string }): Promise<HostRow | undefined> {
  const select = tx.db.selectFrom('host').selectAll().forUpdate()
  return 'id' in where
    ? select.where('id', '=', where.id).executeTakeFirst()
    : select.where('public_key', '=', where.publicKey).executeTakeFirst()
}

/**
 * Hosts and machines share one set of names. A name with the prefix of a cluster is taken too: machines that the
 * cluster adds later need it.
 */
export async function isNameTaken(db: Db, id: string): Promise<boolean> {
  const { rows } = await sql<{ is_taken: boolean }>`
    select exists (select 1 from host where id = ${id}) or exists (select 1 from machine where id = ${id})
      or exists (select 1 from machine m where starts_with(${id}, m.cluster_name || '-') and m.status <> 'node_lost'
        and not exists (select 1 from host where host.id = m.id)) as is_taken`.execute(db)
  return rows[0]?.is_taken === true
}

export type NewHost = { readonly id: string; readonly supplierId: string | null; readonly offer: HostOffer } & (
  | { readonly driver: 'host'; readonly publicKey: string }
  | { readonly driver: 'private-cloud'; readonly access: string; readonly address: HostAddress }
)

/** False: the name or the key is taken. */
export async function insertHost(tx: Tx, host: NewHost): Promise<boolean> {
  const row = await tx.db
    .insertInto('host')
    .values({
      id: host.id,
      driver: host.driver,
      supplier_id: host.supplierId,
      offer: JSON.stringify(host.offer),
      created_at: toDate(tx.clock.now()),
      ...('publicKey' in host
        ? { public_key: host.publicKey }
        : {
            access: host.access,
            address: JSON.stringify(host.address),
            // It goes on sale once it is clean and its hardware matches the declaration.
            state: 'cleaning' as const,
            state_reason: 'new',
          }),
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .executeTakeFirst()
  if (row === undefined) return false
  tx.wake.add('inventory')
  return true
}

/** Returns whether the offer changed. */
export async function updateOffer(tx: Tx, id: string, offer: HostOffer): Promise<boolean> {
  const row = await tx.db
    .updateTable('host')
    .set({ offer: JSON.stringify(offer) })
    .where('id', '=', id)
    .where(sql<boolean>`offer is distinct from ${JSON.stringify(offer)}::jsonb`)
    .returning('id')
    .executeTakeFirst()
  if (row !== undefined) tx.wake.add('inventory')
  return row !== undefined
}

export interface MetalRecord {
  readonly id: string
  readonly offer: HostOffer
  /** The login, sealed. */
  readonly access: string
  readonly address: HostAddress
}

export async function updateMetalHost(db: Db, host: MetalRecord): Promise<void> {
  await db
    .updateTable('host')
    .set({ offer: JSON.stringify(host.offer), access: host.access, address: JSON.stringify(host.address) })
    .where('id', '=', host.id)
    .execute()
}

/** A bare-metal machine that was removed, or declared differently before, starts again. */
export async function replaceMetalHost(tx: Tx, host: MetalRecord): Promise<void> {
  await updateMetalHost(tx.db, host)
  await setHostState(tx, host.id, 'cleaning', 'new')
}

/** Replaces sealed credentials, unless someone else has replaced them since they were read. */
export async function replaceAccess(db: Db, id: string, oldAccess: string, newAccess: string): Promise<void> {
  await db.updateTable('host').set({ access: newAccess }).where('id', '=', id).where('access', '=', oldAccess).execute()
}

/** Puts a host on sale that was just cleaned and inspected, unless an operator has taken it out of service meanwhile. */
export async function admitHost(tx: Tx, id: string): Promise<void> {
  const host = await lockHost(tx, { id })
  if (host?.state !== 'cleaning') return
  await setHostState(tx, id, 'ready', null)
  await tx.db
    .updateTable('host')
    .set({ seen_at: toDate(tx.clock.now()) })
    .where('id', '=', id)
    .execute()
}

/**
 * Removes a locked host, in any state, if it has no tenants or volumes. Workloads that nobody ordered (their spec is null),
 * and disks that have moved to other hosts, count only while the host reports: one that never returns can neither end nor report them.
 */
export async function removeHost(tx: Tx, id: string, reason: string): Promise<Result<void>> {
  const silentSince = toDate(addMs(tx.clock.now(), -SILENT_MS))
  const { rows } = await sql<{ busy: boolean }>`
    select exists (select 1 from workload_node n join workload w on w.id = n.workload_id join host h on h.id = n.host_id
                   where n.host_id = ${id} and (w.spec is not null or h.seen_at >= ${silentSince}))
        or exists (select 1 from workload_copy c join host h on h.id = c.host_id
                   where c.host_id = ${id} and (c.want = 'kept' or h.seen_at >= ${silentSince}))
        or exists (select 1 from host_volume where host_id = ${id})
        or exists (select 1 from gpu_claim where machine_id = ${id}) as busy`.execute(tx.db)
  if (rows[0]?.busy === true) {
    return fail('host_has_tenants')
  }
  await tx.db.deleteFrom('workload_copy').where('host_id', '=', id).execute()
  await sql`delete from workload w using workload_node n
    where n.workload_id = w.id and n.host_id = ${id} and w.spec is null`.execute(tx.db)
  await setHostState(tx, id, 'left', reason)
  return ok(undefined)
}
