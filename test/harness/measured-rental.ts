/** A rental on a host without an agent, for tests that report its metrics themselves. */
import { toDate } from '../../src/base/instant.ts'
import type { App } from '../../src/app/app.ts'
import { rentalTag } from '../../src/app/rental/rental.ts'
import type { HostMetrics, WorkloadMetrics } from '../../src/contract/agent.ts'
import { sampleSpec } from '../../src/drivers/conformance-bench.ts'
import { findRental, type Rental } from '../../src/store/rental/rental.ts'
import { insertHost, insertHostRental } from './host-sockets.ts'

export interface MeasuredRental {
  readonly rental: Rental
  readonly hostId: string
  readonly workloadId: string
}

export async function insertMeasuredRental(
  app: App,
  accountId: string,
  hostId: string,
  gpuIndexes: readonly number[] = [0],
): Promise<MeasuredRental> {
  const { db } = app.database
  const now = toDate(app.clock.now())
  const owner = await db
    .selectFrom('api_key')
    .select(['person_id as personId', 'public_id as keyId'])
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  if ((await db.selectFrom('host').select('id').where('id', '=', hostId).executeTakeFirst()) === undefined) {
    await insertHost(app, hostId)
  }
  const id = await insertHostRental(app, { accountId, ...owner }, { hostId })
  const workloadId = `w${id}`
  await db.updateTable('rental').set({ external_id: workloadId }).where('id', '=', id).execute()
  const rental = await findRental(db, id)
  if (rental === undefined) throw new Error('the rental was not inserted')
  const spec = sampleSpec({ kind: 'container', nodes: [{ machineId: hostId, gpuIndexes }] })
  const tag = rentalTag(app, rental)
  await db
    .insertInto('workload')
    .values({ id: workloadId, driver: 'host', tag, spec: JSON.stringify(spec), created_at: now })
    .execute()
  await db
    .insertInto('workload_node')
    .values({ workload_id: workloadId, host_id: hostId, node_index: 0, gpu_indexes: [...gpuIndexes], generation: 0n })
    .execute()
  return { rental, hostId, workloadId }
}

export function workloadUse(id: string, change: Partial<WorkloadMetrics> = {}): WorkloadMetrics {
  return {
    id,
    cpuPercent: 50,
    memoryUsedMib: 1_024,
    memoryTotalMib: 8_192,
    diskUsedMib: 2_048,
    networkRxBytesPerSecond: 1_000,
    networkTxBytesPerSecond: 100,
    active: [],
    quietSeconds: 3_600,
    ...change,
  }
}

/** One host's message: the utilization of its GPUs by index, and the use of its workloads. */
export function hostUse(utilization: ReadonlyArray<number | null>, workloads: WorkloadMetrics[]): HostMetrics {
  return {
    type: 'metrics',
    gpus: utilization.map((utilizationPercent, index) => ({
      index,
      utilizationPercent,
      memoryUsedMib: 1_600,
      memoryTotalMib: 24_564,
      powerWatts: 123.4,
      temperatureCelsius: 40,
    })),
    cpuPercent: 12,
    memoryUsedGb: 4,
    diskFreeGb: 100,
    workloads,
  }
}
