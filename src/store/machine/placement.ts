/** Machines for placement. Rows may be slightly stale; claiming the GPUs decides. */
import { sql, type RawBuilder } from 'kysely'
import type { Instant } from '../../base/instant.ts'
import { MAX_INT32 } from '../../base/limits.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import { MIN_DISK_GB } from '../../domain/machine.ts'
import { originOf, type PlacementMachine, type Demand } from '../../domain/placement.ts'
import type { Db } from '../platform/database.ts'
import { isPresent } from './machine.ts'
import { readOfferHistory } from './offer-outcome.ts'

export interface PlaceableMachine extends PlacementMachine {
  /** Equal for machines of the same hardware, so that one spec fits all of them. */
  readonly shape: string
}

/** An order must go to a machine within these bounds. */
export interface Bounds {
  /** The provider, and the host if they are on its disk, of its volumes. */
  readonly volumes?: { readonly driver: ProviderId; readonly host?: string | undefined } | undefined
  /** The operator's account at another cloud. */
  readonly account?: string | undefined
  /** Machines and offers whose provider had no capacity. */
  readonly refusedBy?: readonly string[]
}

/**
 * The maximum of machines read per driver, not counting units of offers: as many as orders that arrive together may
 * take.
 */
const MAX_OWN = 32
/** The maximum of units read over all offers, the first of each before any second. */
const MAX_UNITS = 512
/** The maximum of whole machines read over all clusters. */
const MAX_WHOLE = 4_096

/**
 * Machines with room for an order, the fullest of each provider and offer. Full machines are not read: with thousands
 * of machines, most are.
 */
export async function listPlaceable(
  db: Db,
  demand: Demand,
  drivers: readonly ProviderId[],
  bounds: Bounds,
): Promise<PlaceableMachine[]> {
  if (demand.gpuCount > MAX_INT32) return []
  const where = matches(demand, bounds)
  const ids =
    demand.machineType === 'bare-metal'
      ? sql`select m.id from machine m where ${where} and m.driver = any (${drivers}) and m.gpus_free = m.gpus_total
            order by m.cluster_name, m.id limit ${MAX_WHOLE}`
      : sql`
        select m.id from unnest(${drivers}::text[]) as provider (id) cross join lateral (
          select m.id from machine m
          where ${where} and m.driver = provider.id and m.offer_id is null and ${hasRoom(demand)}
          order by m.gpus_free, m.id limit ${MAX_OWN}) m
        union all
        (select unit.id from (
           select m.id, row_number() over (partition by m.driver, m.offer_id order by m.gpus_free, m.id) as rank
           from machine m
           where ${where} and m.driver = any (${drivers}) and m.offer_id is not null and ${hasRoom(demand)}) unit
         order by unit.rank limit ${MAX_UNITS})`
  const machines = await readPlaceable(db, ids)
  return bounds.account === undefined ? machines : machines.map((machine) => ({ ...machine, asking: null }))
}

/**
 * Finds a machine that would fit if it were free. The order is then checked further, and may be refused for a more
 * important reason than a lack of GPUs.
 */
export async function findFull(
  db: Db,
  demand: Demand,
  drivers: readonly ProviderId[],
  bounds: Bounds,
): Promise<PlaceableMachine | undefined> {
  if (demand.gpuCount > MAX_INT32) return undefined
  const where = matches(demand, bounds)
  const id = sql`select m.id from machine m where ${where} and m.driver = any (${drivers}) order by m.id limit 1`
  return (await readPlaceable(db, id))[0]
}

/** The rules are those of `rejectionOf` of domain/placement.ts, which has the last word, except for what is free. */
function matches(demand: Demand, { volumes, account, refusedBy = [] }: Bounds) {
  const { machineType, region, gpuType, networkType, gpuCount, machineGpus, pays } = demand
  const size =
    machineType === 'bare-metal'
      ? sql`${gpuCount}::integer % m.gpus_total = 0 and m.gpus_total = coalesce(${machineGpus}::integer, m.gpus_total)`
      : sql`m.gpus_total >= ${gpuCount} and (m.gpus_total = ${gpuCount} or not m.sold_whole)`
  return sql<boolean>`
    m.offering = ${machineType} and m.region = ${region} and m.gpu_type = ${gpuType} and m.network_type = ${networkType}
    and m.offering <> 'marketplace' and m.status = 'node_ready' and m.listed and ${size}
    and (m.cost_nano_per_gpu_hour is null or m.sells_below_cost
         or m.cost_nano_per_gpu_hour <= coalesce(${pays}::bigint, m.cost_nano_per_gpu_hour))
    -- An operator who names the account takes its offers at the price book.
    ${account === undefined ? sql`and m.asking_nano_per_gpu_hour is null` : sql``}
    and coalesce(m.offer_id, m.id) <> all (${refusedBy})
    ${volumes === undefined ? sql`` : sql`and m.driver = ${volumes.driver}`}
    ${volumes?.host === undefined ? sql`` : sql`and m.id = ${volumes.host}`}
    -- As the offers of clouds are named (drivers/clouds/offer.ts).
    ${account === undefined ? sql`` : sql`and split_part(m.offer_id, ':', 2) = ${account}`}`
}

/** The rule is that of `hasDisk` of domain/machine.ts. */
function hasRoom({ gpuCount, diskGb }: Demand) {
  return sql<boolean>`m.gpus_free >= ${gpuCount} and floor(m.disk_gb_per_gpu * ${gpuCount})
    >= coalesce(${diskGb}::double precision, least(${MIN_DISK_GB},
      floor((m.hardware ->> 'storageGb')::double precision * ${gpuCount} / m.gpus_total / 2)))`
}

async function readPlaceable(db: Db, ids: RawBuilder<unknown>): Promise<PlaceableMachine[]> {
  const rows = await selectMachines(db)
    .select(
      sql<string>`md5(concat_ws('|', gpu_model, gpu_form_factor, gpus_total, disk_gb_per_gpu, hardware::text))`.as(
        'shape',
      ),
    )
    .where(sql<boolean>`id = any (array(${ids}))`)
    .execute()
  return rows.map((row) => ({ ...machineOf(row), shape: row.shape }))
}

/** Adds the history of offers since an instant. */
export async function withHistory<T extends PlacementMachine>(
  db: Db,
  machines: readonly T[],
  since: Instant,
): Promise<T[]> {
  if (machines.every(({ offerId }) => offerId === null)) return [...machines]
  const history = await readOfferHistory(db, since)
  return machines.map((machine) => ({ ...machine, history: history.get(originOf(machine)) ?? null }))
}

/** Lists all machines, for the operator's placement report. */
export async function listAllMachines(db: Db, limit: number): Promise<PlacementMachine[]> {
  return (await selectMachines(db).where(isPresent).orderBy('id').limit(limit).execute()).map(machineOf)
}

function selectMachines(db: Db) {
  return db
    .selectFrom('machine')
    .select([
      'id',
      'cluster_name',
      'driver',
      'offering',
      'region',
      'gpu_type',
      'network_type',
      'status',
      'listed',
      'gpus_total',
      'gpus_free',
      'gpus_claimed',
      'simulation',
      'offer_id',
      'sold_whole',
      'cost_nano_per_gpu_hour',
      'preference',
      'sells_below_cost',
      'asking_nano_per_gpu_hour',
      'disk_gb_per_gpu',
    ])
    .select(sql<number>`(hardware ->> 'storageGb')::double precision`.as('storage_gb'))
}

type Row = Awaited<ReturnType<ReturnType<typeof selectMachines>['execute']>>[number]

function machineOf(row: Row): PlacementMachine {
  return {
    machineId: row.id,
    clusterName: row.cluster_name,
    driver: row.driver,
    isSimulated: row.simulation === 'machine',
    offerId: row.offer_id,
    soldWhole: row.sold_whole,
    cost: row.cost_nano_per_gpu_hour,
    preference: row.preference,
    history: null,
    sellsBelowCost: row.sells_below_cost,
    asking: row.asking_nano_per_gpu_hour,
    offering: row.offering,
    region: row.region,
    gpuType: row.gpu_type,
    networkType: row.network_type,
    status: row.status,
    listed: row.listed,
    gpusTotal: row.gpus_total,
    gpusFree: row.gpus_free,
    gpusClaimed: row.gpus_claimed,
    storageGb: row.storage_gb,
    diskGbPerGpu: row.disk_gb_per_gpu,
  }
}
