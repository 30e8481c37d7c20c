/** Orders of the v2 interface: looks up price, term and places, and hands a complete order to `placeOrder`. */
import { MAX_INT32 } from '../base/limits.ts'
import { parseInstant, type Instant } from '../base/instant.ts'
import { parseUsd, type NanoUsd } from '../base/money.ts'
import { fail, failField, ok, type Result } from '../base/result.ts'
import type { createBareMetalRentalBody, createVirtualMachineRentalBody } from '../contract/rental.ts'
import { shareOfMachine } from '../domain/machine.ts'
import { groupForWhole, rankForShare, type Candidate } from '../domain/placement.ts'
import { grantTerm, pricePerHour } from '../domain/term.ts'
import type { Tx } from '../store/database.ts'
import { findCandidates, findMachine, type PlacementCandidate } from '../store/machine.ts'
import { findGpuPrices, listReserveOptions, type GpuPrice } from '../store/price.ts'
import type { Rental } from '../store/rental.ts'
import type { z } from 'zod'
import type { Actor, App } from './app.ts'
import { placeOrder, type RentalOrder } from './rental.ts'
import { lockVolume } from '../store/volume.ts'
import { attachToNewRental } from './volume.ts'

type VirtualMachineBody = z.output<typeof createVirtualMachineRentalBody>
type BareMetalBody = z.output<typeof createBareMetalRentalBody>

export async function orderVirtualMachine(
  app: App,
  tx: Tx,
  actor: Actor,
  body: VirtualMachineBody,
): Promise<Result<Rental>> {
  return orderFromBook(app, tx, actor, 'virtual-machine', body, (candidates) =>
    rankForShare(candidates, body.gpuCount).map((candidate) => ({
      clusterName: candidate.clusterName,
      machines: [{ machineId: candidate.machineId, gpus: body.gpuCount }],
    })),
  )
}

export async function orderBareMetal(app: App, tx: Tx, actor: Actor, body: BareMetalBody): Promise<Result<Rental>> {
  // Volumes are locked before balances, everywhere.
  if (body.storageVolume?.isNew === false && body.storageVolume.id <= MAX_INT32)
    await lockVolume(tx, body.storageVolume.id)
  const ordered = await orderFromBook(app, tx, actor, 'bare-metal', body, (candidates) =>
    groupForWhole(candidates, body.gpuCount).map((cluster) => ({
      clusterName: cluster[0]?.clusterName ?? '',
      machines: firstMachines(cluster, body.gpuCount),
    })),
  )
  if (!ordered.ok || body.storageVolume === undefined) return ordered
  const attached = await attachToNewRental(app, tx, actor, ordered.value, body.storageVolume)
  return attached.ok ? ordered : attached
}

function firstMachines(cluster: readonly Candidate[], gpuCount: number): RentalOrder['places'][number]['machines'] {
  const machines: Array<{ machineId: string; gpus: number }> = []
  let gpus = 0
  for (const candidate of cluster) {
    if (gpus >= gpuCount) break
    machines.push({ machineId: candidate.machineId, gpus: candidate.gpusTotal })
    gpus += candidate.gpusTotal
  }
  return machines
}

async function orderFromBook(
  app: App,
  tx: Tx,
  actor: Actor,
  kind: 'virtual-machine' | 'bare-metal',
  body: VirtualMachineBody | BareMetalBody,
  rank: (candidates: PlacementCandidate[]) => RentalOrder['places'],
): Promise<Result<Rental>> {
  const price = await findPriceRow(tx, kind, body)
  if (!price.ok) return price
  const listPrice = pricePerHour(price.value.nano_per_gpu_hour, body.gpuCount)
  const options = await listReserveOptions(tx.db, actor.accountId)
  const term = grantTerm(body, listPrice, options, tx.clock.now())
  if (!term.ok) return term
  const guards = readGuards(body)
  if (!guards.ok) return guards

  const found = await findCandidates(tx.db, {
    offering: kind,
    region: body.region,
    gpuType: body.gpuType,
    networkType: body.networkType,
  })
  // Bare machines are priced by their size, so only those of that size serve the order.
  const candidates = kind === 'bare-metal' ? found.filter((one) => one.gpusTotal === price.value.gpu_count) : found
  const noPlace = `No ${body.gpuCount} free GPUs of type ${body.gpuType} with ${body.networkType} in ${body.region} right now; rental-options shows what is free`
  const example = candidates[0] === undefined ? undefined : await findMachine(tx.db, candidates[0].machineId)
  if (example === undefined) return fail('no_capacity', noPlace, { reason: 'no_capacity' })

  return placeOrder(app, tx, actor, {
    kind,
    region: body.region,
    gpuType: body.gpuType,
    gpuModel: example.gpu_model,
    gpuFormFactor: example.gpu_form_factor,
    gpuCount: body.gpuCount,
    networkType: body.networkType,
    label: body.label ?? null,
    driver: example.driver,
    term: term.value,
    // Of one node: the whole machine where it is bare.
    resources: shareOfMachine(
      example.hardware,
      kind === 'bare-metal' ? example.gpus_total : body.gpuCount,
      example.gpus_total,
    ),
    ports: 'customPorts' in body ? (body.customPorts ?? []) : [],
    image: null,
    cudaVersion: 'cudaVersion' in body ? (body.cudaVersion ?? null) : null,
    convertOnExpiry: body.convertToOnDemandOnExpiry,
    monitoringEnabled: body.monitoringEnabled ?? null,
    ...guards.value,
    places: rank(candidates.filter((candidate) => candidate.driver === example.driver)),
    noPlace,
  })
}

/** The row of the price book for an order, or the field for which there is none. */
async function findPriceRow(
  tx: Tx,
  kind: 'virtual-machine' | 'bare-metal',
  body: VirtualMachineBody | BareMetalBody,
): Promise<Result<GpuPrice>> {
  const prices = await findGpuPrices(tx.db, {
    machineType: kind,
    region: body.region,
    gpuType: body.gpuType,
    networkType: body.networkType,
  })
  const enabled = prices.filter((price) => price.enabled)
  if (enabled.length === 0) {
    const reason = prices.length > 0 ? 'region_disabled' : 'option_not_offered'
    return failField(
      ['region'],
      `${body.gpuType} with ${body.networkType} is not offered in ${body.region}; see rental-options`,
      reason,
    )
  }
  const row = enabled.find((price) =>
    kind === 'bare-metal' ? body.gpuCount % price.gpu_count === 0 : body.gpuCount === price.gpu_count,
  )
  if (row === undefined) {
    const offered = enabled.map((price) => price.gpu_count).join(', ')
    return failField(['gpuCount'], `gpuCount must be one of ${offered} here`, 'option_not_offered')
  }
  return ok(row)
}

/** The optional end and limit, which all kinds of orders take. */
export function readGuards(wire: {
  autoTerminateAt?: string | undefined
  spendingLimitUsd?: string | undefined
}): Result<{ autoTerminateAt: Instant | null; spendingLimit: NanoUsd | null }> {
  const end = wire.autoTerminateAt === undefined ? null : parseInstant(wire.autoTerminateAt)
  if (end === undefined) return failField(['autoTerminateAt'], 'This is no time', 'bad_time')
  const limit = wire.spendingLimitUsd === undefined ? null : parseUsd(wire.spendingLimitUsd)
  if (limit === undefined) return failField(['spendingLimitUsd'], 'This is no amount', 'bad_amount')
  return ok({ autoTerminateAt: end, spendingLimit: limit })
}
