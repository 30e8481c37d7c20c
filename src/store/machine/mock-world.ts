/**
 * The simulated cloud's state in PostgreSQL, so that its machines outlive the server and several servers share them.
 * It has the shape of `MockWorld` (drivers/mock/world.ts) without importing it, because the store does not import
 * providers. Each operation is one statement and therefore atomic.
 */
import { sql, type RawBuilder } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { RentalSpec, Share } from '../../domain/rental.ts'
import { asMs, type Db } from '../platform/database.ts'

interface Resource {
  readonly externalId: string
  readonly tag: string
  readonly createdAt: Instant
  readonly listedAt: Instant
  readonly hiddenFrom: Instant | null
  readonly hiddenUntil: Instant | null
  readonly goneAt: Instant | null
  readonly destroyAskedAt: Instant | null
  readonly destroyMs: number
  readonly destroyRefusalsLeft: number
}

interface Machine extends Resource {
  readonly spec: RentalSpec
  readonly runningAt: Instant | null
  readonly failedAt: Instant | null
  readonly offAt: Instant | null
  readonly reboots: number
}

interface Volume extends Resource {
  readonly label: string
  readonly region: string
  readonly sizeGb: number
  readonly vip: string
  readonly attachRefusalsLeft: number
  readonly attachedTo: readonly string[]
}

/** The maximum of specs kept in memory; others are read again. */
const MAX_SPECS = 100_000
const MAX_NEW_SPECS = 1_000
/** One text holds many machines, as with rentals (store/rental/rental-engine.ts). */
const MACHINES_PER_TEXT = 1_000

/** Specs are JSON text, which takes less memory: the spec of a machine that runs is rarely asked for. */
type Specs = Map<string, Pick<Machine, 'runningAt' | 'failedAt'> & { readonly json: string }>

export function postgresMockWorld(db: Db) {
  return {
    async check(): Promise<void> {
      await sql`select 1 from mock.machine limit 1`.execute(db)
    },

    /** Skips rows that another server is deleting now: waiting for each other would deadlock. */
    async forgetGone(before: Instant): Promise<void> {
      for (const table of [machineTable, volumeTable]) {
        await sql`
          delete from ${table} where external_id in (
            select external_id from ${table} where gone_at < ${toDate(before)} for update skip locked)`.execute(db)
      }
    },

    ...machinesOf(db),
    ...volumesOf(db),
  }
}

function machinesOf(db: Db) {
  const readSpecs = makeSpecReader(db)
  return {
    async addMachine(machine: Machine): Promise<boolean> {
      return insertNew(db, machineTable, {
        ...resourceColumns(machine),
        spec: JSON.stringify(machine.spec),
        running_at: toDateOrNull(machine.runningAt),
        failed_at: toDateOrNull(machine.failedAt),
        off_at: toDateOrNull(machine.offAt),
        reboots: machine.reboots,
      })
    },

    async findMachine(externalId: string): Promise<Machine | undefined> {
      const { rows } = await sql<Machine>`
        select ${machineColumns} from mock.machine t where t.external_id = ${externalId}`.execute(db)
      return rows[0]
    },

    async listMachines(tagPrefix: string, at: Instant): Promise<Machine[]> {
      const { rows } = await sql<{ part: MachineTuple[] }>`
        select json_agg(${machineTuple} order by t.created_at, t.external_id) as part
        from (
          select *, (row_number() over (order by created_at, external_id) - 1) / ${sql.lit(MACHINES_PER_TEXT)} as page
          from mock.machine t where ${isUnder(tagPrefix)} and ${isThere(sql`t`, at)}
        ) t group by page order by page`.execute(db)
      const tuples = rows.flatMap(({ part }) => part)
      const specs = await readSpecs(tuples)
      // One whose spec is not there was forgotten meanwhile.
      return tuples.flatMap((tuple) => {
        const spec = specs.get(tuple[0])
        return spec === undefined ? [] : [machineOfTuple(tuple, spec.json)]
      })
    },

    async requestMachineDestroy(externalId: string, at: Instant): Promise<Machine | undefined> {
      const { rows } = await sql<Machine>`
        update mock.machine t set ${destroyAssignments(at)} where t.external_id = ${externalId}
        returning ${machineColumns}`.execute(db)
      return rows[0]
    },

    turnOff: (externalId: string, at: Instant) =>
      updateMachine(db, externalId, sql`off_at = least(t.off_at, ${toDate(at)})`),

    turnOn: (
      externalId: string,
      { runningAt, failedAt, nodes, resources }: Pick<Machine, 'runningAt' | 'failedAt'> & Share,
    ) => {
      const isOff = sql`(t.off_at is not null and t.destroy_asked_at is null)`
      return updateMachine(
        db,
        externalId,
        sql`off_at = null,
          running_at = case when ${isOff} then ${toDateOrNull(runningAt)}::timestamptz else t.running_at end,
          failed_at = case when ${isOff} then ${toDateOrNull(failedAt)}::timestamptz else t.failed_at end,
          spec = case when ${isOff} then t.spec || ${JSON.stringify({ nodes, resources })}::jsonb
            else t.spec end`,
      )
    },

    rebootMachine: (externalId: string, count: number) =>
      updateMachine(db, externalId, sql`reboots = greatest(t.reboots, ${count}::integer)`),

    async markMachineGone(externalId: string, at: Instant): Promise<void> {
      await markGone(db, machineTable, externalId, at)
    },
  }
}

/** A spec is ten times the rest of its machine, and changes only when the machine is turned on. */
function makeSpecReader(db: Db): (machines: readonly MachineTuple[]) => Promise<Specs> {
  let cache: Specs = new Map()
  return async (machines) => {
    if (cache.size > MAX_SPECS) cache = new Map()
    const specs = cache
    const unknownVersions = new Map<string, Pick<Machine, 'runningAt' | 'failedAt'>>()
    for (const machine of machines) {
      const [externalId, , , , , , , , , , runningAt, failedAt] = machine
      const spec = specs.get(externalId)
      if (spec?.runningAt !== runningAt || spec.failedAt !== failedAt)
        unknownVersions.set(externalId, { runningAt, failedAt })
    }
    const ids = [...unknownVersions.keys()]
    for (let from = 0; from < ids.length; from += MAX_NEW_SPECS) {
      const { rows } = await sql<{ id: string; json: string }>`
        select external_id as id, spec::text as json from mock.machine
        where external_id = any (${ids.slice(from, from + MAX_NEW_SPECS)})`.execute(db)
      for (const { id, json } of rows) {
        const version = unknownVersions.get(id)
        if (version !== undefined) specs.set(id, { ...version, json })
      }
    }
    return specs
  }
}

function volumesOf(db: Db) {
  return {
    async addVolume(volume: Volume): Promise<boolean> {
      return insertNew(db, volumeTable, {
        ...resourceColumns(volume),
        label: volume.label,
        region: volume.region,
        size_gb: volume.sizeGb,
        vip: volume.vip,
        attach_refusals_left: volume.attachRefusalsLeft,
        attached_to: volume.attachedTo,
      })
    },

    async growVolume(externalId: string, sizeGb: number): Promise<boolean> {
      const grown = await sql`
        update mock.volume set size_gb = ${sizeGb} where external_id = ${externalId} returning external_id`.execute(db)
      return grown.rows.length > 0
    },

    async listVolumes(tagPrefix: string, at: Instant): Promise<Volume[]> {
      const { rows } = await sql<Volume>`
        select ${volumeColumns(at)} from mock.volume t where ${isUnder(tagPrefix)} and ${isThere(sql`t`, at)}
        order by t.created_at, t.external_id`.execute(db)
      return rows
    },

    async askVolumeDestroy(externalId: string, at: Instant): Promise<Volume | undefined> {
      const { rows } = await sql<Volume>`
        update mock.volume t set ${destroyAssignments(at, sql`cardinality(${livingAttachments(at)}) > 0`)}
        where t.external_id = ${externalId}
        returning ${volumeColumns(at)}`.execute(db)
      return rows[0]
    },

    async markVolumeGone(externalId: string, at: Instant): Promise<void> {
      await markGone(db, volumeTable, externalId, at)
    },

    async attachVolume(externalId: string, machineExternalId: string, at: Instant): Promise<Volume | undefined> {
      const { rows } = await sql<Volume>`
        update mock.volume t set
          attach_refusals_left = greatest(t.attach_refusals_left - 1, 0),
          attached_to = case when t.attach_refusals_left > 0 then t.attached_to
            else array_append(array_remove(t.attached_to, ${machineExternalId}), ${machineExternalId}) end
        where t.external_id = ${externalId} and ${isThere(sql`t`, at)}
          and exists (select from mock.machine m where m.external_id = ${machineExternalId} and ${isThere(sql`m`, at)})
        returning ${volumeColumns(at)}`.execute(db)
      return rows[0]
    },

    async detachVolume(externalId: string, machineExternalId: string): Promise<void> {
      await sql`
        update mock.volume set attached_to = array_remove(attached_to, ${machineExternalId})
        where external_id = ${externalId}`.execute(db)
    },
  }
}

type Sql = RawBuilder<unknown>

const machineTable = sql.table('mock.machine')
const volumeTable = sql.table('mock.volume')

const sharedColumns = sql`
  t.external_id as "externalId", t.tag, t.created_at as "createdAt", t.listed_at as "listedAt",
  t.hidden_from as "hiddenFrom", t.hidden_until as "hiddenUntil", t.gone_at as "goneAt",
  t.destroy_asked_at as "destroyAskedAt", t.destroy_ms as "destroyMs",
  t.destroy_refusals_left as "destroyRefusalsLeft"`

const machineColumns = sql`${sharedColumns}, t.spec, t.running_at as "runningAt", t.failed_at as "failedAt",
  t.off_at as "offAt", t.reboots`

const machineTuple = sql`json_build_array(t.external_id, t.tag, ${asMs('t.created_at')}, ${asMs('t.listed_at')},
  ${asMs('t.hidden_from')}, ${asMs('t.hidden_until')}, ${asMs('t.gone_at')}, ${asMs('t.destroy_asked_at')}, t.destroy_ms,
  t.destroy_refusals_left, ${asMs('t.running_at')}, ${asMs('t.failed_at')}, ${asMs('t.off_at')}, t.reboots)`
type MachineTuple = readonly [
  externalId: string,
  tag: string,
  createdAt: Instant,
  listedAt: Instant,
  hiddenFrom: Instant | null,
  hiddenUntil: Instant | null,
  goneAt: Instant | null,
  destroyAskedAt: Instant | null,
  destroyMs: number,
  destroyRefusalsLeft: number,
  runningAt: Instant | null,
  failedAt: Instant | null,
  offAt: Instant | null,
  reboots: number,
]

function machineOfTuple(tuple: MachineTuple, specJson: string): Machine {
  const [externalId, tag, createdAt, listedAt, hiddenFrom, hiddenUntil, goneAt, destroyAskedAt, ...laterFields] = tuple
  const [destroyMs, destroyRefusalsLeft, runningAt, failedAt, offAt, reboots] = laterFields
  return {
    externalId,
    tag,
    createdAt,
    listedAt,
    hiddenFrom,
    hiddenUntil,
    goneAt,
    destroyAskedAt,
    destroyMs,
    destroyRefusalsLeft,
    runningAt,
    failedAt,
    offAt,
    reboots,
    get spec() {
      return JSON.parse(specJson) as RentalSpec
    },
  }
}

function volumeColumns(at: Instant): Sql {
  return sql`${sharedColumns}, t.label, t.region, t.size_gb as "sizeGb", t.vip,
    t.attach_refusals_left as "attachRefusalsLeft", ${livingAttachments(at)} as "attachedTo"`
}

function livingAttachments(at: Instant): Sql {
  return sql`array(
    select m.external_id from mock.machine m where m.external_id = any (t.attached_to) and ${isThere(sql`m`, at)})`
}

function isThere(alias: Sql, at: Instant): Sql {
  return sql`(${alias}.gone_at is null or ${alias}.gone_at > ${toDate(at)})`
}

/** `starts_with` alone does not use the index before PostgreSQL 15, and `like` would treat `_` as a wildcard. */
function isUnder(tagPrefix: string): Sql {
  return sql`t.tag >= ${tagPrefix} and starts_with(t.tag, ${tagPrefix})`
}

/** `blocked` keeps it without using up a refusal. A repeated call does not postpone the end. */
function destroyAssignments(at: Instant, isBlocked: Sql = sql`false`): Sql {
  const isRefused = sql`(t.destroy_refusals_left > 0 or ${isBlocked})`
  return sql`
    destroy_refusals_left = case when ${isBlocked} then t.destroy_refusals_left
      else greatest(t.destroy_refusals_left - 1, 0) end,
    destroy_asked_at = case when ${isRefused} then t.destroy_asked_at
      else coalesce(t.destroy_asked_at, ${toDate(at)}) end,
    gone_at = case when ${isRefused} then t.gone_at
      else least(t.gone_at, ${toDate(at)}::timestamptz + t.destroy_ms * interval '1 millisecond') end`
}

async function updateMachine(db: Db, externalId: string, change: Sql): Promise<Machine | undefined> {
  const { rows } = await sql<Machine>`
    update mock.machine t set ${change} where t.external_id = ${externalId} returning ${machineColumns}`.execute(db)
  return rows[0]
}

async function markGone(db: Db, table: Sql, externalId: string, at: Instant): Promise<void> {
  await sql`update ${table} set gone_at = least(gone_at, ${toDate(at)}) where external_id = ${externalId}`.execute(db)
}

async function insertNew(db: Db, table: Sql, columns: Readonly<Record<string, unknown>>): Promise<boolean> {
  const names = sql.join(Object.keys(columns).map((name) => sql.ref(name)))
  const { rows } = await sql`
    insert into ${table} (${names}) values (${sql.join(Object.values(columns))})
    on conflict (external_id) do nothing returning external_id`.execute(db)
  return rows.length > 0
}

function resourceColumns(resource: Resource) {
  return {
    external_id: resource.externalId,
    tag: resource.tag,
    created_at: toDate(resource.createdAt),
    listed_at: toDate(resource.listedAt),
    hidden_from: toDateOrNull(resource.hiddenFrom),
    hidden_until: toDateOrNull(resource.hiddenUntil),
    gone_at: toDateOrNull(resource.goneAt),
    destroy_asked_at: toDateOrNull(resource.destroyAskedAt),
    destroy_ms: resource.destroyMs,
    destroy_refusals_left: resource.destroyRefusalsLeft,
  }
}
