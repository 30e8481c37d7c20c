/** The marketplace: GPUs of one named machine, at its supplier's price. */
import type { Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { hasDisk } from '../../domain/machine.ts'
import type { InstanceOrder, OrderSummary, OrderTerm } from '../../domain/order.ts'
import { pricePerHour } from '../../domain/term.ts'
import { hasDownloads } from '../../drivers/driver.ts'
import type { Tx } from '../../store/platform/database.ts'
import { listCheapest } from '../../store/machine/listed-machine.ts'
import { readOrderedMachines, type OrderedMachine } from '../../store/machine/machine.ts'
import { findRentalByName, lockRental, type Rental } from '../../store/rental/rental.ts'
import type { Actor, App } from '../app.ts'
import { expandTemplate } from '../account/template.ts'
import { terminateRental } from '../rental/rental.ts'
import { checkOrder, type Site } from './check-order.ts'
import { lockOrderVolumes, refusePlace } from './order-volume.ts'
import { placeAtFirst, placeOrder } from './place-order.ts'
import { readOrder, type OrderDraft } from './read-order.ts'

export async function createInstance(app: App, tx: Tx, actor: Actor, given: InstanceOrder): Promise<Result<Rental>> {
  const expanded = await expandTemplate(tx.db, actor, given)
  if (!expanded.ok) return expanded
  const { order } = expanded.value
  const machines = await readOrderedMachines(tx.db, [order.nodeName])
  const machine = readNode(app, order, machines.get(order.nodeName))
  if (!machine.ok) return machine
  const draft = await readOrder(app, tx, actor, 'container', expanded.value)
  if (!draft.ok) return draft
  const checked = checkOrder(app, draft.value, siteOf(draft.value, machine.value, tx.clock.now()), tx.clock.now())
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

/** A marketplace machine as the place of an order, at its supplier's price. */
export function siteOf(draft: OrderDraft, machine: PricedMachine, now: Instant): Site {
  const { gpuCount } = draft.fields
  const summary = { gpus: `${gpuCount} × ${machine.gpu_model}`, where: `on node ${machine.id}` }
  const places = [{ clusterName: machine.cluster_name, machines: [{ machineId: machine.id, gpus: gpuCount }] }]
  const term: OrderTerm = {
    termType: 'on-demand',
    effectiveAt: now,
    costPerHour: pricePerHour(machine.price_nano_per_gpu_hour, gpuCount),
    reservation: null,
    commitment: null,
    convertOnExpiry: null,
  }
  const { place } = draft.volumes
  const location = { driver: machine.driver, region: machine.region, host: machine.id, cluster: machine.cluster_name }
  const mismatch = place === undefined ? undefined : refusePlace(place, location)
  return { machine, places, term, summary, obstacle: mismatch ?? refuseFull(draft, machine, summary) }
}

/** An early check for the obvious case; claiming the GPUs decides. */
function refuseFull(
  { fields, options }: OrderDraft,
  machine: OrderedMachine,
  summary: OrderSummary,
): Failure | undefined {
  if (machine.gpus_free < fields.gpuCount) return fail('no_capacity', summary)
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
  const cheapest = await listCheapest(tx.db, { gpuModel, gpuCount, limit: MAX_ATTEMPTS, ...at })
  const summary = { gpus: `${gpuCount} × ${gpuModel}`, where }
  if (cheapest.length === 0) return fail('no_capacity', summary)
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
  return placeAtFirst(app, tx, actor, draft.value, sites, summary)
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
