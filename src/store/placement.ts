/** Machines for placement. Rows may be slightly stale; claiming the GPUs decides. */
import { sql } from 'kysely'
import type { Instant } from '../base/instant.ts'
import { originOf, type PlacementMachine, type Demand } from '../domain/placement.ts'
import type { Db } from './database.ts'
import { isPresent } from './machine.ts'
import { readOfferHistory } from './offer-outcome.ts'

export interface PlaceableMachine extends PlacementMachine {
  /** Equal for machines of the same hardware, so that one spec fits all of them. */
  readonly shape: string
}

/** Machines of the kind, region, GPU and network of an order, in any state. */
export async function listPlaceable(
  db: Db,
  demand: Pick<Demand, 'machineType' | 'region' | 'gpuType' | 'networkType'>,
): Promise<PlaceableMachine[]> {
  const rows = await selectMachines(db)
    .select(
      sql<string>`md5(concat_ws('|', gpu_model, gpu_form_factor, gpus_total, disk_gb_per_gpu, hardware::text))`.as(
        'shape',
      ),
    )
    .where('offering', '=', demand.machineType)
    .where('region', '=', demand.region)
    .where('gpu_type', '=', demand.gpuType)
    .where('network_type', '=', demand.networkType)
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

/** All machines, for the operator's placement report. */
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
