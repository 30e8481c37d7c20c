/** Volumes: create, attach, detach, delete. Each request applies completely or not at all; the reconcilers mount. */
import { HOUR_MS } from '../../base/instant.ts'
import { costOfSpan } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { EventType } from '../../contract/event-type.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import { limits, MAX_INT32 } from '../../base/limits.ts'
import { isLiving, type Mount } from '../../domain/rental.ts'
import { quotaOf } from '../../domain/quota.ts'
import { isUsableIn, volumePricePerHour } from '../../domain/volume.ts'
import type { Driver } from '../../drivers/driver.ts'
import type { Tx } from '../../store/platform/database.ts'
import { findVolumeHosts } from '../../store/host/host-volume.ts'
import { findMachine, listDriversIn } from '../../store/machine/machine.ts'
import { recordEvent } from '../../store/notice/event.ts'
import { placeHold } from '../../store/ledger/ledger.ts'
import { lockOrderFacts } from '../../store/rental/order.ts'
import { findStoragePrice } from '../../store/machine/price.ts'
import { lockRentals, type Rental } from '../../store/rental/rental.ts'
import { closeMeter, holdKey } from '../../store/ledger/segment.ts'
import {
  countVolumes,
  detach,
  insertAttachment,
  insertVolume,
  listAttachments,
  lockPromisedGb,
  lockVolume,
  moveVolume,
  type Volume,
} from '../../store/volume/volume.ts'
import { listCopied } from '../../store/volume/volume-growth.ts'
import type { Actor, App } from '../app.ts'
import { refuseOverBudget } from '../money/budget.ts'
import { overKeyBudget } from '../order/place-order.ts'
import { chooseVolumeDriver, type VolumeRoom } from '../order/storage-option.ts'

export interface VolumeOrder {
  readonly region: string
  readonly label: string
  readonly sizeGb: number
  readonly room: VolumeRoom
  /** The machine that it is for. */
  readonly nodeName?: string | undefined
}

export async function createVolume(
  app: App,
  tx: Tx,
  actor: Actor,
  order: VolumeOrder & { readonly rentalIds?: readonly number[] | undefined },
): Promise<Result<{ volume: Volume; rentalIds: number[] }>> {
  const rentals = await lockForAttach(app, tx, actor, order.rentalIds ?? [], order.region)
  if (!rentals.ok) return rentals
  const [first, ...others] = rentals.value
  const other = others.find((rental) => rental.driver !== first?.driver)
  if (other !== undefined) return otherDriver(order.rentalIds ?? [], other)
  if (first?.kind === 'virtual-machine' && others.length > 0) return oneMachineOnly()
  const machine = order.nodeName === undefined ? undefined : await findMachine(tx.db, order.nodeName)
  if (order.nodeName !== undefined && machine === undefined)
    return failField(['nodeName'], 'node_not_ready', { node: order.nodeName })
  if (machine !== undefined && !isUsableIn(order.region, machine.region))
    return failField(['region'], 'node_region_mismatch', { node: machine.id, region: machine.region })
  const driver = first?.driver ?? machine?.driver
  const volume = await insertPaidVolume(app, tx, actor, { ...order, driver, machineId: machine?.id })
  if (!volume.ok) return volume
  for (const rental of rentals.value) await insertAttachment(tx, volume.value.id, rental.id)
  return ok({ volume: volume.value, rentalIds: rentals.value.map((rental) => rental.id) })
}

/** The volume of a bare-metal order: an existing one of the region, or a new one. */
export async function attachToNewRental(
  app: App,
  tx: Tx,
  actor: Actor,
  rental: Rental,
  request: { isNew: false; id: number } | { isNew: true; label: string; sizeInGb: number; room: VolumeRoom },
): Promise<Result<Volume>> {
  if (request.isNew) {
    const volume = await insertPaidVolume(app, tx, actor, {
      region: rental.region,
      label: request.label,
      sizeGb: request.sizeInGb,
      room: request.room,
      driver: rental.driver,
    })
    if (volume.ok) await insertAttachment(tx, volume.value.id, rental.id)
    return volume
  }
  const volume = await lockUsableVolume(tx, actor, request.id, ['storageVolume', 'id'])
  if (!volume.ok) return volume
  if (volume.value.region !== rental.region) return otherRegion(['storageVolume', 'id'], volume.value.region)
  if (volume.value.driver !== rental.driver) {
    return failField(['storageVolume', 'id'], 'provider_mismatch')
  }
  await insertAttachment(tx, volume.value.id, rental.id)
  return volume
}

export async function insertPaidVolume(
  app: App,
  tx: Tx,
  actor: Actor,
  order: VolumeOrder & {
    readonly driver?: ProviderId | undefined
    readonly machineId?: string | undefined
    readonly copyOf?: number | undefined
  },
): Promise<Result<Volume>> {
  const there = await listDriversIn(tx.db, [order.region])
  const driver = chooseVolumeDriver(app, there, order)
  const price = await findStoragePrice(tx.db, order.region)
  if (driver === undefined || price === undefined || !price.enabled) {
    return failField(['region'], 'region_disabled', { option: 'Storage', region: order.region })
  }
  const facts = await lockOrderFacts(tx, actor.accountId, actor.keyId)
  const quota = quotaOf(facts.quota)
  const has = await countVolumes(tx.db, actor.accountId)
  if (has.volumes + 1 > quota.volumes || has.gb + order.sizeGb > quota.volumeGb) {
    return fail('quota_exceeded', {
      quota: `${quota.volumes} volumes with ${quota.volumeGb} GB`,
      used: `${has.volumes} volumes with ${has.gb} GB`,
    })
  }
  const full = await refuseWithoutRoom(tx, driver, order)
  if (full !== undefined) return full
  const costPerHour = volumePricePerHour(price.nano_per_gb_hour, order.sizeGb)
  const volume = await insertVolume(tx, {
    accountId: actor.accountId,
    personId: actor.personId,
    keyId: actor.keyId,
    region: order.region,
    driver: driver.id,
    label: order.label,
    sizeGb: order.sizeGb,
    costPerHour,
    machineId: order.machineId,
    copyOf: order.copyOf,
  })
  const firstHour = costOfSpan(costPerHour, HOUR_MS)
  const payer = { accountId: actor.accountId, keyId: actor.keyId, label: order.label }
  const refused = overKeyBudget(facts, firstHour) ?? (await refuseOverBudget(tx.db, payer, tx.clock.now()))
  if (refused !== undefined) return refused
  const held = await placeHold(tx, {
    postingKey: `volume:${volume.id}:hold`,
    holdKey: holdKey({ rentalId: null, volumeId: volume.id }),
    accountId: actor.accountId,
    amount: firstHour,
    memo: `Held for the first hour of volume ${volume.label}`,
  })
  if (held === 'insufficient') {
    return fail('insufficient_balance', { amount: firstHour, purpose: 'first_hour' })
  }
  recordVolumeEvent(tx, volume, 'volume.created', { sizeInGb: volume.size_gb, region: volume.region })
  tx.wake.add('volumes')
  return ok(volume)
}

/** Only existing space is sold: volumes that the provider has not created yet count too. */
export async function refuseWithoutRoom(
  tx: Tx,
  { id, volumes }: Driver,
  { region, sizeGb, room }: Pick<VolumeOrder, 'region' | 'sizeGb' | 'room'>,
): Promise<Failure | undefined> {
  const roomGb = room.roomGb.get(id)
  if (roomGb === undefined) return undefined
  const leftGb = Math.max(0, roomGb - (await lockPromisedGb(tx, id, room.askedAt)))
  if (sizeGb <= leftGb) return undefined
  const place = volumes?.isLocal !== true ? 'region' : room.atMachineOf === id ? 'machine' : 'largest_machine'
  return fail('no_storage_capacity', { freeGb: leftGb, sizeGb, region, place })
}

export async function attachVolume(
  app: App,
  tx: Tx,
  actor: Actor,
  request: { volumeId: number; rentalIds: readonly number[]; mount?: Mount },
): Promise<Result<number[]>> {
  // Rentals are locked before volumes, everywhere.
  const rentals = await lockForAttach(app, tx, actor, request.rentalIds, undefined)
  if (!rentals.ok) return rentals
  const volume = await lockUsableVolume(tx, actor, request.volumeId, ['storageVolumeId'])
  if (!volume.ok) return volume
  const other = rentals.value.find((rental) => rental.region !== volume.value.region)
  if (other !== undefined) {
    return failField(['rentalIds', request.rentalIds.indexOf(other.id)], 'region_mismatch', {
      region: volume.value.region,
      rental: other,
    })
  }
  const elsewhere = rentals.value.find((rental) => rental.driver !== volume.value.driver)
  if (elsewhere !== undefined) return otherDriver(request.rentalIds, elsewhere)
  const attached = await listAttachments(tx.db, { volumeIds: [request.volumeId] })
  const after = new Set([...attached.map((one) => one.rentalId), ...request.rentalIds])
  if (after.size > limits.attachmentsPerVolume) {
    return failField(['rentalIds'], 'too_many_attachments', { max: limits.attachmentsPerVolume })
  }
  if (app.drivers.get(volume.value.driver)?.volumes?.isLocal === true) {
    if (after.size > 1) return oneMachineOnly()
    const refused = await refuseOtherHost(tx, volume.value, rentals.value)
    if (refused !== undefined) return refused
  }
  if ((await listCopied(tx.db, [request.volumeId])).size > 0)
    return failField(['storageVolumeId'], 'volume_being_copied', { id: request.volumeId })
  for (const rental of rentals.value) {
    const already = attached.some((one) => one.rentalId === rental.id && one.state !== 'detaching')
    if (!already) await insertAttachment(tx, request.volumeId, rental.id, request.mount)
  }
  tx.wake.add('attachments')
  return ok([...after].sort((a, b) => a - b))
}

export async function detachVolume(
  app: App,
  tx: Tx,
  actor: Actor,
  request: { volumeId: number; rentalIds?: readonly number[] | undefined },
): Promise<Result<number[]>> {
  const volume = await lockOwnVolume(tx, actor, request.volumeId)
  if (!volume.ok) return volume
  const attached = await listAttachments(tx.db, { volumeIds: [request.volumeId] })
  const missing = request.rentalIds?.findIndex((id) => !attached.some((one) => one.rentalId === id)) ?? -1
  if (missing >= 0) {
    return failField(['rentalIds', missing], 'not_attached', { rentalId: request.rentalIds?.[missing] ?? 0 })
  }
  const attaches = app.drivers.get(volume.value.driver)?.volumes?.attaches ?? []
  const fixed = attached.find(
    (one) => !attaches.includes(one.kind) && request.rentalIds?.includes(one.rentalId) !== false,
  )
  if (fixed !== undefined) return fail('volume_fixed', { rentalId: fixed.rentalId })
  const going = new Set(
    await detach(tx, {
      volumeId: request.volumeId,
      ...(request.rentalIds === undefined ? {} : { rentalIds: request.rentalIds }),
    }),
  )
  tx.wake.add('attachments')
  return ok(attached.filter((one) => !going.has(one.rentalId) && one.state !== 'detaching').map((one) => one.rentalId))
}

export async function terminateVolume(tx: Tx, actor: Actor, volumeId: number): Promise<Result<Volume>> {
  const volume = await lockOwnVolume(tx, actor, volumeId)
  if (!volume.ok) return volume
  if (volume.value.state === 'deleting') return volume
  const attached = await listAttachments(tx.db, { volumeIds: [volumeId] })
  if (attached.length > 0) {
    return fail('volume_attached', { rentalIds: attached.map((one) => one.rentalId) })
  }
  if ((await listCopied(tx.db, [volumeId])).size > 0) return fail('volume_being_copied', { id: volumeId })
  return ok(await deleteVolume(tx, volume.value, 'customer_request'))
}

/** The bill stops now; the data is gone once the provider has deleted it. */
export async function deleteVolume(tx: Tx, volume: Volume, reason: string): Promise<Volume> {
  const moved = await moveVolume(tx, volume.id, 'deleting', { state_reason: reason })
  if (moved === undefined) throw new Error(`volume ${volume.id} cannot be deleted in the state ${volume.state}`)
  await closeMeter(tx, { rentalId: null, volumeId: volume.id }, tx.clock.now(), volumeMemo(volume))
  recordVolumeEvent(tx, volume, 'volume.deleting', { reason })
  tx.wake.add('volumes')
  return moved
}

export function recordVolumeEvent(
  tx: Tx,
  volume: Pick<Volume, 'id' | 'account_id' | 'label'>,
  type: EventType,
  data: Readonly<Record<string, unknown>> = {},
): void {
  recordEvent(tx, {
    accountId: volume.account_id,
    type,
    subject: { kind: 'volume', id: String(volume.id) },
    data: { storageVolumeId: volume.id, label: volume.label, ...data },
  })
}

export function volumeMemo(volume: Pick<Volume, 'label' | 'size_gb'>): string {
  return `volume ${volume.label} (${volume.size_gb} GB)`
}

/** Locks the caller's bare-metal rentals; the failure names the first that is not one. */
async function lockForAttach(
  app: App,
  tx: Tx,
  actor: Actor,
  ids: readonly number[],
  region: string | undefined,
): Promise<Result<Rental[]>> {
  const unique = [...new Set(ids)]
  const inRange = unique.filter((id) => id > 0 && id <= MAX_INT32)
  const rentals = await lockRentals(tx, inRange)
  for (const [index, id] of ids.entries()) {
    const rental = rentals.find((one) => one.id === id && one.account_id === actor.accountId)
    const refused = refuseAttachment(app, rental, id, region, ['rentalIds', index])
    if (refused !== undefined) return refused
  }
  return ok(rentals)
}

function refuseAttachment(
  app: App,
  rental: Rental | undefined,
  id: number,
  region: string | undefined,
  path: readonly [string, number],
): Failure | undefined {
  if (rental === undefined) return failField(path, 'rental_not_found')
  if (app.drivers.get(rental.driver)?.volumes?.attaches.includes(rental.kind) !== true)
    return failField(path, 'not_bare_metal', { rentalId: id })
  if (!isLiving(rental.status)) return failField(path, 'rental_not_running', { rentalId: id, status: rental.status })
  if (region !== undefined && rental.region !== region) return failField(path, 'region_mismatch', { region, rental })
  return undefined
}

export async function lockOwnVolume(tx: Tx, actor: Actor, id: number): Promise<Result<Volume>> {
  const volume = id <= MAX_INT32 ? await lockVolume(tx, id) : undefined
  if (volume === undefined || volume.account_id !== actor.accountId || volume.state === 'deleted') {
    return fail('volume_not_found', { id, field: ['storageVolumeId'] })
  }
  return ok(volume)
}

async function lockUsableVolume(
  tx: Tx,
  actor: Actor,
  id: number,
  path: ReadonlyArray<string | number>,
): Promise<Result<Volume>> {
  const volume = await lockOwnVolume(tx, actor, id)
  if (!volume.ok) return failField(path, 'volume_not_found', { id })
  const { state } = volume.value
  if (state !== 'active' && state !== 'creating') return failField(path, 'volume_not_active', { id, state })
  return volume
}

function otherDriver(rentalIds: readonly number[], rental: Rental): Failure {
  return failField(['rentalIds', rentalIds.indexOf(rental.id)], 'provider_mismatch')
}

function oneMachineOnly(): Failure {
  return failField(['rentalIds'], 'disk_in_use')
}

/** A disk stays on its host. One that is not created yet goes to the host of its machine. */
async function refuseOtherHost(tx: Tx, volume: Volume, rentals: readonly Rental[]): Promise<Failure | undefined> {
  const id = volume.external_id ?? ''
  const host = (await findVolumeHosts(tx.db, [id])).get(id)
  if (host === undefined) return undefined
  const elsewhere = rentals.find((rental) => rental.spec.nodes[0]?.machineId !== host)
  if (elsewhere === undefined) return undefined
  return failField(['rentalIds'], 'host_mismatch', { host, rentalId: elsewhere.id })
}

function otherRegion(path: ReadonlyArray<string | number>, region: string): Failure {
  return failField(path, 'region_mismatch', { region })
}
