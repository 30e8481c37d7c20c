/**
 * Orders of the v2 interface: looks up price, term and places. Any driver with matching machines may serve them; each is
 * tried with a spec for its machines.
 */
import { MAX_INT32 } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import type { createBareMetalRentalBody, createVirtualMachineRentalBody } from '../../contract/on-demand-rental.ts'
import type { RentalType } from '../../contract/rental.ts'
import { holdOf } from '../../domain/order.ts'
import { isPricedBy, type Demand } from '../../domain/placement.ts'
import {
  commitmentOf,
  grantTerm,
  perGpuHour,
  pricePerHour,
  quoteTerm,
  quoteTerms,
  type TermQuote,
} from '../../domain/term.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import { findGpuPrices, listReserveOptions, type GpuPrice } from '../../store/machine/price.ts'
import type { Rental } from '../../store/rental/rental.ts'
import type { z } from 'zod'
import type { Actor, App } from '../app.ts'
import { findPlaces } from './place.ts'
import { refusePlace } from './order-volume.ts'
import { expandTemplate } from '../account/template.ts'
import { placeAtFirst } from './place-order.ts'
import { readOrder } from './read-order.ts'
import { lockVolume } from '../../store/volume/volume.ts'
import type { VolumeRoom } from './storage-option.ts'
import { attachToNewRental } from '../rental/volume.ts'

type VirtualMachineBody = z.output<typeof createVirtualMachineRentalBody>
type BareMetalBody = z.output<typeof createBareMetalRentalBody>

export async function orderVirtualMachine(
  app: App,
  tx: Tx,
  actor: Actor,
  body: VirtualMachineBody,
): Promise<Result<Rental>> {
  return orderFromBook(app, tx, actor, 'virtual-machine', body)
}

export async function orderBareMetal(
  app: App,
  tx: Tx,
  actor: Actor,
  body: BareMetalBody,
  room: VolumeRoom,
): Promise<Result<Rental>> {
  // Volumes are locked before balances, everywhere.
  if (body.storageVolume?.isNew === false && body.storageVolume.id <= MAX_INT32)
    await lockVolume(tx, body.storageVolume.id)
  const ordered = await orderFromBook(app, tx, actor, 'bare-metal', body)
  if (!ordered.ok || body.storageVolume === undefined) return ordered
  const volume = body.storageVolume.isNew ? { ...body.storageVolume, room } : body.storageVolume
  const attached = await attachToNewRental(app, tx, actor, ordered.value, volume)
  return attached.ok ? ordered : attached
}

async function orderFromBook(
  app: App,
  tx: Tx,
  actor: Actor,
  kind: RentalType,
  orderBody: VirtualMachineBody | BareMetalBody,
): Promise<Result<Rental>> {
  const { providerAccount: account } = orderBody
  if (account !== undefined && !actor.scopes.includes('operator')) return fail('missing_scope', { scope: 'operator' })
  const expanded = await expandTemplate(tx.db, actor, orderBody)
  if (!expanded.ok) return expanded
  const { order: body } = expanded.value
  const agreement = await agreeOnTerm(tx, actor, kind, body)
  if (!agreement.ok) return agreement
  const { price, term } = agreement.value
  const draft = await readOrder(app, tx, actor, kind, expanded.value)
  if (!draft.ok) return draft
  const { place } = draft.value.volumes

  const { region, gpuType, networkType, gpuCount } = body
  const mismatch = place === undefined ? undefined : refusePlace(place, { ...place, region })
  if (mismatch !== undefined) return mismatch
  const demand: Demand = {
    machineType: kind,
    region,
    gpuType,
    networkType,
    gpuCount,
    machineGpus: machineGpusOf(price),
    diskGb: draft.value.options.workload.diskGb,
    pays: perGpuHour(term.costPerHour, gpuCount),
  }
  const at = account === undefined ? `in ${region}` : `in ${region} at ${account}`
  const where = place?.host === undefined ? at : `on ${place.host}, which has the storage volume,`
  const summary = { gpus: `${gpuCount} × ${gpuType} with ${networkType}`, where }
  const groups = await findPlaces(app, tx, demand, { volumes: place, account })
  const sites = groups.map(({ example, places }) => ok({ machine: example, places, term, summary }))
  return placeAtFirst(app, tx, actor, draft.value, sites, summary)
}

/** The price of the book, and the term that the account gets for it. */
async function agreeOnTerm(tx: Tx, actor: Actor, kind: RentalType, body: VirtualMachineBody | BareMetalBody) {
  const price = await findPriceRow(tx.db, kind, body)
  if (!price.ok) return price
  const listPrice = pricePerHour(price.value.nano_per_gpu_hour, body.gpuCount)
  const reserve = await listReserveOptions(tx.db, actor.accountId)
  const granted = grantTerm(body, listPrice, reserve, tx.clock.now())
  if (!granted.ok) return granted
  const commitment = commitmentOf(granted.value, reserve)
  return ok({
    price: price.value,
    term: { ...granted.value, commitment, convertOnExpiry: body.convertToOnDemandOnExpiry },
  })
}

/** GPUs per machine, for whole machines. */
function machineGpusOf(price: GpuPrice): number | null {
  return price.machine_type === 'bare-metal' ? price.gpu_count : null
}

/** The row of the price book for an order, or a failure of the field without one. */
async function findPriceRow(
  db: Db,
  kind: RentalType,
  body: Pick<VirtualMachineBody | BareMetalBody, 'gpuType' | 'networkType' | 'gpuCount'> & { region: string },
): Promise<Result<GpuPrice>> {
  const prices = await findGpuPrices(db, {
    machineType: kind,
    region: body.region,
    gpuType: body.gpuType,
    networkType: body.networkType,
  })
  const enabled = prices.filter((price) => price.enabled)
  if (enabled.length === 0) {
    const reason = prices.length > 0 ? 'region_disabled' : 'option_not_offered'
    return failField(['region'], reason, { option: `${body.gpuType} with ${body.networkType}`, region: body.region })
  }
  // Whole machines may have several sizes that divide the order: the fewest machines serve it.
  const row = enabled.findLast((price) => isPricedBy(price.gpu_count, { machineType: kind, gpuCount: body.gpuCount }))
  if (row === undefined) {
    return failField(['gpuCount'], 'option_not_offered', {
      gpuCounts: enabled.flatMap((price) => price.gpu_count ?? []),
    })
  }
  return ok(row)
}

export interface Quote {
  readonly listPrice: NanoUsd
  readonly perHour: NanoUsd
  readonly hold: NanoUsd
  /** null: on demand. */
  readonly term: TermQuote | null
}

/** The cost of an order, without placing it. Fails for the same reasons as the order. */
export async function quoteOrder(
  app: App,
  actor: Actor,
  order: Pick<VirtualMachineBody, 'gpuType' | 'networkType' | 'gpuCount'> & {
    readonly rentalType: RentalType
    readonly region: string
    readonly termPeriodDays?: number | undefined
    readonly discountPercentage?: number | undefined
  },
): Promise<Result<Quote>> {
  const { db } = app.database
  const price = await findPriceRow(db, order.rentalType, order)
  if (!price.ok) return price
  const listPrice = pricePerHour(price.value.nano_per_gpu_hour, order.gpuCount)
  const options = await listReserveOptions(db, actor.accountId)
  const days = order.termPeriodDays
  const best = quoteTerms(options, listPrice).find((term) => term.days === days)?.percentage
  const discountPercentage = order.discountPercentage ?? best ?? 0
  const termType = days === undefined ? 'on-demand' : 'reserved'
  const granted = grantTerm({ termType, termPeriodDays: days, discountPercentage }, listPrice, options, app.clock.now())
  if (!granted.ok) return granted
  const term = days === undefined ? null : quoteTerm({ days, percentage: discountPercentage }, options, listPrice)
  const { costPerHour } = granted.value
  return ok({ listPrice, perHour: costPerHour, hold: holdOf({ commitment: term, costPerHour }), term })
}
