/** Lists, attaches and detaches the volumes of one rental. Bare metal follows the rules of the given interface. */
import { MAX_INT32 } from '../../base/limits.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { isSharedWith, overlappingMounts } from '../../domain/volume.ts'
import type { Mount } from '../../domain/rental.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import type { Rental } from '../../store/rental/rental.ts'
import { listAttachments, readVolumes, type AttachedVolume, type Volume } from '../../store/volume/volume.ts'
import type { Actor, App } from '../app.ts'
import { findAnyRental } from './own-rental.ts'
import { attachVolume, detachVolume } from './volume.ts'

export interface RentalVolume {
  readonly volume: Volume
  readonly attachment: AttachedVolume
}

export async function listRentalVolumes(
  db: Db,
  actor: Actor,
  id: string,
): Promise<Result<{ rental: Rental; volumes: RentalVolume[] }>> {
  const rental = await findAnyRental(db, actor, id)
  if (!rental.ok) return rental
  const attachments = await listAttachments(db, { rentalIds: [rental.value.id] })
  const ids = attachments.map(({ volumeId }) => volumeId)
  const volumes = await readVolumes(db, ids)
  const attachedVolumes = attachments.flatMap((attachment) => {
    const volume = volumes.get(attachment.volumeId)
    return volume === undefined ? [] : [{ volume, attachment }]
  })
  return ok({ rental: rental.value, volumes: attachedVolumes })
}

export async function attachRentalVolume(
  app: App,
  tx: Tx,
  actor: Actor,
  request: { rental: string; volumeId: number; mount: Mount },
): Promise<Result<RentalVolume>> {
  const { volumeId, mount } = request
  const rental = await findAnyRental(tx.db, actor, request.rental)
  if (!rental.ok) return rental
  // This check comes first: no other error may tell another account about this volume.
  const volume = volumeId > MAX_INT32 ? undefined : (await readVolumes(tx.db, [volumeId])).get(volumeId)
  if (volume?.account_id !== actor.accountId)
    return failField(['storageVolumeId'], 'volume_not_found', { id: volumeId })
  const { id, kind } = rental.value
  const driver = app.drivers.get(rental.value.driver)?.volumes
  if (driver?.attaches.includes(kind) !== true) {
    return driver?.serves.includes(kind) === true
      ? fail('volume_fixed', { rentalId: id })
      : failField(['storageVolumeId'], 'volume_kind', { id: volumeId, kind })
  }
  const hasUnsupportedOption = kind === 'bare-metal' && (mount.path !== null || mount.readOnly)
  if (hasUnsupportedOption) {
    const option = mount.path === null ? 'readOnly' : 'path'
    return failField([option], 'option_not_supported', { option, kind })
  }
  const attachments = await listAttachments(tx.db, { rentalIds: [id] })
  const paths = attachments.flatMap((other) => (other.path === null || other.volumeId === volumeId ? [] : [other.path]))
  const overlap = mount.path === null ? undefined : overlappingMounts([...paths, mount.path])
  if (overlap !== undefined) return failField(['path'], 'mount_path_in_use', overlap)
  const current = attachments.find((other) => other.volumeId === volumeId && other.state !== 'detaching')
  if (current !== undefined && (current.path !== mount.path || current.readOnly !== mount.readOnly))
    return fail('volume_attached', { rentalIds: [id] })
  const others = (await listAttachments(tx.db, { volumeIds: [volumeId] })).filter(({ rentalId }) => rentalId !== id)
  if (driver.isLocal && !isSharedWith(others, { kind, readOnly: mount.readOnly })) {
    const rentalIds = others.map(({ rentalId }) => rentalId)
    return failField(['storageVolumeId'], 'volume_in_use', { id: volumeId, rentalIds })
  }
  const result = await attachVolume(app, tx, actor, { volumeId, rentalIds: [id], mount })
  return result.ok ? findRentalVolume(tx, actor, request) : result
}

export async function detachRentalVolume(
  app: App,
  tx: Tx,
  actor: Actor,
  request: { rental: string; volumeId: number },
): Promise<Result<RentalVolume>> {
  const { volumeId } = request
  const rental = await findAnyRental(tx.db, actor, request.rental)
  if (!rental.ok) return rental
  const result = await detachVolume(app, tx, actor, { volumeId, rentalIds: [rental.value.id] })
  return result.ok ? findRentalVolume(tx, actor, request) : result
}

async function findRentalVolume(
  tx: Tx,
  actor: Actor,
  { rental, volumeId }: { rental: string; volumeId: number },
): Promise<Result<RentalVolume>> {
  const list = await listRentalVolumes(tx.db, actor, rental)
  if (!list.ok) return list
  const rentalVolume = list.value.volumes.find(({ volume }) => volume.id === volumeId)
  return rentalVolume === undefined ? fail('volume_not_found', { id: volumeId }) : ok(rentalVolume)
}
