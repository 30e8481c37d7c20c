/** Machines: the offers of providers, and their claimed GPUs. */
import { sql, type Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { GpuType, NetworkType, Simulation } from '../../contract/shared.ts'
import type { MachineHardware } from '../../domain/machine.ts'
import { prepareAs, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type Machine = Selectable<Tables['machine']>

/** Free units of an offer that is off sale do not count as lost machines. */
export const isPresent = sql<boolean>`(offer_id is null or status <> 'node_lost' or gpus_claimed > 0)`

export async function findMachine(db: Db, id: string): Promise<Machine | undefined> {
  return db.selectFrom('machine').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Returns the drivers that have machines of each kind in these regions, on sale or not. */
export async function listDriversIn(
  db: Db,
  regions: readonly string[],
): Promise<Array<{ region: string; driver: ProviderId; offering: Machine['offering'] }>> {
  return db
    .selectFrom('machine')
    .select(['region', 'driver', 'offering'])
    .distinct()
    .where('region', 'in', regions)
    .where('status', '!=', 'node_lost')
    .orderBy('offering')
    .orderBy('driver')
    .execute()
}

/** A wake-up: availability has changed. */
export const CAPACITY_WAKE = 'capacity'

export async function releaseGpus(tx: Tx, rentalId: number): Promise<void> {
  tx.wake.add(CAPACITY_WAKE)
  await sql`select release_gpus(${rentalId})`.execute(tx.db)
}

export interface ReportedMachine {
  readonly id: string
  readonly clusterName: string
  readonly region: string
  readonly offering: Machine['offering']
  readonly supplierId: string | null
  readonly gpuType: GpuType | null
  readonly gpuModel: string
  readonly gpuRamMib: number
  readonly gpuFormFactor: Machine['gpu_form_factor']
  readonly networkType: NetworkType
  readonly ethernetVariant: Machine['ethernet_variant']
  readonly gpusTotal: number
  readonly gpusSick: readonly number[]
  readonly price: NanoUsd | null
  readonly hasPersistentStorage: boolean
  readonly hardware: MachineHardware
  readonly simulation: Simulation | null
  /** The offer that the machine is a unit of. null: it is not of an offer. */
  readonly offerId: string | null
  readonly soldWhole: boolean
  readonly cost: NanoUsd | null
  /** Default: 0. */
  readonly preference?: number
  readonly sellsBelowCost?: boolean
}

/** One statement writes so many. The JSON of 26,000 machines is 16 MB, and there are several copies of it on its way. */
const MAX_WRITTEN = 1_000

/**
 * Saves the machines that a provider reports, with the health of their GPUs. Price and supplier are taken from the
 * report only for a new machine; afterwards the supplier and the operator set them. A machine that is no longer
 * reported is marked lost, not deleted.
 */
export async function saveInventory(
  tx: Tx,
  driver: ProviderId,
  machines: readonly ReportedMachine[],
  seenAt: Instant,
): Promise<void> {
  tx.wake.add(CAPACITY_WAKE)
  const now = toDate(seenAt)
  const machinesInOrder = machines.toSorted((one, other) => (one.id < other.id ? -1 : 1))
  for (let from = 0; from < machinesInOrder.length; from += MAX_WRITTEN) {
    const rows = machinesInOrder.slice(from, from + MAX_WRITTEN).map(toRow)
    await sql`
      insert into machine (id, driver, cluster_name, region, offering, supplier_id, status, gpu_type, gpu_model,
        gpu_ram_mib, gpu_form_factor, network_type, ethernet_variant, gpus_total, gpus_sick, price_nano_per_gpu_hour,
        has_persistent_storage, hardware, simulation, offer_id, sold_whole,
        cost_nano_per_gpu_hour, preference, sells_below_cost, seen_at, created_at)
      select m.id, ${driver}, m.cluster_name, m.region, m.offering, m.supplier_id,
        -- A host that is not ready yet must not be on sale for a moment (schema/baseline/14_host.sql moves it later).
        coalesce((select machine_status_of(h.state) from host h where h.id = m.id and h.driver = ${driver}), 'node_ready'),
        m.gpu_type, m.gpu_model,
        m.gpu_ram_mib, m.gpu_form_factor, m.network_type, m.ethernet_variant, m.gpus_total,
        array(select jsonb_array_elements_text(m.gpus_sick)::integer), m.price, m.has_persistent_storage, m.hardware, m.simulation,
        m.offer_id, m.sold_whole, m.cost, m.preference, m.sells_below_cost, ${now}, ${now}
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as m (
        id text, cluster_name text, region text, offering text, supplier_id text, gpu_type text, gpu_model text,
        gpu_ram_mib integer, gpu_form_factor text, network_type text, ethernet_variant text, gpus_total integer,
        gpus_sick jsonb, price bigint, has_persistent_storage boolean, hardware jsonb,
        simulation text, offer_id text, sold_whole boolean, cost bigint, preference integer,
        sells_below_cost boolean)
      left join machine known on known.id = m.id
      -- Most machines are as they were. Writing one has a trigger count its free GPUs, for the insert and again for the update.
      where known.id is null or known.driver <> ${driver} or known.status = 'node_lost'
        or known.gpus_total < m.gpus_total or known.gpus_sick is distinct from
          array(select jsonb_array_elements_text(m.gpus_sick)::integer)
            || array(select generate_series(m.gpus_total, known.gpus_total - 1))
        or (known.cluster_name, known.region, known.gpu_model, known.gpu_ram_mib, known.hardware, known.simulation,
            known.has_persistent_storage, known.cost_nano_per_gpu_hour, known.preference, known.sells_below_cost)
          is distinct from (m.cluster_name, m.region, m.gpu_model, m.gpu_ram_mib, m.hardware, m.simulation,
            m.has_persistent_storage, m.cost, m.preference, m.sells_below_cost)
        or (m.offer_id is not null and known.price_nano_per_gpu_hour is distinct from m.price)
      order by m.id
      on conflict (id) do update set
        cluster_name = excluded.cluster_name, region = excluded.region, gpu_model = excluded.gpu_model,
        gpu_ram_mib = excluded.gpu_ram_mib, gpus_total = greatest(excluded.gpus_total, machine.gpus_total),
        -- A machine that has lost GPUs keeps its numbering, so that rentals keep theirs: the lost GPUs count as sick.
        gpus_sick = excluded.gpus_sick || array(select generate_series(excluded.gpus_total, machine.gpus_total - 1)),
        hardware = excluded.hardware, simulation = excluded.simulation,
        -- Cost and price of a unit follow the provider; rented units keep their price.
        cost_nano_per_gpu_hour = excluded.cost_nano_per_gpu_hour, preference = excluded.preference,
        sells_below_cost = excluded.sells_below_cost, price_nano_per_gpu_hour =
          case when excluded.offer_id is null then machine.price_nano_per_gpu_hour else excluded.price_nano_per_gpu_hour end,
        has_persistent_storage = excluded.has_persistent_storage, seen_at = excluded.seen_at,
        status = case when machine.status = 'node_lost' then excluded.status else machine.status end
      where machine.driver = ${driver}`.execute(tx.db)
  }
  const anyReportedId = sql<string>`any (${machines.map((machine) => machine.id)}::text[])`
  await sql`
    with seen as (
      select id from machine where driver = ${driver} and id = ${anyReportedId} and seen_at <> ${now}::timestamptz
      order by id for no key update)
    update machine set seen_at = ${now} from seen where machine.id = seen.id`.execute(tx.db)
  await tx.db
    .updateTable('machine')
    .set({ status: 'node_lost' })
    .where('driver', '=', driver)
    .where('status', '=', 'node_ready')
    .where((e) => e.not(e('id', '=', anyReportedId)))
    .execute()
}

function toRow(machine: ReportedMachine): Record<string, unknown> {
  return {
    id: machine.id,
    cluster_name: machine.clusterName,
    region: machine.region,
    offering: machine.offering,
    supplier_id: machine.supplierId,
    gpu_type: machine.gpuType,
    gpu_model: machine.gpuModel,
    gpu_ram_mib: machine.gpuRamMib,
    gpu_form_factor: machine.gpuFormFactor,
    network_type: machine.networkType,
    ethernet_variant: machine.ethernetVariant,
    gpus_total: machine.gpusTotal,
    gpus_sick: machine.gpusSick,
    price: machine.price === null ? null : machine.price.toString(),
    has_persistent_storage: machine.hasPersistentStorage,
    hardware: machine.hardware,
    simulation: machine.simulation,
    offer_id: machine.offerId,
    sold_whole: machine.soldWhole,
    cost: machine.cost === null ? null : machine.cost.toString(),
    preference: machine.preference ?? 0,
    sells_below_cost: machine.sellsBelowCost ?? false,
  }
}

/** null: the operator, who manages machines of joined hosts like a supplier; those of clouds and clusters have no host. */
export function isOfSupplier(supplierId: string | null) {
  return supplierId === null
    ? sql<boolean>`machine.supplier_id is null
        and exists (select 1 from host where host.id = machine.id and host.supplier_id is null)`
    : sql<boolean>`machine.supplier_id = ${supplierId}`
}

export async function listFleet(
  db: Db,
  query: {
    /** The rule is that of `isOfSupplier`. */
    supplierId?: string | null
    q?: string | undefined
    offering?: Machine['offering'] | undefined
    status?: Machine['status'] | undefined
    after?: string
    limit: number
  },
): Promise<Machine[]> {
  let select = db.selectFrom('machine').selectAll().where(isPresent)
  if (query.q !== undefined) {
    const text = sql`concat_ws(' ', id, cluster_name, region, gpu_model, driver)`
    select = select.where(sql<boolean>`position(lower(${query.q}) in lower(${text})) > 0`)
  }
  if (query.offering !== undefined) select = select.where('offering', '=', query.offering)
  if (query.status !== undefined) select = select.where('status', '=', query.status)
  if (query.supplierId !== undefined) select = select.where(isOfSupplier(query.supplierId))
  if (query.after !== undefined) select = select.where('id', '>', query.after)
  return select.orderBy('id').limit(query.limit).execute()
}

export async function changeMachine(
  tx: Tx,
  id: string,
  change: {
    price?: NanoUsd
    /** null: no interruptible rentals. */
    interruptiblePrice?: NanoUsd | null
    noticeSeconds?: number
    listed?: boolean
    supplierId?: string | null
    status?: Machine['status']
    gpusWithdrawn?: readonly number[]
  },
  /** The machine must belong to this supplier. null: to the operator. Absent: to anyone. */
  owner?: string | null,
): Promise<Machine | undefined> {
  tx.wake.add(CAPACITY_WAKE)
  return tx.db
    .updateTable('machine')
    .set({
      id: sql`id`,
      ...(change.price === undefined ? {} : { price_nano_per_gpu_hour: change.price }),
      ...(change.interruptiblePrice === undefined
        ? {}
        : { interruptible_nano_per_gpu_hour: change.interruptiblePrice }),
      ...(change.noticeSeconds === undefined ? {} : { interruption_notice_s: change.noticeSeconds }),
      ...(change.listed === undefined ? {} : { listed: change.listed }),
      ...(change.supplierId === undefined ? {} : { supplier_id: change.supplierId }),
      ...(change.status === undefined ? {} : { status: change.status }),
      ...(change.gpusWithdrawn === undefined ? {} : { gpus_withdrawn: [...change.gpusWithdrawn] }),
    })
    .where('id', '=', id)
    .$if(owner !== undefined, (query) => query.where('supplier_id', 'is not distinct from', owner ?? null))
    .returningAll()
    .executeTakeFirst()
}

export async function readMachines(db: Db, ids: readonly string[]): Promise<Map<string, Machine>> {
  if (ids.length === 0) return new Map()
  const rows = await db.selectFrom('machine').selectAll().where('id', 'in', ids).execute()
  return new Map(rows.map((row) => [row.id, row]))
}

const orderColumns = [
  'simulation',
  'id',
  'driver',
  'cluster_name',
  'region',
  'offering',
  'status',
  'listed',
  'offer_id',
  'gpu_model',
  'gpu_ram_mib',
  'gpu_type',
  'gpu_form_factor',
  'network_type',
  'gpus_total',
  'gpus_free',
  'price_nano_per_gpu_hour',
  'interruptible_nano_per_gpu_hour',
  'interruption_notice_s',
  'sells_below_cost',
  'hardware',
  'disk_gb_per_gpu',
] as const

/** The facts that orders need of a machine that they name. */
export type OrderedMachine = Pick<Machine, (typeof orderColumns)[number]>

export async function readOrderedMachines(db: Db, ids: readonly string[]): Promise<Map<string, OrderedMachine>> {
  if (ids.length === 0) return new Map()
  const columns = sql.join(orderColumns.map((column) => sql.ref(column)))
  const { rows } = await sql<OrderedMachine>`${prepareAs('ordered_machines')}
    select ${columns} from machine where id = any (${ids}::text[])`.execute(db)
  return new Map(rows.map((row) => [row.id, row]))
}
