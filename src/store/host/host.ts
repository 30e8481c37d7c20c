/**
 * Hosts and their desired state. Every change of the desired state increments the host's generation, and a trigger
 * notifies the servers. A report names the generation that it has acted on, so a workload missing from it counts as gone
 * only if the host was instructed to end it before it reported.
 */
import { sql, type Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import type { Desired, HostReport } from '../../contract/agent.ts'
import type { HostAddress, HostState } from '../../domain/host.ts'
import type { RentalSpec } from '../../domain/rental.ts'
import { groupOrderOf } from '../../domain/group.ts'
import { programOf } from '../../domain/workload.ts'
import { at, prepareAs, type Db, type Tx } from '../platform/database.ts'
import { saveVolumeReport } from './host-volume-report.ts'
import type { Tables } from '../platform/tables.ts'
import { hostJson, storableText, workloadsOf } from './report-json.ts'

export type HostRow = Selectable<Tables['host']>

/** The server logs in to a host that has no agent of ours (bare metal). */
export function isReachedOverSsh(host: Pick<HostRow, 'access'>): boolean {
  return host.access !== null
}

export async function findHost(db: Db, id: string): Promise<HostRow | undefined> {
  return db.selectFrom('host').selectAll().where('id', '=', id).executeTakeFirst()
}

export type MetalHostRow = Pick<
  HostRow,
  'id' | 'state' | 'state_reason' | 'generation' | 'address' | 'offer' | 'access'
>

/** A loop reads this about once a second. It names its columns: a prepared `*` would fail once a migration adds one. */
export async function listMetalHosts(db: Db, driver: HostRow['driver'], limit: number): Promise<MetalHostRow[]> {
  const { rows } = await sql<MetalHostRow>`${prepareAs('metal_hosts')}
    select id, state, state_reason, generation, address, offer, access from host
    where driver = ${driver} order by id limit ${limit}`.execute(db)
  return rows
}

/**
 * From now on only reports of this connection count. A connection alone proves nothing about workloads. `serverId`: the
 * server that the host is connected to, if other servers can reach it.
 */
export async function beginSession(
  db: Db,
  hostId: string,
  session: string,
  agentVersion: string,
  serverId: string | null = null,
): Promise<void> {
  const begun = { session, agent_version: agentVersion, server_id: serverId }
  await db.updateTable('host').set(begun).where('id', '=', hostId).execute()
}

/** The connection has ended: the host is silent from its last heartbeat. */
export async function endSession(db: Db, hostId: string, session: string): Promise<void> {
  const noSession = { session: null, server_id: null }
  await db.updateTable('host').set(noSession).where('id', '=', hostId).where('session', '=', session).execute()
}

/** Heartbeats of many hosts in one statement. */
export async function touchHosts(
  db: Db,
  sessions: ReadonlyArray<{ hostId: string; session: string }>,
  now: Instant,
): Promise<void> {
  if (sessions.length === 0) return
  await sql`
    update host set seen_at = ${toDate(now)}
    from unnest(${sessions.map((one) => one.hostId)}::text[], ${sessions.map((one) => one.session)}::uuid[]) as heard (id, session)
    where host.id = heard.id and host.session = heard.session`.execute(db)
}

/** The state reason of a host that its owner must not put back on sale. */
const DRAINED_BY_OPERATOR = 'drained by the operator'

/**
 * Takes a host off sale, puts it back, or removes it, which needs it to be empty. A host that has left comes back only
 * by joining again, and an owner cannot put back a host that the operator drained.
 */
export async function moveHost(
  tx: Tx,
  hostId: string,
  to: 'ready' | 'draining' | 'left',
  by: 'owner' | 'operator' = 'owner',
): Promise<Result<HostState>> {
  const host = await tx.db
    .selectFrom('host')
    .select(['state', 'state_reason'])
    .where('id', '=', hostId)
    .forUpdate()
    .executeTakeFirst()
  if (host === undefined) return fail('host_not_found')
  if (host.state === to && by === 'owner') return ok(to)
  if (host.state === 'left') {
    return fail('host_removed')
  }
  if (by === 'owner' && to === 'ready' && host.state_reason === DRAINED_BY_OPERATOR) {
    return fail('drained_by_operator')
  }
  if (host.state === 'cleaning' || host.state === 'quarantined') {
    return fail('host_not_ready', { state: host.state })
  }
  if (to === 'left') {
    const { rows } = await sql<{ busy: boolean }>`
      select exists (select 1 from workload_node where host_id = ${hostId})
          or exists (select 1 from workload_copy where host_id = ${hostId})
          or exists (select 1 from host_volume where host_id = ${hostId})
          or exists (select 1 from gpu_claim where machine_id = ${hostId}) as busy`.execute(tx.db)
    if (rows[0]?.busy === true) {
      return fail('host_has_tenants')
    }
  }
  await setHostState(tx, hostId, to, by === 'operator' && to === 'draining' ? DRAINED_BY_OPERATOR : null)
  return ok(to)
}

/** The trigger machine_follows_host moves the machine of the host in the same transaction. */
export async function setHostState(tx: Tx, hostId: string, state: HostState, reason: string | null): Promise<void> {
  const text = reason === null ? null : storableText(reason)
  await tx.db.updateTable('host').set({ state, state_reason: text }).where('id', '=', hostId).execute()
  tx.wake.add('inventory').add('metal')
}

/** Notifies hosts of a changed desired state; returns the new generations. */
export async function bumpHosts(tx: Tx, hostIds: readonly string[]): Promise<Map<string, bigint>> {
  tx.wake.add('metal')
  // Hosts are locked in the order of ids, so that two transactions that bump the same hosts do not deadlock.
  await sql`select 1 from host where id = any (${hostIds}::text[]) order by id for update`.execute(tx.db)
  const rows = await sql<{ id: string; generation: bigint }>`
    update host set generation = generation + 1 where id = any (${hostIds}::text[]) returning id, generation`.execute(
    tx.db,
  )
  return new Map(rows.rows.map((row) => [row.id, row.generation]))
}

/** Returns the complete desired state of a host. undefined: there is no such host. */
export async function readDesired(db: Db, hostId: string): Promise<Desired | undefined> {
  // It is one statement, so that generation and rows agree.
  const { rows } = await sql<{
    generation: bigint
    state: HostState
    workloads: WantedRow[]
    volumes: VolumeRow[]
  }>`
    select h.generation, h.state,
      coalesce((select jsonb_agg(jsonb_build_object(
          'id', w.id, 'tag', w.tag, 'want', w.want, 'reboots', w.reboots, 'started', n.started, 'spec', w.spec, 'groupOpen', w.group_open, 'image', w.base_image,
          'endsAt', (extract(epoch from w.interrupted_at) * 1000)::bigint, 'index', n.node_index, 'gpus', n.gpu_indexes,
          'copies', n.incarnation is null and exists (select 1 from workload_copy c where c.workload_id = w.id and c.want = 'kept'),
          'peers', (select jsonb_agg(p.address order by pn.node_index)
                    from workload_node pn join host p on p.id = pn.host_id where pn.workload_id = w.id),
          'disks', (select jsonb_agg(jsonb_build_object('volumeId', v.id, 'label', v.label, 'sizeGb', v.size_gb,
                                                        'hostId', v.host_id, 'vip', v.vip, 'path', d.path,
                                                        'readOnly', d.read_only) order by v.id)
                    from workload_disk d join host_volume v on v.id = d.volume_id where d.workload_id = w.id)
        ) order by w.created_at, w.id)
        from workload_node n join workload w on w.id = n.workload_id where n.host_id = h.id), '[]')
      || coalesce((select jsonb_agg(jsonb_build_object(
          'id', w.id, 'tag', w.tag, 'want', case c.want when 'kept' then 'stopped' else 'gone' end, 'reboots', w.reboots,
          'started', true, 'spec', w.spec, 'image', w.base_image, 'index', 0, 'gpus', '[]'::jsonb, 'copies', false)
          order by w.created_at, w.id)
        from workload_copy c join workload w on w.id = c.workload_id where c.host_id = h.id), '[]') as workloads,
      coalesce((select jsonb_agg(jsonb_build_object('id', v.id, 'sizeGb', v.size_gb, 'want', v.want, 'made', v.made,
                                                    'reserved', v.reserved, 'copyOf', v.copy_of) order by v.id)
        from host_volume v where v.host_id = h.id), '[]') as volumes
    from host h where h.id = ${hostId}`.execute(db)
  const row = rows[0]
  if (row === undefined) return undefined
  return {
    type: 'desired',
    generation: asNumber(row.generation),
    state: row.state,
    workloads: row.workloads.map(wantedOf),
    volumes: row.volumes.map(({ copyOf, ...one }) => (copyOf === null ? one : { ...one, copyOf })),
  }
}

type VolumeRow = Omit<Desired['volumes'][number], 'copyOf'> & { readonly copyOf: string | null }

export type WorkloadWant = Selectable<Tables['workload']>['want']

interface WantedRow {
  readonly id: string
  readonly tag: string
  readonly want: WorkloadWant
  readonly reboots: number
  readonly started: boolean
  readonly spec: RentalSpec | null
  readonly groupOpen?: boolean
  readonly image: Desired['workloads'][number]['baseImage']
  readonly index: number
  readonly gpus: number[]
  readonly copies: boolean
  readonly endsAt?: number | null
  readonly peers?: Array<HostAddress | null> | null
  readonly disks?: Array<{
    volumeId: string
    label: string
    sizeGb: number
    hostId: string | null
    vip: string
    path: string | null
    readOnly: boolean
  }> | null
}

function wantedOf(row: WantedRow): Desired['workloads'][number] {
  const { id, tag, want, reboots, started, copies, spec } = row
  const group = spec?.group === undefined ? undefined : groupOrderOf(spec.group, row.groupOpen === true)
  return {
    id,
    tag,
    want: want === 'gone' ? 'gone' : 'run',
    power: want === 'stopped' ? 'off' : 'on',
    reboots,
    started,
    ...(copies ? { copies } : {}),
    ...(group === undefined ? {} : { group }),
    ...(row.endsAt === null || row.endsAt === undefined ? {} : { endsAt: row.endsAt }),
    spec:
      spec === null
        ? null
        : {
            kind: spec.kind,
            name: spec.name,
            gpuCount: spec.gpuCount,
            resources: spec.resources,
            sshKeys: [...spec.sshKeys],
            ports: [...spec.ports],
            image: spec.image,
            ...(spec.workload === undefined ? {} : { program: programOf(spec.workload) }),
            ...(spec.interruptible === true ? { interruptible: true } : {}),
          },
    node: {
      index: row.index,
      gpuIndexes: row.gpus,
      peers: (row.peers ?? []).flatMap((one) =>
        one === null ? [] : [{ hostname: one.hostname, privateIp: one.privateIp }],
      ),
    },
    disks: (row.disks ?? []).map((one) => ({
      volumeId: one.volumeId,
      label: one.label,
      sizeGb: one.sizeGb,
      source: one.hostId === null ? { kind: 'nfs', server: one.vip, path: `/${one.volumeId}` } : { kind: 'file' },
      ...(one.path === null ? {} : { path: one.path }),
      ...(one.readOnly ? { readOnly: true } : {}),
    })),
    baseImage: row.image,
  }
}

function asNumber(generation: bigint): number {
  return Number.parseInt(generation.toString(), 10)
}

/**
 * Saves the report of a host. `session` is null for a host that the server manages over SSH. False: a newer connection
 * has taken over, and this one no longer counts.
 */
export async function saveReport(
  tx: Tx,
  hostId: string,
  session: string | null,
  report: HostReport,
  now: Instant,
): Promise<boolean> {
  const host = await tx.db
    .selectFrom('host')
    .select(['id', 'driver', 'session'])
    .where('id', '=', hostId)
    .forUpdate()
    .executeTakeFirst()
  if (host === undefined || (session !== null && host.session !== session)) return false
  const isBlind = report.blind === true || report.generation === 0
  await tx.db
    .updateTable('host')
    .set({
      offer: hostJson(report.offer),
      notes: hostJson(report.notes),
      fault: report.fault === undefined ? null : hostJson(report.fault),
      ...(isBlind ? {} : { seen_at: toDate(now) }),
    })
    .where('id', '=', hostId)
    .execute()
  if (isBlind) return true
  await sql`
    update workload_node n
    -- A report from before a stop or start says nothing about what came of it.
    set state = case when n.generation > ${report.generation} then n.state else r.state end,
        failure = case when n.generation > ${report.generation} then n.failure else r.failure end,
        message = case when n.generation > ${report.generation} then n.message else r.message end,
        exit_code = case when n.generation > ${report.generation} then n.exit_code else r."exitCode" end,
        ended_at = case when n.generation > ${report.generation} then n.ended_at else ${at(now)}::timestamptz - r."endedAgoMs" * interval '1 millisecond' end,
        ssh_user = coalesce(r."sshUser", n.ssh_user),
        incarnation = coalesce(r.incarnation, n.incarnation),
        group_links = coalesce(r."group" -> 'links', n.group_links),
        disks = array(select jsonb_array_elements_text(r.disks)), started = n.started or r.state = 'running'
    from jsonb_to_recordset(${hostJson(workloadsOf(report))}::jsonb) as r (
      id text, state text, failure text, message text, "exitCode" smallint, "endedAgoMs" bigint, "sshUser" text, incarnation text, "group" jsonb, disks jsonb)
    where n.workload_id = r.id and n.host_id = ${hostId}`.execute(tx.db)
  await adoptUnknown(tx, host, report, now)
  await forgetGone(tx, hostId, report)
  await saveVolumeReport(tx, hostId, report)
  tx.wake.add('observe')
  if (report.workloads.some(({ group }) => group !== undefined)) tx.wake.add('groups')
  return true
}

/** Unknown workloads saved per host. A host with more is broken, or lies. */
const MAX_UNKNOWN_WORKLOADS = 100

/** A workload that is not in the database gets a row, so that it is visible and can be ended. */
async function adoptUnknown(
  tx: Tx,
  host: Pick<HostRow, 'id' | 'driver'>,
  report: HostReport,
  now: Instant,
): Promise<void> {
  await sql`
    with stranger as (
      select r.id, r.tag, r.state from jsonb_to_recordset(${hostJson(report.workloads)}::jsonb) as r (
        id text, tag text, state text)
      where not exists (select 1 from workload_node n where n.workload_id = r.id and n.host_id = ${host.id})
        -- A workload that is being removed on request is not unknown.
        and r.state <> 'stopping'
        -- Under the tag of a rental that was never on this host it could keep that rental from ending.
        and not exists (select 1 from rental x, installation i
          where x.id = substring(r.tag from '-(\\d{1,9})-[0-9a-f]+$')::integer
            and r.tag = 'berth-' || i.id || '-' || x.id || '-' || x.nonce
            and not x.spec -> 'nodes' @> jsonb_build_array(jsonb_build_object('machineId', ${host.id}::text)))
      order by r.id
      limit greatest(0, ${MAX_UNKNOWN_WORKLOADS} - (select count(*) from workload_node n join workload w on w.id = n.workload_id
        where n.host_id = ${host.id} and w.spec is null))
    ), added as (
      -- A known id belongs to another host: this one must not change it.
      insert into workload (id, driver, tag, spec, created_at)
      select id, ${host.driver}, tag, null, ${toDate(now)} from stranger
      on conflict do nothing returning id
    )
    insert into workload_node (workload_id, host_id, node_index, gpu_indexes, generation, state, started)
    select a.id, ${host.id}, 0, '{}', h.generation, s.state, true
    from added a join stranger s on s.id = a.id, host h where h.id = ${host.id}
    on conflict do nothing`.execute(tx.db)
}

/** Deletes workloads to be removed that are missing from a report about the same or a later generation. */
async function forgetGone(tx: Tx, hostId: string, report: HostReport): Promise<void> {
  const workloadIds = report.workloads.map((one) => one.id)
  await sql`
    delete from workload_copy where host_id = ${hostId} and want = 'gone'
      and generation <= ${report.generation} and workload_id <> all (${workloadIds}::text[])`.execute(tx.db)
  await sql`
    delete from workload_node n using workload w
    where w.id = n.workload_id and n.host_id = ${hostId} and (w.want = 'gone' or w.spec is null)
      and n.generation <= ${report.generation} and n.workload_id <> all (${workloadIds}::text[])`.execute(tx.db)
  await sql`
    delete from workload w where (w.want = 'gone' or w.spec is null)
      and not exists (select 1 from workload_node n where n.workload_id = w.id)
      and not exists (select 1 from workload_copy c where c.workload_id = w.id)`.execute(tx.db)
}

/** Drops a node of a workload whose host was taken out of service. */
export async function dropNode(tx: Tx, hostId: string, workloadId: string): Promise<void> {
  await tx.db.deleteFrom('workload_node').where('host_id', '=', hostId).where('workload_id', '=', workloadId).execute()
  await sql`
    delete from workload w where w.id = ${workloadId} and w.want = 'gone'
      and not exists (select 1 from workload_node n where n.workload_id = w.id)`.execute(tx.db)
}

export async function hasTenants(db: Db, hostId: string): Promise<boolean> {
  return (await listTenanted(db, [hostId])).has(hostId)
}

/** Returns those of the hosts that have tenants. */
export async function listTenanted(db: Db, hostIds: readonly string[]): Promise<Set<string>> {
  if (hostIds.length === 0) return new Set()
  const rows = await db
    .selectFrom('workload_node')
    .select('host_id')
    .distinct()
    .where('host_id', 'in', hostIds)
    .execute()
  return new Set(rows.map((row) => row.host_id))
}
