/** Orders all nodes of a group in one transaction: whole machines of one cluster, or nothing. */
import { sumUsd } from '../../base/money.ts'
import { failField, fail, ok, type Result } from '../../contract/result.ts'
import { chooseMachines, networkOf, nodeName, type FreeMachine } from '../../domain/group.ts'
import type { Order } from '../../domain/order.ts'
import { undoOnFailure, type Tx } from '../../store/platform/database.ts'
import { readOrderedMachines } from '../../store/machine/machine.ts'
import { insertNodes, listFreeMachines, type Group } from '../../store/rental/group.ts'
import type { Rental } from '../../store/rental/rental.ts'
import type { App, Payer } from '../app.ts'
import { checkOrder } from '../order/check-order.ts'
import { readNode, siteOf } from '../order/marketplace.ts'
import { placeEveryOrder, type PlaceFailure } from '../order/place-order.ts'
import { readOrder, type OrderDraft } from '../order/read-order.ts'

/** Each failed attempt excludes one machine, which another order took meanwhile or which cannot serve this order. */
const MAX_ATTEMPTS = 64

/** Places the nodes of a locked group. `attempt`: 0 for the order itself, then counted by restarts. */
export async function placeNodes(
  app: App,
  tx: Tx,
  payer: Payer,
  group: Group,
  attempt: number,
): Promise<Result<Rental[]>> {
  const draft = await readOrder(app, tx, payer, 'container', group.spec)
  if (!draft.ok) return draft
  const { gpuModel, clusterName, region } = group.spec
  const where = clusterName === undefined ? 'in any one cluster' : `in the cluster ${clusterName}`
  const gpus = `${group.nodes} whole machines with ${group.gpus_per_node} × ${gpuModel ?? 'any GPU'}`
  let outcome: Result<Rental[]> = fail('no_capacity', { gpus, where })
  const except: string[] = []
  for (let n = 0; n < MAX_ATTEMPTS; n += 1) {
    const drivers = [...app.drivers.values()].flatMap(({ id, traits }) => (traits.groups === true ? [id] : []))
    const free = await listFreeMachines(tx.db, {
      gpus: group.gpus_per_node,
      drivers,
      gpuModel,
      clusterName,
      region,
      except,
    })
    const machines = chooseMachines(free, group.nodes)
    if (machines === undefined) return outcome
    let unfit: string | undefined
    outcome = await undoOnFailure(tx, async () => {
      const placed = await placeOn(app, tx, payer, { group, attempt, draft: draft.value }, machines)
      if ('rentals' in placed) return ok(placed.rentals)
      unfit = placed.index === null ? undefined : machines[placed.index]?.id
      return placed.failure
    })
    if (outcome.ok || unfit === undefined) return outcome
    except.push(unfit)
  }
  return outcome
}

interface Placing {
  readonly group: Group
  readonly attempt: number
  readonly draft: OrderDraft
}

async function placeOn(
  app: App,
  tx: Tx,
  payer: Payer,
  { group, attempt, draft }: Placing,
  machines: readonly FreeMachine[],
): Promise<{ readonly rentals: Rental[] } | PlaceFailure> {
  const now = tx.clock.now()
  const rows = await readOrderedMachines(
    tx.db,
    machines.map(({ id }) => id),
  )
  const orders: Order[] = []
  for (const [index, { id, clusterName }] of machines.entries()) {
    const machine = readNode(app, { nodeName: id, clusterName }, rows.get(id))
    const order = machine.ok ? checkOrder(app, draft, siteOf(draft, machine.value, now), now) : machine
    if (!order.ok) return { failure: order, index: isOfMachine(order.reason) ? index : null }
    const { id: groupId, name, number, nodes } = group
    const network = networkOf(machines)
    const place = { id: groupId, name, number, rank: index, nodes, ...(network === undefined ? {} : { network }) }
    orders.push({ ...order.value, spec: { ...order.value.spec, group: place } })
  }
  const perHour = sumUsd(orders.map(({ term }) => term.costPerHour))
  const max = group.max_nano_per_hour
  if (max !== null && perHour > max)
    return { failure: failField(['maxCostPerHourUsd'], 'price_changed', { perHour, max }), index: null }
  const names = orders.map((_, rank) => nodeName(group.name, rank, attempt))
  const placed = await placeEveryOrder(app, tx, payer, orders, names)
  if (!('rentals' in placed)) return { ...placed, index: isOfMachine(placed.failure.reason) ? placed.index : null }
  await insertNodes(tx, group, attempt, placed.rentals)
  return placed
}

/** Failures that another machine may not have. */
const OF_MACHINE: ReadonlySet<string> = new Set([
  'no_capacity',
  'node_not_ready',
  'node_not_found',
  'disk_too_large',
  'gpu_too_small',
])

function isOfMachine(reason: string | undefined): boolean {
  return reason !== undefined && OF_MACHINE.has(reason)
}
