/** Larger volumes, and copies of volumes. */
import { HOUR_MS } from '../../base/instant.ts'
import { costOfSpan, nanoUsdOf } from '../../base/money.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { quotaOf } from '../../domain/quota.ts'
import { volumePricePerHour } from '../../domain/volume.ts'
import type { Tx } from '../../store/platform/database.ts'
import { placeHold } from '../../store/ledger/ledger.ts'
import { lockOrderFacts } from '../../store/rental/order.ts'
import { findStoragePrice } from '../../store/machine/price.ts'
import { holdKey } from '../../store/ledger/segment.ts'
import { requestGrowth } from '../../store/volume/volume-growth.ts'
import { countVolumes, listAttachments, type Volume } from '../../store/volume/volume.ts'
import type { Actor, App } from '../app.ts'
import { overKeyBudget } from '../order/place-order.ts'
import type { VolumeRoom } from '../order/storage-option.ts'
import { insertPaidVolume, lockOwnVolume, recordVolumeEvent, refuseWithoutRoom } from './volume.ts'

/** The price stays until the provider has grown the volume; the difference for the first hour is held now. */
export async function growVolume(
  app: App,
  tx: Tx,
  actor: Actor,
  request: { volumeId: number; sizeGb: number; room: VolumeRoom },
): Promise<Result<Volume>> {
  const { sizeGb } = request
  const locked = await lockOwnVolume(tx, actor, request.volumeId)
  if (!locked.ok) return locked
  const volume = locked.value
  const { id, region } = volume
  if (volume.state !== 'active') return fail('volume_not_active', { id, state: volume.state })
  const driver = app.drivers.get(volume.driver)
  if (driver?.volumes?.grow === undefined) return fail('volume_operation_unsupported', { id, operation: 'grow' })
  if (volume.grow_to_gb !== null) return fail('volume_growing', { id, sizeGb: volume.grow_to_gb })
  const moreGb = sizeGb - volume.size_gb
  if (moreGb <= 0) return failField(['sizeInGb'], 'volume_not_larger', { sizeGb: volume.size_gb })
  const price = await findStoragePrice(tx.db, region)
  if (price === undefined || !price.enabled) return fail('region_disabled', { option: 'Storage', region })
  const facts = await lockOrderFacts(tx, actor.accountId, volume.api_key_id ?? actor.keyId)
  const quota = quotaOf(facts.quota)
  const has = await countVolumes(tx.db, actor.accountId)
  if (has.gb + moreGb > quota.volumeGb) {
    return fail('quota_exceeded', { quota: `${quota.volumeGb} GB of volumes`, used: `${has.gb} GB` })
  }
  const full = await refuseWithoutRoom(tx, driver, { region, sizeGb: moreGb, room: request.room })
  if (full !== undefined) return full
  const costPerHour = volumePricePerHour(price.nano_per_gb_hour, sizeGb)
  const more = costPerHour - volume.cost_nano_per_hour
  if (more > 0n) {
    const amount = costOfSpan(nanoUsdOf(more), HOUR_MS)
    const refused = overKeyBudget(facts, amount)
    if (refused !== undefined) return refused
    const held = await placeHold(tx, {
      postingKey: `volume:${id}:grow:${tx.clock.now()}`,
      holdKey: holdKey({ rentalId: null, volumeId: id }),
      accountId: volume.account_id,
      amount,
      memo: `Held for the growth of volume ${volume.label}`,
    })
    if (held === 'insufficient') return fail('insufficient_balance', { amount, purpose: 'first_hour' })
  }
  recordVolumeEvent(tx, volume, 'volume.growing', { sizeInGb: sizeGb })
  tx.wake.add('volumes')
  return ok(await requestGrowth(tx, id, { sizeGb, costPerHour }))
}

/** A new volume with the data of another one, which nobody may write to meanwhile. */
export async function cloneVolume(
  app: App,
  tx: Tx,
  actor: Actor,
  request: { volumeId: number; label: string; room: VolumeRoom },
): Promise<Result<Volume>> {
  const locked = await lockOwnVolume(tx, actor, request.volumeId)
  if (!locked.ok) return locked
  const { id, state, region, driver, size_gb: sizeGb, grow_to_gb: growing } = locked.value
  if (state !== 'active') return fail('volume_not_active', { id, state })
  if (app.drivers.get(driver)?.volumes?.copies !== true)
    return fail('volume_operation_unsupported', { id, operation: 'clone' })
  if (growing !== null) return fail('volume_growing', { id, sizeGb: growing })
  const attached = await listAttachments(tx.db, { volumeIds: [id] })
  if (attached.length > 0) return fail('volume_attached', { rentalIds: attached.map((one) => one.rentalId) })
  const { label, room } = request
  return insertPaidVolume(app, tx, actor, { region, label, sizeGb, room, driver, copyOf: id })
}
