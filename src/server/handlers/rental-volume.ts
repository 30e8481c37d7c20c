/** Volumes of one rental, larger volumes and copies, over HTTP. */
import { MAX_INT32 } from '../../base/limits.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import type { Actor, App } from '../../app/app.ts'
import { createOnce } from '../../app/idempotency.ts'
import {
  attachRentalVolume,
  detachRentalVolume,
  listRentalVolumes,
  type RentalVolume,
} from '../../app/rental/rental-volume.ts'
import { readVolumeRoom, type VolumeRoom } from '../../app/order/storage-option.ts'
import { cloneVolume, growVolume } from '../../app/rental/volume-growth.ts'
import { transact } from '../../store/platform/database.ts'
import { readVolumes } from '../../store/volume/volume.ts'
import type { Handlers } from '../http/handler.ts'

export const rentalVolumeHandlers = {
  listRentalVolumes: async (app, { actor, params }) => {
    const listed = await listRentalVolumes(app.database.db, actor, params.id)
    if (!listed.ok) return listed
    const { rental, volumes } = listed.value
    const driver = app.drivers.get(rental.driver)?.volumes
    return ok({
      volumes: volumes.map(onWire),
      supports: {
        order: driver?.serves.includes(rental.kind) === true,
        attach: driver?.attaches.includes(rental.kind) === true,
        mount: rental.kind !== 'bare-metal',
      },
    })
  },

  attachRentalVolume: async (app, { actor, params, body }) => {
    const mount = { path: body.path ?? null, readOnly: body.readOnly }
    const attached = await transact(app.database, (tx) =>
      attachRentalVolume(app, tx, actor, { rental: params.id, volumeId: body.storageVolumeId, mount }),
    )
    return attached.ok ? ok(onWire(attached.value)) : attached
  },

  detachRentalVolume: async (app, { actor, params }) => {
    const request = { rental: params.id, volumeId: params.storageVolumeId }
    const detached = await transact(app.database, (tx) => detachRentalVolume(app, tx, actor, request))
    return detached.ok ? ok(onWire(detached.value)) : detached
  },

  growVolume: async (app, { actor, params, body }) => {
    const room = await readRoomBeside(app, actor, params.id)
    if (!room.ok) return room
    const grown = await transact(app.database, (tx) =>
      growVolume(app, tx, actor, { volumeId: params.id, sizeGb: body.sizeInGb, room: room.value }),
    )
    if (!grown.ok) return grown
    const { id, size_gb: sizeInGb, cost_nano_per_hour: cost, grow_cost_nano_per_hour: newCost } = grown.value
    return ok({
      storageVolumeId: id,
      sizeInGb,
      growingToGb: body.sizeInGb,
      costPerHourUsd: newCost ?? cost,
    })
  },

  cloneVolume: async (app, { actor, params, body, operation, idempotencyKey }) => {
    const room = await readRoomBeside(app, actor, params.id)
    if (!room.ok) return room
    const request = { params, body }
    return createOnce(app, actor, { key: idempotencyKey, operation, request }, async (tx) => {
      const order = { volumeId: params.id, label: body.label, room: room.value }
      const clone = await cloneVolume(app, tx, actor, order)
      if (!clone.ok) return clone
      const { id, label, size_gb: sizeInGb } = clone.value
      return ok({ storageVolumeId: id, label, sizeInGb })
    })
  },
} satisfies Partial<Handlers>

/** Reads the free space beside an existing volume. */
async function readRoomBeside(app: App, actor: Actor, id: number): Promise<Result<VolumeRoom>> {
  const volume = id <= MAX_INT32 ? (await readVolumes(app.database.db, [id])).get(id) : undefined
  if (volume === undefined || volume.account_id !== actor.accountId || volume.state === 'deleted')
    return fail('volume_not_found', { id })
  const { region, driver, external_id: externalId } = volume
  if (externalId === null) return ok(await readVolumeRoom(app, region))
  return ok(await readVolumeRoom(app, region, { driver, near: { volume: externalId } }))
}

function onWire({ volume, attachment }: RentalVolume) {
  return {
    storageVolumeId: volume.id,
    label: volume.label,
    sizeInGb: volume.size_gb,
    path: attachment.path,
    readOnly: attachment.readOnly,
    state: attachment.state,
  }
}
