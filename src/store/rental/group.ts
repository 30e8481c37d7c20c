/** Groups and their nodes, which are rentals. */
import { sql, type Selectable } from 'kysely'
import { randomId, randomName } from '../../base/id.ts'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { GroupState, OnNodeLoss } from '../../contract/group.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { FreeMachine, GroupSpec } from '../../domain/group.ts'
import { bumpHosts } from '../host/host.ts'
import { isLike } from '../machine/listed-machine.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import type { Tables } from '../platform/tables.ts'
import type { Rental } from './rental.ts'

export type Group = Selectable<Tables['rental_group']>

/** A wake-up: a node of a group has changed. */
export const GROUPS_WAKE = 'groups'

export const hasUnfinishedGroup: DueWork = () => sql`exists (select 1 from rental_group where state <> 'ended')`

export interface NewGroup {
  readonly accountId: string
  readonly personId: string
  readonly keyId: string
  readonly label: string | null
  readonly nodes: number
  readonly gpusPerNode: number
  readonly spec: GroupSpec
  readonly maxPerHour: NanoUsd | null
  readonly onNodeLoss: OnNodeLoss
}

/** Names are never reused: after many tries the name is longer. */
const MAX_NAME_TRIES = 20

export async function insertGroup(tx: Tx, group: NewGroup): Promise<Group> {
  const now = toDate(tx.clock.now())
  for (let n = 0; n < MAX_NAME_TRIES; n += 1) {
    const name = n < MAX_NAME_TRIES / 2 ? randomName() : `${randomName()}-${randomName()}`
    const row = await tx.db
      .insertInto('rental_group')
      .values({
        id: randomId('grp'),
        name,
        account_id: group.accountId,
        person_id: group.personId,
        api_key_id: group.keyId,
        label: group.label,
        nodes: group.nodes,
        gpus_per_node: group.gpusPerNode,
        spec: JSON.stringify(group.spec),
        max_nano_per_hour: group.maxPerHour,
        on_node_loss: group.onNodeLoss,
        state_since: now,
        created_at: now,
      })
      .onConflict((conflict) => conflict.column('name').doNothing())
      .returningAll()
      .executeTakeFirst()
    if (row !== undefined) return row
  }
  throw new Error('no name is free for a group')
}

export async function insertNodes(
  tx: Tx,
  group: Pick<Group, 'id'>,
  attempt: number,
  rentals: ReadonlyArray<Pick<Rental, 'id'>>,
): Promise<void> {
  const rows = rentals.map(({ id }, rank) => ({ rental_id: id, group_id: group.id, attempt, rank }))
  await tx.db.insertInto('group_node').values(rows).execute()
}

/** Groups are locked before rentals. */
export async function lockGroup(tx: Tx, id: string): Promise<Group | undefined> {
  return tx.db.selectFrom('rental_group').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

export async function findOwnGroup(db: Db, accountId: string, idOrName: string): Promise<Group | undefined> {
  return db
    .selectFrom('rental_group')
    .selectAll()
    .where('account_id', '=', accountId)
    .where((where) => where.or([where('id', '=', idOrName), where('name', '=', idOrName)]))
    .executeTakeFirst()
}

export async function listGroups(
  db: Db,
  query: {
    readonly accountId: string
    readonly which: 'all' | 'ended' | 'not-ended'
    readonly before?: bigint
    readonly limit: number
  },
): Promise<Group[]> {
  let select = db.selectFrom('rental_group').selectAll().where('account_id', '=', query.accountId)
  if (query.which !== 'all') select = select.where('state', query.which === 'ended' ? '=' : '!=', 'ended')
  if (query.before !== undefined) select = select.where(sql<boolean>`number < ${query.before}`)
  return select.orderBy('number', 'desc').limit(query.limit).execute()
}

/** Lists unfinished groups, oldest first. */
export async function listUnfinishedGroups(db: Db, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('rental_group')
    .select('id')
    .where('state', '<>', 'ended')
    .orderBy('number')
    .limit(limit)
    .execute()
  return rows.map(({ id }) => id)
}

/** Returns the rentals of each group's newest attempt, by rank. */
export async function readNodes(db: Db, groupIds: readonly string[]): Promise<Map<string, Rental[]>> {
  if (groupIds.length === 0) return new Map()
  const { rows } = await sql<Rental & { group_id: string }>`
    select n.group_id, r.* from group_node n join rental r on r.id = n.rental_id
    where n.group_id = any (${groupIds}::text[])
      and n.attempt = (select max(m.attempt) from group_node m where m.group_id = n.group_id)
    order by n.group_id, n.rank`.execute(db)
  const nodes = new Map<string, Rental[]>()
  for (const { group_id: id, ...rental } of rows) nodes.set(id, [...(nodes.get(id) ?? []), rental])
  return nodes
}

export interface GroupChange {
  readonly state?: GroupState
  readonly reason?: string | null
  readonly failedRank?: number | null
  readonly restarts?: number
  readonly retryAt?: Instant | null
  readonly startedAt?: Instant
  readonly endedAt?: Instant
}

export async function updateGroup(tx: Tx, id: string, change: GroupChange): Promise<Group> {
  tx.wake.add(GROUPS_WAKE)
  return tx.db
    .updateTable('rental_group')
    .set({
      state: change.state,
      ...(change.state === undefined ? {} : { state_since: toDate(tx.clock.now()) }),
      state_reason: change.reason,
      failed_rank: change.failedRank,
      restarts: change.restarts,
      ...(change.retryAt === undefined ? {} : { retry_at: toDateOrNull(change.retryAt) }),
      ...(change.startedAt === undefined ? {} : { started_at: toDate(change.startedAt) }),
      ...(change.endedAt === undefined ? {} : { ended_at: toDate(change.endedAt) }),
    })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** The maximum of machines read, cheapest first: more than any group needs. */
const MAX_CANDIDATES = 1_000

/** Lists machines of the marketplace that are entirely free and can be nodes of a group. */
export async function listFreeMachines(
  db: Db,
  query: {
    readonly gpus: number
    readonly drivers: readonly ProviderId[]
    readonly gpuModel?: string | undefined
    readonly clusterName?: string | undefined
    readonly region?: string | undefined
    readonly except: readonly string[]
  },
): Promise<FreeMachine[]> {
  const { gpus, drivers, gpuModel, clusterName, region, except } = query
  const { rows } = await sql<FreeMachine>`
    select m.id, m.driver, m.cluster_name as "clusterName", m.region, m.supplier_id as "supplierId",
      m.gpu_model as "gpuModel", coalesce(h.offer #>> '{cluster,network}', '') as network,
      h.offer #>> '{cluster,address}' as address, (h.offer #>> '{cluster,mtu}')::integer as mtu,
      m.price_nano_per_gpu_hour as price
    from machine m left join host h on h.id = m.id and h.driver = m.driver
    where m.offering = 'marketplace' and m.status = 'node_ready' and m.listed and m.offer_id is null
      and m.price_nano_per_gpu_hour is not null and m.gpus_total = ${gpus} and m.gpus_free = m.gpus_total
      and m.driver = any (${drivers}::text[]) and (h.id is null or h.offer -> 'cluster' is not null)
      and m.id <> all (${except}::text[])
      and ${gpuModel === undefined ? sql`true` : isLike(gpuModel)}
      and ${clusterName === undefined ? sql`true` : sql`m.cluster_name = ${clusterName}`}
      and ${region === undefined ? sql`true` : sql`m.region = ${region}`}
    order by m.price_nano_per_gpu_hour, m.id limit ${MAX_CANDIDATES}`.execute(db)
  return rows
}

/**
 * Opens the gates of a group once each node has measured its links to all others: then all programs start together.
 * Does nothing before that, or where the provider starts its machines by itself.
 */
export async function openGates(tx: Tx, { id, nodes }: Pick<Group, 'id' | 'nodes'>): Promise<void> {
  const { rows } = await sql<{ workloadId: string; hostId: string; isReady: boolean }>`
    select w.id as "workloadId", n.host_id as "hostId",
      coalesce(jsonb_array_length(n.group_links), 0) >= ${nodes - 1}::integer as "isReady"
    from group_node g
    join rental r on r.id = g.rental_id
    join workload w on w.id = r.external_id and w.driver = r.driver and not w.group_open
    join workload_node n on n.workload_id = w.id
    where g.group_id = ${id} and g.attempt = (select max(m.attempt) from group_node m where m.group_id = g.group_id)`.execute(
    tx.db,
  )
  if (rows.length < nodes || !rows.every(({ isReady }) => isReady)) return
  await bumpHosts(
    tx,
    rows.map(({ hostId }) => hostId),
  )
  await tx.db
    .updateTable('workload')
    .set({ group_open: true })
    .where(
      'id',
      'in',
      rows.map(({ workloadId }) => workloadId),
    )
    .execute()
}

/** Returns the measured links of rentals on hosts, by the driver's id of their machine. */
export async function readLinks(
  db: Db,
  externalIds: readonly string[],
): Promise<Map<string, ReadonlyArray<{ readonly rank: number; readonly mbps: number }>>> {
  if (externalIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('workload_node')
    .select(['workload_id', 'group_links'])
    .where('workload_id', 'in', [...externalIds])
    .execute()
  return new Map(rows.map((row) => [row.workload_id, row.group_links ?? []]))
}
