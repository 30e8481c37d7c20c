/** v2 storage volumes over HTTP. */
import { limits } from '../../base/limits.ts'
import { ok } from '../../contract/result.ts'
import type { App } from '../../app/app.ts'
import { createOnce } from '../../app/idempotency.ts'
import { readRoomOfRental, readVolumeRoom } from '../../app/order/storage-option.ts'
import { attachVolume, createVolume, detachVolume, terminateVolume } from '../../app/rental/volume.ts'
import { tagOf } from '../../domain/rental.ts'
import { volumeStatus } from '../../domain/volume.ts'
import { transact } from '../../store/platform/database.ts'
import { findVolumeHosts } from '../../store/host/host-volume.ts'
import { findMachine } from '../../store/machine/machine.ts'
import { listAttachments, listVolumes, type AttachedVolume, type Volume } from '../../store/volume/volume.ts'
import type { Handlers } from '../http/handler.ts'
import { supportOf, type StorageRegion } from './storage-option.ts'

export const volumeHandlers = {
  createVolume: async (app, { actor, body, operation, idempotencyKey }) => {
    const machine = body.nodeName === undefined ? undefined : await findMachine(app.database.db, body.nodeName)
    const room =
      machine === undefined
        ? await readRoomOfRental(app, body.region, body.rentalIds?.[0])
        : await readVolumeRoom(app, body.region, { driver: machine.driver, near: { host: machine.id } })
    return createOnce(app, actor, { key: idempotencyKey, operation, request: body }, async (tx) => {
      const created = await createVolume(app, tx, actor, { ...body, sizeGb: body.sizeInGb, room })
      if (!created.ok) return created
      const { volume, rentalIds } = created.value
      return ok({
        storageVolumeId: volume.id,
        region: volume.region as StorageRegion,
        status: volumeStatus(volume.state),
        label: volume.label,
        sizeInGb: volume.size_gb,
        attachedRentals: rentalIds,
        message: 'Storage volume is being created',
      })
    })
  },

  listVolumes: async (app, { actor, query }) => {
    const volumes = await listVolumes(app.database.db, actor.accountId, {
      ...(query.before === undefined ? {} : { before: query.before }),
      limit: query.limit ?? limits.plainListRows,
    })
    const attachments = await listAttachments(app.database.db, { volumeIds: volumes.map((volume) => volume.id) })
    const onHosts = volumes.filter(({ driver }) => app.drivers.get(driver)?.volumes?.isLocal === true)
    const hosts = await findVolumeHosts(
      app.database.db,
      onHosts.flatMap(({ external_id: id }) => id ?? []),
    )
    return ok(volumes.map((volume) => volumeRecord(app, volume, attachments, hosts)))
  },

  attachVolume: async (app, { actor, body }) => {
    const attached = await transact(app.database, (tx) =>
      attachVolume(app, tx, actor, { volumeId: body.storageVolumeId, rentalIds: body.rentalIds }),
    )
    if (!attached.ok) return attached
    return ok({
      storageVolumeId: body.storageVolumeId,
      attachedRentalIds: attached.value,
      message: 'Storage volume is being attached',
    })
  },

  detachVolume: async (app, { actor, body }) => {
    const remaining = await transact(app.database, (tx) =>
      detachVolume(app, tx, actor, { volumeId: body.storageVolumeId, rentalIds: body.rentalIds }),
    )
    if (!remaining.ok) return remaining
    return ok({
      storageVolumeId: body.storageVolumeId,
      attachedRentalIds: remaining.value,
      message: 'Storage volume is being detached',
    })
  },

  terminateVolume: async (app, { actor, body }) => {
    const deleted = await transact(app.database, (tx) => terminateVolume(tx, actor, body.storageVolumeId))
    if (!deleted.ok) return deleted
    return ok({ message: 'Storage volume is being deleted', storageVolumeId: deleted.value.id })
  },
} satisfies Partial<Handlers>

function volumeRecord(
  app: App,
  volume: Volume,
  attachments: readonly AttachedVolume[],
  hosts: ReadonlyMap<string, string>,
) {
  const ownAttachments = attachments.filter((one) => one.volumeId === volume.id)
  const driver = app.drivers.get(volume.driver)?.volumes
  return {
    id: volume.id,
    createdAt: volume.created_at,
    updatedAt: volume.updated_at,
    deletedAt: volume.terminated_at,
    userId: volume.person_id,
    orgId: volume.account_id,
    startedAt: volume.started_at,
    terminatedAt: volume.terminated_at,
    externalId: tagOf(app.installationId, 'volume', volume),
    sizeGb: volume.size_gb,
    label: volume.label,
    costPerHour: volume.cost_nano_per_hour,
    region: volume.region as StorageRegion,
    storageVolumeId: volume.id,
    meta: volume.state_reason === null ? {} : { termination_reason: volume.state_reason },
    status: volumeStatus(volume.state),
    attachedRentals: ownAttachments.map((one) => one.rentalId),
    sizeInGb: volume.size_gb,
    vip: volume.vip ?? '',
    usedGb: volume.used_gb,
    growingToGb: volume.grow_to_gb,
    nodeName: hosts.get(volume.external_id ?? '') ?? volume.machine_id,
    mounts: ownAttachments.map(({ rentalId, kind, name, label, state, path, readOnly }) => ({
      rentalId,
      kind,
      name,
      label,
      state,
      path,
      readOnly,
    })),
    providerId: volume.driver,
    supports: supportOf(driver),
  }
}
