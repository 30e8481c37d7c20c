/** Checks an order against a machine, without a look at the database: the second of three steps. */
import type { Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { formatUsd, type NanoUsd } from '../../base/money.ts'
import { failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { IdleRule } from '../../contract/workload.ts'
import { diskSize, shareOfMachine } from '../../domain/machine.ts'
import type { Order, OrderSpec, OrderSummary, OrderTerm, Place } from '../../domain/order.ts'
import type { RentalSpec, RentalKind } from '../../domain/rental.ts'
import { perGpuHour } from '../../domain/term.ts'
import { portInputOf, portsOf } from '../../domain/workload.ts'
import { canStop } from '../../drivers/driver.ts'
import type { OrderedMachine } from '../../store/machine/machine.ts'
import type { App } from '../app.ts'
import { gpuTooSmall } from '../account/template.ts'
import type { OrderDraft } from './read-order.ts'

/** The port of the image, and custom ones. */
const MAX_CONTAINER_PORTS = limits.customPorts + 1

/** Machines that an order may be placed on, and its price there. */
export interface Site {
  /** One of the machines; the others are alike. */
  readonly machine: OrderedMachine
  readonly places: readonly Place[]
  readonly term: OrderTerm
  readonly summary: OrderSummary
  /** Why this machine cannot have the order although its kind could. */
  readonly obstacle?: Failure | undefined
  /** Absent: the order cannot be interrupted. */
  readonly interruptible?: Order['interruptible']
  /** Absent: the order interrupts nobody. */
  readonly interruption?: Order['interruption']
}

export function checkOrder(
  app: Pick<App, 'drivers'>,
  draft: OrderDraft,
  { machine, places, term, summary, obstacle, interruptible = null, interruption = null }: Site,
  now: Instant,
): Result<Order> {
  const { options, guards, volumes, isUnattended, fields } = draft
  const refusal =
    gpuTooSmall(machine.gpu_ram_mib, draft.minVramGb) ?? refuseIdle(app, machine, options.idle) ?? obstacle
  if (refusal !== undefined) return refusal
  const spec = specFor(app, draft, machine, term)
  if (!spec.ok) return spec
  const { autoTerminateAt, maxCostPerHour: max } = guards
  if (autoTerminateAt !== null && autoTerminateAt <= now) return failField(['autoTerminateAt'], 'time_in_past')
  const { costPerHour: perHour } = term
  if (max !== null && perHour > max) return failField(['maxCostPerHourUsd'], 'price_changed', { perHour, max })
  const ssh = isUnattended ? 'none' : { extraKey: fields.sshKey }
  const { stopAt, idle, secretNames, metadata } = options
  const { mounts } = volumes
  const details = { stopAt, idle, secretNames, metadata, interruptible, interruption }
  return ok({ spec: spec.value, term, guards, places, summary, ssh, mounts, ...details })
}

/** A failure of one machine that says nothing about others. */
const TRY_ELSEWHERE: ReadonlySet<string> = new Set(['disk_too_large', 'idle_not_measured', 'idle_gpus_not_measured'])

export function mayFitElsewhere({ kind, reason }: Failure): boolean {
  return kind === 'no_capacity' || TRY_ELSEWHERE.has(reason)
}

/** The spec of an order for a machine: its share, with the ordered disk instead of that of the GPUs, and all ports. */
function specFor(
  app: Pick<App, 'drivers'>,
  { kind, fields, options, isUnattended }: OrderDraft,
  machine: OrderedMachine,
  { costPerHour }: OrderTerm,
): Result<OrderSpec> {
  const { gpuCount, providerAccount, interruptible } = fields
  const { workload } = options
  const { diskGb } = workload
  // The contract has checked both; kinds without them have refused them.
  const { customPorts = [], cudaVersion = null } = fields as {
    customPorts?: number[]
    cudaVersion?: OrderSpec['cudaVersion']
  }
  const image = kind === 'container' ? (fields.image ?? null) : null
  const part = partOfSpec(machine, { kind, gpuCount, pays: perGpuHour(costPerHour, gpuCount) })
  const { resources } = part
  if (diskGb !== null && diskGb > resources.storageGb) {
    return failField(['diskGb'], 'disk_too_large', { diskGb, maxGb: resources.storageGb })
  }
  // The provider publishes TCP ports by number; those of the interface become options too.
  const numbers = [...customPorts, ...(image?.port === undefined ? [] : [image.port]), ...(image?.ports ?? [])]
  const ports = portsOf([...numbers, ...workload.ports.map(portInputOf)])
  if (kind === 'container' && ports.length > MAX_CONTAINER_PORTS)
    return failField(['ports'], 'too_many_ports', { max: MAX_CONTAINER_PORTS })
  return ok({
    ...part,
    kind,
    region: machine.region,
    gpuType: machine.gpu_type,
    gpuCount,
    networkType: machine.network_type,
    driver: machine.driver,
    label: fields.label ?? null,
    ports: ports.map(({ port }) => port),
    image: image === null ? null : { name: image.name, tag: image.tag ?? null },
    cudaVersion,
    monitoringEnabled: fields.monitoringEnabled ?? null,
    workload: { ...workload, ports },
    // Replicas may download their model to the disk, jobs their data; neither is ever stopped.
    resources: isUnattended && diskGb === null ? resources : withDisk(app, machine, kind, resources, diskGb),
    ...(providerAccount === undefined ? {} : { providerAccount }),
    ...(interruptible === true ? { interruptible } : {}),
  })
}

/** The fields of a spec that depend on the machine. */
export function partOfSpec(
  machine: OrderedMachine,
  { kind, gpuCount, pays }: { readonly kind: RentalKind; readonly gpuCount: number; readonly pays: NanoUsd | null },
): Pick<RentalSpec, 'gpuModel' | 'gpuFormFactor' | 'resources' | 'maxCostUsdPerGpuHour'> {
  const gpusOfNode = kind === 'bare-metal' ? machine.gpus_total : gpuCount
  return {
    gpuModel: machine.gpu_model,
    gpuFormFactor: machine.gpu_form_factor,
    resources: shareOfMachine(machine.hardware, gpusOfNode, machine.gpus_total, machine.disk_gb_per_gpu),
    ...(machine.offer_id === null || pays === null || machine.sells_below_cost
      ? {}
      : { maxCostUsdPerGpuHour: formatUsd(pays) }),
  }
}

/** The share of a machine with the disk that a rental gets there. */
export function withDisk<Share extends RentalSpec['resources']>(
  { drivers }: Pick<App, 'drivers'>,
  { driver, offer_id }: Pick<OrderedMachine, 'driver' | 'offer_id'>,
  kind: RentalKind,
  share: Share,
  diskGb: number | null,
): Share {
  const isKept = offer_id === null && canStop(drivers.get(driver), kind)
  return { ...share, storageGb: diskSize(share.storageGb, diskGb, isKept) }
}

/** A rule that could never act is refused: the customer relies on it. */
export function refuseIdle(
  { drivers }: Pick<App, 'drivers'>,
  { driver, simulation }: Pick<OrderedMachine, 'driver' | 'simulation'>,
  idle: IdleRule | null | undefined,
): Failure | undefined {
  if (!idle) return undefined
  if (drivers.get(driver)?.traits.blindToUse === true) return failField(['idle'], 'idle_not_measured')
  // Simulated GPUs of a real machine have no load. A simulated machine simulates that as well.
  return simulation === 'gpus' ? failField(['idle'], 'idle_gpus_not_measured') : undefined
}
