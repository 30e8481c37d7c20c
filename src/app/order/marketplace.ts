/** The marketplace: GPUs of one named machine, at its supplier's price. */
import type { Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { hasDisk } from '../../domain/machine.ts'
import type { InstanceOrder, OrderInterruption, OrderSummary, OrderTerm } from '../../domain/order.ts'
import { pricePerHour } from '../../domain/term.ts'
import { hasDownloads } from '../../drivers/driver.ts'
import type { Tx } from '../../store/platform/database.ts'
import { listCheapest } from '../../store/machine/listed-machine.ts'
import { readOrderedMachines, type OrderedMachine } from '../../store/machine/machine.ts'
import { listAfterInterruption } from '../../store/rental/interruption.ts'
import { findRentalByName, lockRental, type Rental } from '../../store/rental/rental.ts'
import type { Actor, App } from '../app.ts'
import { expandTemplate } from '../account/template.ts'
import { terminateRental } from '../rental/rental.ts'
import { checkOrder, type Site } from './check-order.ts'
import { planInterruption } from './interruption.ts'
import { lockOrderVolumes, refusePlace } from './order-volume.ts'
import { placeAtFirst, placeOrder } from './place-order.ts'
import { readOrder, type OrderDraft } from './read-order.ts'

export async function createInstance(
  app: App,
  tx: Tx,
  actor: Actor,
  instanceOrder: InstanceOrder,
): Promise<Result<Rental>> {
  const expanded = await expandTemplate(tx.db, actor, instanceOrder)
  if (!expanded.ok) return expanded
  const { order } = expanded.value
  const machines = await readOrderedMachines(tx.db, [order.nodeName])
  const machine = readNode(app, order, machines.get(order.nodeName))
  if (!machine.ok) return machine
  const draft = await readOrder(app, tx, actor, 'container', expanded.value)
  if (!draft.ok) return draft
  const plan = await planInterruption(tx, order, machine.value)
  const site = siteOf(draft.value, machine.value, tx.clock.now(), plan)
  const checked = checkOrder(app, draft.value, site, tx.clock.now())
  return checked.ok ? placeOrder(app, tx, actor, checked.value) : checked
}

/** A machine that is on the marketplace, with its price. */
export type PricedMachine = OrderedMachine & { readonly price_nano_per_gpu_hour: NanoUsd }

/** The machine that an order names, if it is for sale. */
export function readNode(
  app: Pick<App, 'drivers'>,
  order: Pick<InstanceOrder, 'nodeName' | 'clusterName' | 'weights'>,
  machine: OrderedMachine | undefined,
): Result<PricedMachine> {
  if (machine === undefined || machine.offering !== 'marketplace' || machine.cluster_name !== order.clusterName) {
    return fail('node_not_found', { node: order.nodeName, cluster: order.clusterName, field: ['node_name'] })
  }
  const { price_nano_per_gpu_hour: price } = machine
  if (machine.status !== 'node_ready' || !machine.listed || price === null) {
    return failField(['node_name'], 'node_not_ready', { node: machine.id })
  }
  if (order.weights !== undefined && !hasDownloads(app.drivers.get(machine.driver), machine.cluster_name)) {
    return failField(['weights'], 'option_not_supported', { option: 'weights', kind: 'container' })
  }
  return ok({ ...machine, price_nano_per_gpu_hour: price })
}

/**
 * A marketplace machine as the place of an order, at its supplier's price. `plan`: the rentals that could give the order
 * the GPUs that the machine lacks; if the order agrees to wait for them, they are locked.
 */
export function siteOf(draft: OrderDraft, machine: PricedMachine, now: Instant, plan?: OrderInterruption): Site {
  const { gpuCount, interruptible: isInterruptible = false, afterInterruption: after = 'start' } = draft.fields
  const { maxWaitSeconds = 0 } = draft.fields
  const interruption = plan !== undefined && plan.waitSeconds <= maxWaitSeconds ? plan : null
  const summary = {
    gpus: `${gpuCount} × ${machine.gpu_model}`,
    where: `on node ${machine.id}`,
    ...(plan === undefined ? {} : { waitSeconds: plan.waitSeconds }),
  }
  // The free GPUs are claimed with the order, and the others are promised to it.
  const gpus = interruption === null ? gpuCount : machine.gpus_free
  const places = [{ clusterName: machine.cluster_name, machines: [{ machineId: machine.id, gpus }] }]
  const price = isInterruptible ? machine.interruptible_nano_per_gpu_hour : machine.price_nano_per_gpu_hour
  const term: OrderTerm = {
    termType: 'on-demand',
    effectiveAt: now,
    costPerHour: pricePerHour(price ?? machine.price_nano_per_gpu_hour, gpuCount),
    reservation: null,
    commitment: null,
    convertOnExpiry: null,
  }
  const { place } = draft.volumes
  const location = { driver: machine.driver, region: machine.region, host: machine.id, cluster: machine.cluster_name }
  const mismatch = place === undefined ? undefined : refusePlace(place, location)
  const isSold = price !== null
  const notSold = isSold ? undefined : failField(['interruptible'], 'not_interruptible', { machine: machine.id })
  const obstacle = mismatch ?? notSold ?? refuseFull(draft, machine, summary, interruption !== null)
  const interruptible = isInterruptible ? { noticeSeconds: machine.interruption_notice_s, after } : null
  return { machine, places, term, summary, obstacle, interruptible, interruption }
}

/** An early check for the obvious case; claiming the GPUs decides. */
function refuseFull(
  { fields, options }: OrderDraft,
  machine: OrderedMachine,
  summary: OrderSummary,
  interrupts: boolean,
): Failure | undefined {
  if (machine.gpus_free < fields.gpuCount && !interrupts) return fail('no_capacity', summary)
  // A disk that the order names is compared with the share of its GPUs.
  if (options.workload.diskGb !== null) return undefined
  const whole = { storageGb: machine.hardware.storageGb, gpusTotal: machine.gpus_total }
  if (hasDisk(machine.disk_gb_per_gpu, fields.gpuCount, whole, null)) return undefined
  return fail('no_capacity', { ...summary, where: `${summary.where}, where stopped rentals use the disk space,` })
}

/** A machine fails only if a concurrent order takes its free GPUs. */
const MAX_ATTEMPTS = 16

export interface CheapestOrder extends Omit<InstanceOrder, 'clusterName' | 'nodeName'> {
  readonly gpuModel: string
}

export async function createCheapestInstance(
  app: App,
  tx: Tx,
  actor: Actor,
  order: CheapestOrder,
): Promise<Result<Rental>> {
  const { gpuModel, gpuCount } = order
  const volumes = await lockOrderVolumes(app, tx, actor, 'container', order.volumes ?? [])
  if (!volumes.ok) return volumes
  const { place: only } = volumes.value
  const where = only?.host === undefined ? 'on the marketplace' : `on ${only.host}, which has the storage volume,`
  // A host or cluster outside of the regions for storage has volumes at the price of any of them.
  const at = only?.host === undefined && only?.cluster === undefined ? only : { ...only, region: undefined }
  const isInterruptible = order.interruptible === true
  const cheapest = await listCheapest(tx.db, {
    gpuLike: gpuModel,
    gpuCount,
    limit: MAX_ATTEMPTS,
    isInterruptible,
    ...at,
  })
  const summary = { gpus: `${gpuCount} × ${gpuModel}`, where }
  // A volume binds the order to one place, where an order that names the machine can interrupt.
  const isFree = !isInterruptible && only === undefined
  const full = isFree ? await listAfterInterruption(tx.db, { gpuLike: gpuModel, gpuCount, limit: MAX_ATTEMPTS }) : []
  if (cheapest.length === 0 && full.length === 0) return fail('no_capacity', summary)
  const expanded = await expandTemplate(tx.db, actor, order)
  if (!expanded.ok) return expanded
  const draft = await readOrder(app, tx, actor, 'container', expanded.value)
  if (!draft.ok) return draft
  const ids = cheapest.map(({ id }) => id)
  const machines = await readOrderedMachines(tx.db, ids)
  const sites = cheapest.map(({ id, cluster_name: clusterName }) => {
    const machine = readNode(app, { nodeName: id, clusterName, weights: order.weights }, machines.get(id))
    return machine.ok ? ok(siteOf(draft.value, machine.value, tx.clock.now())) : machine
  })
  const placed = await placeAtFirst(app, tx, actor, draft.value, sites, summary)
  if (placed.ok || placed.reason !== 'no_capacity') return placed
  return placeAfterInterruption(app, tx, actor, { draft: draft.value, order, machineIds: full, otherwise: placed })
}

/** Places an order that found no free GPUs on the cheapest machine where others can be interrupted. */
async function placeAfterInterruption(
  app: App,
  tx: Tx,
  actor: Actor,
  want: {
    readonly draft: OrderDraft
    readonly order: CheapestOrder
    readonly machineIds: readonly string[]
    readonly otherwise: Failure
  },
): Promise<Result<Rental>> {
  const { draft, order, machineIds } = want
  let outcome: Result<Rental> = want.otherwise
  const machines = await readOrderedMachines(tx.db, machineIds)
  for (const id of machineIds) {
    const existingMachine = machines.get(id)
    const fields = { nodeName: id, clusterName: existingMachine?.cluster_name ?? '', weights: order.weights }
    const machine = readNode(app, fields, existingMachine)
    const plan = machine.ok ? await planInterruption(tx, draft.fields, machine.value) : undefined
    if (!machine.ok || plan === undefined) continue
    const site = ok(siteOf(draft, machine.value, tx.clock.now(), plan))
    outcome = await placeAtFirst(app, tx, actor, draft, [site], site.value.summary)
    if (outcome.ok || outcome.reason !== 'no_capacity') return outcome
  }
  return outcome
}

/** Terminates an instance; `id` is its name. Terminating an ended instance succeeds. */
export async function terminateInstance(tx: Tx, actor: Actor, id: string): Promise<Result<Rental>> {
  const row = await findRentalByName(tx.db, id)
  const rental = row === undefined ? undefined : await lockRental(tx, row.id)
  if (rental === undefined || rental.account_id !== actor.accountId || rental.kind !== 'container') {
    return fail('instance_not_found', { id })
  }
  return ok(await terminateRental(tx, rental, 'customer_request', tx.clock.now()))
}
