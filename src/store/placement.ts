/** Machines as placement looks at them. The claim decides; what is read here may be a moment old. */
import { sql } from 'kysely'
import type { PlacementMachine, Wish } from '../domain/placement.ts'
import type { Db } from './database.ts'

export interface PlaceableMachine extends PlacementMachine {
  /** The same on machines that are made alike, so that one order can be written for any of them. */
  readonly shape: string
}

/** Machines of the kind, place, GPU and network that an order wants, whatever state they are in. */
export async function listPlaceable(
  db: Db,
  wish: Pick<Wish, 'machineType' | 'region' | 'gpuType' | 'networkType'>,
): Promise<PlaceableMachine[]> {
  const rows = await selectMachines(db)
    .select(sql<string>`md5(concat_ws('|', gpu_model, gpu_form_factor, gpus_total, hardware::text))`.as('shape'))
    .where('offering', '=', wish.machineType)
    .where('region', '=', wish.region)
    .where('gpu_type', '=', wish.gpuType)
    .where('network_type', '=', wish.networkType)
    .execute()
  return rows.map((row) => ({ ...machineOf(row), shape: row.shape }))
}

/** All machines, for an operator who asks why an order found none. */
export async function listAllMachines(db: Db, limit: number): Promise<PlacementMachine[]> {
  return (await selectMachines(db).orderBy('id').limit(limit).execute()).map(machineOf)
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
    ])
}

type Row = Awaited<ReturnType<ReturnType<typeof selectMachines>['execute']>>[number]

function machineOf(row: Row): PlacementMachine {
  return {
    machineId: row.id,
    clusterName: row.cluster_name,
    driver: row.driver,
    isSimulated: row.simulation === 'machine',
    offering: row.offering,
    region: row.region,
    gpuType: row.gpu_type,
    networkType: row.network_type,
    status: row.status,
    listed: row.listed,
    gpusTotal: row.gpus_total,
    gpusFree: row.gpus_free,
    gpusClaimed: row.gpus_claimed,
  }
}
