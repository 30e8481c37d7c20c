/** Rentals as the API shows them. */
import { limits } from '../../base/limits.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { REBOOTING } from '../../contract/agent.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import type { EventRecord } from '../../contract/event.ts'
import type { PortRecord } from '../../contract/port.ts'
import { providerData, type ProviderData, type ProviderId } from '../../contract/provider-data.ts'
import type { Region } from '../../contract/region.ts'
import type { RentalType } from '../../contract/rental.ts'
import type { RentalState } from '../../contract/rental-state.ts'
import type { Simulation } from '../../contract/shared.ts'
import { idleRule } from '../../contract/workload.ts'
import type { App } from '../../app/app.ts'
import { rentalTag } from '../../app/rental/rental.ts'
import type { EarlyEndRate, Ending } from '../../domain/commitment.ts'
import { isComingUp, isReachable, wholeOf, wireStatus, type RentalSpec } from '../../domain/rental.ts'
import { emptyWorkload } from '../../domain/workload.ts'
import type { Term } from '../../domain/term.ts'
import { allHealthy, openPortsOf, portsOfSpec, type WorkloadPort } from '../../domain/workload.ts'
import type { Person } from '../../store/account/account.ts'
import type { RentalCommitment } from '../../store/ledger/commitment.ts'
import type { Machine } from '../../store/machine/machine.ts'
import type { ClaimedGpu } from '../../store/machine/gpu-fault.ts'
import type { Rental } from '../../store/rental/rental.ts'
import { withDefaults } from '../../store/platform/stored-json.ts'
import type { AttachedVolume, Volume } from '../../store/volume/volume.ts'
import { shareOf } from '../../app/rental/rental-power.ts'
import { cpuOnlyFields, stateFields, stoppedCost } from './rental-state.ts'

export function rentalRecord(app: App, rental: Rental): ResponseOf<Api['createBareMetalRental']> {
  return {
    id: rental.id,
    createdAt: rental.created_at,
    updatedAt: rental.updated_at,
    deletedAt: rental.terminated_at,
    userId: rental.person_id,
    orgId: rental.account_id,
    startedAt: rental.started_at,
    terminatedAt: rental.terminated_at,
    // The tag at the provider; the provider's own id is in providerData.
    externalId: rentalTag(app, rental),
    rentalId: rental.id,
    providerData: rental.provider_data ?? pendingProviderData(rental.driver, rental.spec),
    rentalType: rental.kind as RentalType,
    name: rental.name,
    label: rental.label,
    region: rental.region as Region,
    convertToOnDemandOnExpiry: rental.convert_on_expiry,
    managedK8sClusterId: null,
    gpuType: rental.gpu_type ?? 'h100',
    gpuCount: rental.gpu_count,
    meta: rentalMeta(rental, []),
  }
}

/** Shows the ordered size until the provider answers. The schema drops fields that this provider does not have. */
function pendingProviderData(providerId: ProviderId, spec: RentalSpec): ProviderData {
  const { cpuModel, cpuCount, ramGb, storageGb } = wholeOf(spec)
  const size = { cpuModel, gpuCount: spec.gpuCount, ramGb, storageGb }
  const fields = {
    providerId,
    networkType: spec.networkType,
    ...(spec.gpuFormFactor === null ? {} : { gpuFormFactor: spec.gpuFormFactor }),
    ...(spec.ports.length === 0 ? {} : { customPorts: spec.ports.slice(0, limits.customPorts) }),
    nodes: [],
    sshUser: 'root',
  }
  const withVcpus = providerData.safeParse({ ...fields, resources: { ...size, vcpuCount: cpuCount } })
  // Bare-metal providers count cores instead of virtual CPUs.
  return withVcpus.data ?? providerData.parse({ ...fields, resources: { ...size, cpuCount } })
}

function rentalMeta(rental: Rental, storage: ReturnType<typeof attachedStorage>) {
  return {
    ...(rental.monitoring_enabled === null ? {} : { monitoring_enabled: rental.monitoring_enabled }),
    ...(rental.status_reason === null || rental.terminate_requested_at === null
      ? {}
      : { termination_reason: rental.termination_note ?? rental.status_reason }),
    ...(storage.length === 0 ? {} : { attached_storage: storage }),
    rental_type: rental.kind,
  }
}

function attachedStorage(
  rentalId: number,
  attachments: readonly AttachedVolume[],
  volumes: ReadonlyMap<number, Volume>,
) {
  return attachments
    .filter((one) => one.rentalId === rentalId)
    .flatMap(({ volumeId }) => {
      const volume = volumes.get(volumeId)
      if (volume === undefined) return []
      return [
        {
          id: volume.id,
          cost_per_hour: volume.cost_nano_per_hour,
          size_in_gb: volume.size_gb,
          label: volume.label,
          vip: volume.vip ?? '',
          attached_instance_ids: attachments.filter((one) => one.volumeId === volumeId).map((one) => one.rentalId),
        },
      ]
    })
}

export interface RentalContext {
  readonly terms: ReadonlyMap<number, Term>
  readonly people: ReadonlyMap<string, Person>
  readonly attachments: readonly AttachedVolume[]
  readonly volumes: ReadonlyMap<number, Volume>
  readonly machines: ReadonlyMap<string, Machine>
}

/** The active record of either kind: the caller narrows `rentalType`. */
export function activeRental<Type extends RentalType>(app: App, rental: Rental, context: RentalContext) {
  const term = context.terms.get(rental.id)
  if (term === undefined) throw new Error(`rental ${rental.id} has no term`)
  const person = context.people.get(rental.person_id)
  const storage = attachedStorage(rental.id, context.attachments, context.volumes)
  const { resources, nodes } = shareOf(rental)
  const variant = context.machines.get(nodes[0]?.machineId ?? '')?.ethernet_variant ?? null
  return {
    ...rentalRecord(app, rental),
    rentalType: rental.kind as Type,
    region: rental.region as Region,
    currentTerm: termRecord(term),
    meta: rentalMeta(rental, storage),
    attachedStorage: storage,
    gpuFormFactor: rental.spec.gpuFormFactor ?? ('sxm5' as const),
    nodes: nodes.map((node) => ({ ...resources, gpuCount: node.gpuIndexes.length })),
    connectionType: rental.network_type,
    ...(rental.network_type === 'ethernet' && variant !== null ? { ethernetVariant: variant } : {}),
    createdBy: {
      id: rental.person_id,
      name: person?.name ?? null,
      email: person?.email ?? '',
      picture: person?.picture ?? null,
    },
    supportsFeature: {
      attachedStorage: app.drivers.get(rental.driver)?.volumes?.attaches.includes(rental.kind) === true,
    },
    status: wireStatus(rental.status),
    ...stateFields(app, rental, term),
  }
}

function termRecord(term: Term) {
  const fields = { effectiveAt: term.effectiveAt, costPerHour: term.costPerHour }
  if (term.termType === 'reserved' && term.reservation !== null) {
    const { endsAt } = term.reservation
    return {
      ...fields,
      termType: 'reserved' as const,
      reservedUntil: endsAt,
      reservationEndsAt: endsAt,
      termPeriodDays: term.reservation.periodDays,
      discountPercentage: term.reservation.discountPercentage,
      originalCostPerHour: term.reservation.originalCostPerHour,
    }
  }
  return {
    ...fields,
    termType: term.termType === 'private-cloud' ? ('private-cloud' as const) : ('on-demand' as const),
    reservedUntil: null,
    reservationEndsAt: null,
    termPeriodDays: null,
    discountPercentage: null,
    originalCostPerHour: null,
  }
}

/** The details beyond the rental's row. */
export interface DetailFacts {
  readonly costSoFar: NanoUsd
  /** null: on demand. */
  readonly commitment: (RentalCommitment & { readonly charged: NanoUsd; readonly endNow: Ending | null }) | null
  readonly events: EventRecord[]
  /** undefined: not relayed. */
  readonly publicPorts: ReadonlyMap<number, number> | undefined
  /** The URL of an HTTP port. */
  readonly portUrl: (port: number) => string | undefined
  /** The last health check of each port. */
  readonly health: ReadonlyMap<number, boolean>
  /** The host's progress message while the rental starts. */
  readonly doing: string | undefined
  /** The rental's GPUs that are broken. */
  readonly faults: readonly ClaimedGpu[]
  readonly simulated: Simulation | null
}

export function rentalDetail(app: App, rental: Rental, context: RentalContext, facts: DetailFacts) {
  const term = context.terms.get(rental.id)
  if (term === undefined) throw new Error(`rental ${rental.id} has no term`)
  return {
    ...activeRental<RentalType>(app, rental, context),
    ...detailFields(app, rental, term, facts),
    commitment: facts.commitment === null ? null : commitmentOnWire(facts.commitment),
  }
}

export function commitmentOnWire(commitment: NonNullable<DetailFacts['commitment']>) {
  const { total, charged, rerated, endsAt, rates, closedAt, endNow } = commitment
  const heldAmount = closedAt === null ? nanoUsdOf(total - charged) : zeroUsd
  return {
    totalUsd: total,
    chargedUsd: charged,
    heldUsd: heldAmount,
    endsAt,
    earlyEndRates: earlyEndRatesOnWire(rates),
    earlyEndChargeUsd: rerated,
    endNow:
      endNow === null
        ? null
        : {
            costUsd: endNow.cost,
            extraUsd: endNow.extra,
            returnedUsd: endNow.returned,
          },
  }
}

export function earlyEndRatesOnWire(rates: readonly EarlyEndRate[]) {
  return rates.map(({ days, perHour }) => ({ completedDays: days, costPerHourUsd: perHour }))
}

/** The detail fields of any kind of rental. */
export function detailFields(app: App, rental: Rental, term: Term, facts: DetailFacts) {
  return {
    statusReason: rental.status_reason,
    exitCode: rental.exit_code,
    statusSince: rental.status_since,
    stuckSince: rental.stuck_at,
    terminateRequestedAt: rental.terminate_requested_at,
    autoTerminateAt: rental.auto_terminate_at,
    startRequestedAt: rental.start_requested_at,
    ...cpuOnlyFields(app, rental, term),
    stoppedCostPerHourUsd: stoppedCost(app, rental, term),
    spendingLimitUsd: rental.spending_limit_nano,
    stopAt: rental.stop_at,
    idle: rental.idle === null ? null : withDefaults(idleRule, rental.idle),
    workload: { ...emptyWorkload, ...rental.spec.workload },
    costSoFarUsd: facts.costSoFar,
    statusMessage: statusMessage(rental, facts.doing, facts.events, facts.faults),
    portMappings: portMappings(rental, facts.publicPorts),
    ...portFields(rental, facts),
    simulated: facts.simulated,
    events: facts.events,
  }
}

/** null: login is not possible. */
export function sshOf({ status, provider_data: data }: Rental) {
  const ssh = data?.sshNetworking?.[0]
  return isReachable(status) && ssh !== undefined ? { user: ssh.user, host: ssh.host, port: ssh.port } : null
}

/**
 * Maps public ports of the machine, in the order of the rental's spec. Without `publicPorts` they are the same ports.
 */
export function portMappings(rental: Rental, publicPorts: ReadonlyMap<number, number> | undefined) {
  const { sshNetworking, nodeNetworking } = rental.provider_data ?? {}
  const host = sshNetworking?.[0]?.host ?? nodeNetworking?.[0]?.publicIp
  if (!isReachable(rental.status) || host === undefined) return []
  return openPortsOf(rental.spec).flatMap((port) => {
    const publicPort = publicPorts === undefined ? port : publicPorts.get(port)
    return publicPort === undefined ? [] : [{ port, host, publicPort }]
  })
}

function portFields(rental: Rental, { publicPorts, portUrl, health }: DetailFacts) {
  const isRunning = isReachable(rental.status)
  const raw = new Map(portMappings(rental, publicPorts).map((one) => [one.port, `tcp://${one.host}:${one.publicPort}`]))
  const ports = portsOfSpec(rental.spec).map((port): PortRecord => {
    const url = isHttp(port) ? portUrl(port.port) : raw.get(port.port)
    return {
      ...port,
      url: isRunning ? (url ?? null) : null,
      healthy: isRunning && port.healthPath !== null ? (health.get(port.port) ?? null) : null,
    }
  })
  return { ports, ready: isRunning && allHealthy(rental.spec.workload, health) }
}

function isHttp({ protocol }: Pick<WorkloadPort, 'protocol'>): boolean {
  return protocol === 'http'
}

/** The events whose detail says why a rental is in a state; the newest counts. */
const detailEvents: Readonly<Partial<Record<RentalState, readonly EventRecord['type'][]>>> = {
  Failed: ['rental.failed'],
  Stopped: ['rental.stopping', 'rental.start_failed'],
}

/** `GPU 1 is broken and costs nothing: the driver reported Xid 79 (fallen off the bus).` null: all GPUs work. */
function faultText(faults: readonly ClaimedGpu[]): string | null {
  const [first] = faults
  if (first === undefined) return null
  const numbers = faults.map(({ position }) => position).join(', ')
  const subject = faults.length === 1 ? `GPU ${numbers} is broken and costs` : `GPUs ${numbers} are broken and cost`
  return `${subject} nothing: ${first.fault}.`
}

export function statusMessage(
  rental: Rental,
  doing: string | undefined,
  events: readonly EventRecord[],
  faults: readonly ClaimedGpu[] = [],
): string | null {
  if (isComingUp(rental.status)) return doing ?? null
  if (rental.status === 'Running') return doing === REBOOTING ? doing : faultText(faults)
  const types = detailEvents[rental.status]
  const detail = events.find((event) => types?.includes(event.type) === true)?.data['detail']
  return typeof detail === 'string' ? detail : null
}
