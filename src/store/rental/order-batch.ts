/** Orders that are written together, by one call of `place_orders` (schema/baseline/18_order.sql). */
import { randomInt } from 'node:crypto'
import { sql } from 'kysely'
import { randomName } from '../../base/id.ts'
import { formatInstantOrNull, toDate } from '../../base/instant.ts'
import { defaultQuota } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import { holdOf, type Order } from '../../domain/order.ts'
import { errorCode, prepareAs, type Tx } from '../platform/database.ts'

export interface BatchedOrder {
  readonly actor: { readonly accountId: string; readonly personId: string; readonly keyId: string }
  /** On demand, for GPUs of one machine. */
  readonly order: Order
  /** Per GPU-hour. */
  readonly price: NanoUsd
  readonly needsSshKey: boolean
}

export interface PlacedOrder {
  readonly id: number
  readonly name: string
}

/** By their position. Those that are missing were not placed, and nothing of them was written. */
export async function placeOrders(tx: Tx, orders: readonly BatchedOrder[]): Promise<Map<number, PlacedOrder>> {
  const rows = JSON.stringify(rowsOf(orders))
  const placed = await sql<{ n: number; rental_id: number; name: string }>`${prepareAs('place_orders')}
    select n, rental_id, name from place_orders(${rows}::jsonb, ${toDate(tx.clock.now())})`.execute(tx.db)
  return new Map(placed.rows.map(({ n, rental_id, name }) => [n, { id: rental_id, name }]))
}

function rowsOf(orders: readonly BatchedOrder[]): object[] {
  const names = new Set<string>()
  return orders.map((order, n) => {
    let name = randomName()
    while (names.has(name)) name = randomName()
    names.add(name)
    return rowOf(order, n, name)
  })
}

function rowOf({ actor, order, price, needsSshKey }: BatchedOrder, n: number, name: string): object {
  const { driver, monitoringEnabled, ...spec } = order.spec
  const [place] = order.places
  const [machine] = place?.machines ?? []
  if (place === undefined || machine === undefined) throw new Error('an order in a batch names no machine')
  return {
    n,
    account_id: actor.accountId,
    person_id: actor.personId,
    api_key_id: actor.keyId,
    machine_id: machine.machineId,
    cluster_name: place.clusterName,
    driver,
    region: spec.region,
    gpu_type: spec.gpuType,
    network_type: spec.networkType,
    gpus: machine.gpus,
    price_nano: price.toString(),
    cost_nano_per_hour: order.term.costPerHour.toString(),
    hold_nano: holdOf(order.term).toString(),
    disk_gb: spec.resources.storageGb,
    default_gpu_quota: defaultQuota.gpus,
    needs_ssh_key: needsSshKey,
    // Names are never reused; once many are taken, a number keeps them unique.
    names: [name, `${randomName()}-${String(randomInt(10 ** 9)).padStart(9, '0')}`],
    label: spec.label,
    spec: { ...spec, monitoringEnabled: monitoringEnabled ?? false },
    auto_terminate_at: formatInstantOrNull(order.guards.autoTerminateAt),
    spending_limit_nano: order.guards.spendingLimit?.toString() ?? null,
  }
}

const RAISED = 'P0001'
const INTEGRITY = '23'

/** Whether a batch failed because of its rows: nothing of it was committed, and each order may be placed alone. */
export function isBadBatch(error: unknown): boolean {
  const code = errorCode(error)
  return code !== undefined && (code === RAISED || (code.startsWith(INTEGRITY) && code.length === 5))
}
