/**
 * The desired state of our own hosts, in PostgreSQL. It has the shape of `HostWorld` (drivers/host/world.ts) without
 * importing it, because the store does not import drivers.
 */
import { randomInt } from 'node:crypto'
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { Observation } from '../../contract/agent.ts'
import type { HostAddress } from '../../domain/host.ts'
import type { RentalSpec, Mount, Share } from '../../domain/rental.ts'
import { transact, type Database, type Db, type Tx } from '../platform/database.ts'
import {
  announceEnd,
  requestDestroy,
  requestReboot,
  requestStart,
  requestStop,
  unavailabilityOf,
  type HostStanding,
} from './host-power.ts'
import {
  addDisks,
  addVolume,
  growVolume,
  lockDisks,
  readVolumes,
  requestVolumeDestroy,
  unwantDisk,
  wantDisk,
  type NewVolume,
} from './host-volume.ts'
import { bumpHosts, type WorkloadWant } from './host.ts'
import { dropCopies } from './workload-copy.ts'

type DriverId = 'host' | 'private-cloud'

export interface PortRange {
  readonly from: number
  readonly to: number
}

/** Random ports to try before the range counts as full. */
const MAX_PORT_TRIES = 200

export function postgresHostWorld(database: Database, ports: PortRange) {
  const { db } = database
  return {
    async check(): Promise<void> {
      await sql`select 1 from host limit 1`.execute(db)
    },

    async listHosts(driver: DriverId) {
      const rows = await db.selectFrom('host').selectAll().where('driver', '=', driver).orderBy('id').execute()
      return rows.map((row) => ({
        id: row.id,
        supplierId: row.supplier_id,
        state: row.state,
        seenAt: row.seen_at,
        offer: row.offer,
        fault: row.fault,
      }))
    },

    addWorkload: (workload: NewWorkload) => transact(database, (tx) => addWorkload(tx, workload, ports)),

    requestDestroy: (id: string) => transact(database, (tx) => requestDestroy(tx, id)),
    dropCopies: () => dropCopies(database),
    requestStop: (id: string) => transact(database, (tx) => requestStop(tx, id)),
    requestStart: (id: string, share: Share) => transact(database, (tx) => requestStart(tx, id, share)),
    announceEnd: (id: string, at: Instant) => transact(database, (tx) => announceEnd(tx, id, at)),
    requestReboot: (id: string, count: number) => transact(database, (tx) => requestReboot(tx, id, count)),

    async listWorkloads(driver: DriverId, tagPrefix: string) {
      return readWorkloads(db, sql`w.driver = ${driver} and starts_with(w.tag, ${tagPrefix})`)
    },
    async findWorkload(id: string) {
      return (await readWorkloads(db, sql`w.id = ${id}`))[0]
    },

    addVolume: (volume: NewVolume) => transact(database, (tx) => addVolume(tx, volume)),
    async markVolumeMade(id: string): Promise<void> {
      await db.updateTable('host_volume').set({ present: true, made: true }).where('id', '=', id).execute()
    },

    requestVolumeDestroy: (id: string) => transact(database, (tx) => requestVolumeDestroy(tx, id)),
    async forgetVolume(id: string): Promise<void> {
      await db.deleteFrom('host_volume').where('id', '=', id).where('want', '=', 'gone').execute()
    },

    async listVolumes(driver: DriverId, tagPrefix: string) {
      return readVolumes(db, sql`v.driver = ${driver} and starts_with(v.tag, ${tagPrefix})`)
    },
    async findVolume(id: string) {
      return (await readVolumes(db, sql`v.id = ${id}`))[0]
    },

    growVolume: (id: string, sizeGb: number) => transact(database, (tx) => growVolume(tx, id, sizeGb)),
    wantDisk: (volumeId: string, workloadId: string, mount?: Mount) =>
      transact(database, (tx) => wantDisk(tx, volumeId, workloadId, mount)),
    unwantDisk: (volumeId: string, workloadId: string) =>
      transact(database, (tx) => unwantDisk(tx, volumeId, workloadId)),
  }
}

interface NewWorkload {
  readonly id: string
  readonly driver: DriverId
  readonly tag: string
  readonly spec: RentalSpec
  readonly relayed: readonly number[]
}

type AddOutcome = { kind: 'added'; id: string } | { kind: 'refused'; message: string }

async function addWorkload(tx: Tx, workload: NewWorkload, ports: PortRange): Promise<AddOutcome> {
  const { id, driver, tag, spec } = workload
  const workloadRow = await tx.db
    .selectFrom('workload')
    .select('id')
    .where('tag', '=', tag)
    .where('spec', 'is not', null)
    .executeTakeFirst()
  if (workloadRow !== undefined) return { kind: 'added', id: workloadRow.id }
  await lockDisks(tx, id, spec.disks ?? [])
  const hostIds = spec.nodes.map((node) => node.machineId)
  const hosts = await sql<HostStanding>`
    select id, state, seen_at, fault from host where driver = ${driver} and id = any (${hostIds}::text[]) order by id for update`.execute(
    tx.db,
  )
  for (const hostId of hostIds) {
    const host = hosts.rows.find((one) => one.id === hostId)
    const why = host === undefined ? 'is gone' : unavailabilityOf(host, tx.clock.now())
    if (why !== undefined) return { kind: 'refused', message: `Host ${hostId} ${why}.` }
  }
  await tx.db
    .insertInto('workload')
    .values({
      id,
      driver,
      tag,
      spec: JSON.stringify(spec),
      base_image: spec.kind === 'virtual-machine' ? await defaultImage(tx, hostIds[0] ?? '') : null,
      created_at: toDate(tx.clock.now()),
    })
    .execute()
  const generations = await bumpHosts(tx, hostIds)
  for (const [index, node] of spec.nodes.entries()) {
    await tx.db
      .insertInto('workload_node')
      .values({
        workload_id: id,
        host_id: node.machineId,
        node_index: index,
        gpu_indexes: [...node.gpuIndexes],
        generation: generations.get(node.machineId) ?? 0n,
      })
      .execute()
  }
  for (const target of new Set(workload.relayed)) await assignPort(tx.db, { workload_id: id }, target, ports)
  await addDisks(tx, id, spec.disks ?? [])
  return { kind: 'added', id }
}

/** The image stays with the machine: a new default must not change what it boots next time. */
async function defaultImage(tx: Tx, hostId: string): Promise<string | null> {
  const { rows } = await sql<{ name: string; source: string; sha256: string; login_user: string }>`
    select i.name, i.source, i.sha256, i.login_user from base_image i, host h
    where h.id = ${hostId} and i.is_default
      and i.arch = coalesce(h.offer -> 'hardware' ->> 'cpuArch', 'x64')`.execute(tx.db)
  const image = rows[0]
  if (image === undefined) return null
  const { name, source, sha256, login_user: loginUser } = image
  return JSON.stringify({ name, source, sha256, loginUser })
}

export async function assignPort(
  db: Db,
  owner: { workload_id: string } | { rental_id: number },
  target: number,
  { from, to }: PortRange,
): Promise<void> {
  for (let n = 0; n < MAX_PORT_TRIES; n += 1) {
    const portRow = await db
      .insertInto('relay_port')
      .values({ port: randomInt(from, to + 1), ...owner, target })
      .onConflict((conflict) => conflict.doNothing())
      .returning('port')
      .executeTakeFirst()
    if (portRow !== undefined) return
  }
  throw new Error(`no free port between ${from} and ${to} for a workload`)
}

interface NodeJson {
  readonly hostId: string
  readonly index: number
  readonly address: HostAddress | null
  readonly seenAt: string | null
  readonly state: Observation['state'] | null
  readonly started: boolean
  readonly failure: string | null
  readonly message: string | null
  readonly exitCode: number | null
  readonly endedAt: string | null
  readonly sshUser: string | null
  readonly incarnation: string | null
  readonly disks: string[]
}

function readInstant(text: string | null): Instant | null {
  return text === null ? null : (Number.parseInt(text, 10) as Instant)
}

async function readWorkloads(db: Db, where: ReturnType<typeof sql>) {
  const { rows } = await sql<{
    id: string
    tag: string
    spec: RentalSpec | null
    want: WorkloadWant
    nodes: NodeJson[]
    relay: Array<{ target: number; port: number }>
  }>`
    select w.id, w.tag, w.spec, w.want,
      coalesce((select jsonb_agg(jsonb_build_object(
          'hostId', n.host_id, 'index', n.node_index, 'address', h.address,
          'seenAt', (extract(epoch from h.seen_at) * 1000)::bigint::text,
          'state', n.state, 'started', n.started, 'failure', n.failure, 'message', n.message, 'exitCode', n.exit_code,
          'endedAt', (extract(epoch from n.ended_at) * 1000)::bigint::text,
          'sshUser', n.ssh_user, 'incarnation', n.incarnation, 'disks', n.disks) order by n.node_index)
        from workload_node n join host h on h.id = n.host_id where n.workload_id = w.id), '[]') as nodes,
      coalesce((select jsonb_agg(jsonb_build_object('target', p.target, 'port', p.port) order by p.target)
        from relay_port p where p.workload_id = w.id), '[]') as relay
    from workload w where ${where} order by w.id`.execute(db)
  return rows.map((row) => ({
    ...row,
    nodes: row.nodes.map((node) => ({
      ...node,
      seenAt: readInstant(node.seenAt),
      endedAt: readInstant(node.endedAt),
    })),
  }))
}
