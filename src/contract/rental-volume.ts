/** Storage volumes beyond the interface: mounted at a path, read-only, larger, copied. */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { idOrNameParams } from './rental-session.ts'
import { positiveId, usdAmount, volumeLabel } from './shared.ts'
import { volumeSizeGb } from './volume.ts'
import { mountPath } from './mount-path.ts'

const rentalVolume = z
  .object({
    storageVolumeId: z.int().positive(),
    label: z.string(),
    sizeInGb: z.int(),
    path: z.string().nullable().describe('null: chosen by the engine, or a disk that the machine mounts itself'),
    readOnly: z.boolean(),
    state: z.enum(['attaching', 'attached', 'detaching']),
  })
  .meta({ id: 'RentalVolume' })

const shared = { family: 'v2', tag: 'Storage volumes', errors: [400, 401, 403, 404, 500] } as const
const ofRental = '/v2/rentals/{id}/volumes'
const ofVolume = '/v2/alpha/on-demand/storage-volumes/{id}'
const volumeParams = z.object({ id: z.coerce.number().int().positive() })

export const rentalVolumeEndpoints = {
  listRentalVolumes: endpoint({
    ...shared,
    method: 'GET',
    path: ofRental,
    access: ['compute:read'],
    summary: 'List the storage volumes of a rental',
    params: idOrNameParams,
    response: z.object({
      volumes: z.array(rentalVolume),
      supports: z
        .object({
          order: z.boolean().describe('A rental like this one can be ordered with volumes'),
          attach: z.boolean().describe('Volumes can be attached to it and detached from it while it runs'),
          mount: z.boolean().describe('They are mounted at a path of your choice, also read-only'),
        })
        .describe('What its engine can do'),
    }),
  }),
  attachRentalVolume: endpoint({
    ...shared,
    method: 'POST',
    path: ofRental,
    access: ['compute:write'],
    summary: 'Attach a storage volume to a rental',
    description:
      'Virtual machines get a disk at once; it is mounted at `path` from the next boot on. Containers get their volumes when they are ordered.',
    params: idOrNameParams,
    body: z
      .strictObject({
        storageVolumeId: positiveId,
        path: mountPath.optional().meta({
          title: 'Mount path',
          description: 'Where a virtual machine mounts it from the next boot on; default: nowhere',
          examples: ['/data'],
        }),
        readOnly: z.boolean().default(false).meta({ title: 'Read-only' }),
      })
      .meta({ id: 'AttachRentalVolume' }),
    response: rentalVolume,
  }),
  detachRentalVolume: endpoint({
    ...shared,
    method: 'DELETE',
    path: `${ofRental}/{storageVolumeId}`,
    access: ['compute:write'],
    summary: 'Detach a storage volume from a rental',
    params: idOrNameParams.extend({ storageVolumeId: z.coerce.number().int().positive() }),
    response: rentalVolume,
  }),
  growVolume: endpoint({
    ...shared,
    method: 'PATCH',
    path: ofVolume,
    access: ['compute:write'],
    summary: 'Make a storage volume larger',
    description:
      'A volume cannot shrink. Its new price, at the current price per GB, applies from the moment it has its new size. It can be in use meanwhile; in a virtual machine the file system grows at the next boot.',
    params: volumeParams,
    body: z.strictObject({ sizeInGb: volumeSizeGb }).meta({ id: 'GrowStorageVolume' }),
    response: z.object({
      storageVolumeId: z.int().positive(),
      sizeInGb: z.int().describe('Its size until it has grown'),
      growingToGb: z.int(),
      costPerHourUsd: usdAmount.describe('Its price once it has grown'),
    }),
  }),
  cloneVolume: endpoint({
    needsTerms: true,
    ...shared,
    method: 'POST',
    path: `${ofVolume}/clone`,
    access: ['compute:write'],
    summary: 'Copy a storage volume',
    description:
      'The copy is a new volume of the same size. The original must not be attached, so that it cannot change meanwhile.',
    params: volumeParams,
    body: z.strictObject({ label: volumeLabel }).meta({ id: 'CloneStorageVolume' }),
    response: z.object({ storageVolumeId: z.int().positive(), label: z.string(), sizeInGb: z.int() }),
    idempotent: true,
  }),
}
