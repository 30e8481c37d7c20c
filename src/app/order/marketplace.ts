/** The marketplace: GPUs of one named machine, at its supplier's price. */
import type { Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { hasDisk } from '../../domain/machine.ts'
import type { InstanceOrder, Order, OrderSpec, OrderTerm } from '../../domain/order.ts'
import { pricePerHour } from '../../domain/term.ts'
import { hasDownloads } from '../../drivers/driver.ts'
import { undoOnFailure, type Db, type Tx } from '../../store/platform/database.ts'
import { listCheapest } from '../../store/machine/listed-machine.ts'
import { readOrderedMachines, type OrderedMachine } from '../../store/machine/machine.ts'
import { findRentalByName, lockRental, type Rental } from '../../store/rental/rental.ts'
import type { Actor, App } from '../app.ts'
import { readGuards } from './order.ts'
import { partOfSpec } from './place.ts'
import { changeRental, findAnyRental, type RentalChange } from '../rental/own-rental.ts'
import { keepOptions, readOrderOptions, refuseIdle, withOptions, type ReadOptions } from './order-options.ts'
import { attachOrdered, lockOrderVolumes, refusePlace } from './order-volume.ts'
import { expandTemplate, gpuTooSmall } from '../account/template.ts'
import { placeOrder } from './place-order.ts'
import { terminateRental } from '../rental/rental.ts'

/** The port of the image, and custom ones. */
const MAX_PORTS = limits.customPorts + 1

export async function createInstance(app: App, tx: Tx, actor: Actor, given: InstanceOrder): Promise<Result<Rental>> {
  const expanded = await expandTemplate(tx.db, actor, given)
  if (!expanded.ok) return expanded
  const { order, templateId, minVramGb } = expanded.value
  const machines = await readOrderedMachines(tx.db, [order.nodeName])
  const found = readNode(app, order, machines.get(order.nodeName))
  if (!found.ok) return found
  const machine = found.value
  const options = await readOrderOptions(tx, actor, 'container', order, templateId)
  if (!options.ok) return options
  const tooSmall = gpuTooSmall(machine.gpu_ram_mib, minVramGb)
  if (tooSmall !== undefined) return tooSmall
  const volumes = await lockOrderVolumes(app, tx, actor, 'container', options.value.workload.volumes)
  if (!volumes.ok) return volumes
  const { place } = volumes.value
  const here = { driver: machine.driver, region: machine.region, host: machine.id, cluster: machine.cluster_name }
  const apart = place === undefined ? undefined : refusePlace(place, here)
  if (apart !== undefined) return apart
  const plan = planInstance(app, order, machine, options.value, tx.clock.now())
  if (!plan.ok) return plan
  const placed = await placeOrder(app, tx, actor, plan.value.order, plan.value.wanted)
  if (!placed.ok) return placed
  await attachOrdered(tx, placed.value, volumes.value)
  return ok(await keepOptions(tx, placed.value, options.value))
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

/** The order for a machine. Its account has not been looked at yet. */
export function planInstance(
  app: Pick<App, 'drivers'>,
  order: InstanceOrder,
  machine: PricedMachine,
  options: ReadOptions,
  now: Instant,
): Result<{ readonly order: Order; readonly wanted: { readonly gpus: string; readonly where: string } }> {
  const unwatched = refuseIdle(app, machine, options.idle)
  if (unwatched !== undefined) return unwatched
  const guards = readGuards(order)
  if (!guards.ok) return guards
  const wanted = { gpus: `${order.gpuCount} × ${machine.gpu_model}`, where: `on node ${machine.id}` }
  // An early check for the obvious case; claiming the GPUs decides.
  if (machine.gpus_free < order.gpuCount) return fail('no_capacity', wanted)
  const { gpuCount } = order
  const { port, ports: imagePorts = [] } = order.image ?? {}
  const pays = machine.price_nano_per_gpu_hour
  const isManaged = order.isManaged === true
  const spec = withOptions<OrderSpec>(
    app,
    machine,
    {
      kind: 'container',
      region: machine.region,
      gpuType: machine.gpu_type,
      gpuCount,
      networkType: machine.network_type,
      label: order.label ?? null,
      driver: machine.driver,
      ...partOfSpec(machine, { machineType: 'virtual-machine', gpuCount, pays }),
      ports: [...new Set([...(port === undefined ? [] : [port]), ...imagePorts])],
      image: order.image === null ? null : { name: order.image.name, tag: order.image.tag ?? null },
      cudaVersion: null,
      monitoringEnabled: null,
    },
    { ...options, isManaged },
  )
  if (!spec.ok) return spec
  const whole = { storageGb: machine.hardware.storageGb, gpusTotal: machine.gpus_total }
  if (!hasDisk(machine.disk_gb_per_gpu, gpuCount, whole, options.workload.diskGb)) {
    return fail('no_capacity', { ...wanted, where: `${wanted.where}, where stopped rentals use the disk space,` })
  }
  if (spec.value.ports.length > MAX_PORTS) return failField(['ports'], 'too_many_ports', { max: MAX_PORTS })
  const term: OrderTerm = {
    termType: 'on-demand',
    effectiveAt: now,
    costPerHour: pricePerHour(pays, gpuCount),
    reservation: null,
    commitment: null,
    convertOnExpiry: null,
  }
  const places = [{ clusterName: machine.cluster_name, machines: [{ machineId: machine.id, gpus: gpuCount }] }]
  return ok({
    order: { spec: spec.value, term, guards: guards.value, places, isManaged, sshKey: order.sshKey },
    wanted,
  })
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
  let outcome: Result<Rental> = fail('no_capacity', { gpus: `${gpuCount} × ${gpuModel}`, where })
  for (const machine of await listCheapest(tx.db, { gpuModel, gpuCount, limit: MAX_ATTEMPTS, ...at })) {
    outcome = await undoOnFailure(tx, () =>
      createInstance(app, tx, actor, {
        ...order,
        clusterName: machine.cluster_name,
        nodeName: machine.id,
      }),
    )
    // Another machine may have a larger disk.
    if (outcome.ok || (outcome.kind !== 'no_capacity' && outcome.reason !== 'disk_too_large')) return outcome
  }
  return outcome
}

/** The caller's own instance in any state, by name or rental id. */
export async function findInstance(db: Db, actor: Actor, idOrName: string): Promise<Result<Rental>> {
  const rental = await findAnyRental(db, actor, idOrName)
  return rental.ok && rental.value.kind === 'container' ? rental : noInstance(idOrName)
}

/** By name or rental id. */
export async function changeInstance(
  app: Pick<App, 'drivers'>,
  tx: Tx,
  actor: Actor,
  idOrName: string,
  change: RentalChange,
): Promise<Result<Rental>> {
  const found = await findInstance(tx.db, actor, idOrName)
  if (!found.ok) return found
  const rental = await lockRental(tx, found.value.id)
  return rental === undefined ? noInstance(idOrName) : changeRental(app, tx, rental, change)
}

/** By name. Terminating an ended instance succeeds. */
export async function terminateInstance(tx: Tx, actor: Actor, id: string): Promise<Result<Rental>> {
  const found = await findRentalByName(tx.db, id)
  const rental = found === undefined ? undefined : await lockRental(tx, found.id)
  if (rental === undefined || rental.account_id !== actor.accountId || rental.kind !== 'container') {
    return noInstance(id)
  }
  return ok(await terminateRental(tx, rental, 'customer_request', tx.clock.now()))
}

function noInstance(id: string): Failure {
  return fail('instance_not_found', { id })
}
