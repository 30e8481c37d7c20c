/** Storage volumes (v2). */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { providerId } from './provider-data.ts'
import { storageRegion } from './region.ts'
import {
  beforeQuery,
  complete,
  MAX_SAFE,
  message,
  positiveId,
  rentalKind,
  storagePriceUsd,
  timestamp,
  usdNumber,
  volumeLabel,
} from './shared.ts'

const volumeStatus = z.enum(['active', 'inactive', 'unknown'])
export type VolumeStatus = z.infer<typeof volumeStatus>

const volumeMountRecord = z.object({
  rentalId: z.int().positive(),
  kind: rentalKind,
  name: z.string().describe('Name of the rental'),
  label: z.string().nullable().describe('Label of the rental'),
  state: z.enum(['attaching', 'attached', 'detaching']),
  path: z.string().nullable().describe('null: chosen by the engine, or a disk that the machine mounts itself'),
  readOnly: z.boolean(),
})

const volumeSupport = z
  .object({
    kinds: z.array(rentalKind).describe('Rentals that can be ordered with it, or have it attached'),
    attach: z.array(rentalKind).describe('Those that can have it attached and detached while they run'),
    shared: z.boolean().describe('Whether several rentals can write to it at the same time'),
    grow: z.boolean(),
    clone: z.boolean(),
  })
  .meta({ id: 'StorageVolumeSupport' })

const volumeRecord = z
  .object({
    id: z.int32(),
    createdAt: timestamp,
    updatedAt: timestamp.nullable(),
    deletedAt: timestamp.nullable(),
    userId: z.string().max(50),
    orgId: z.any().nullable(),
    startedAt: timestamp.nullable(),
    terminatedAt: timestamp.nullable(),
    externalId: z.string(),
    sizeGb: z.int32(),
    label: z.string(),
    costPerHour: usdNumber,
    region: storageRegion,
    storageVolumeId: z.any(),
    meta: z.object({ termination_reason: z.string().optional() }),
    status: complete(volumeStatus.default('unknown')),
    attachedRentals: z.array(z.int().positive()),
    sizeInGb: positiveId,
    vip: z.string(),
    usedGb: z.number().nullable().describe('GB in use; null: not known'),
    growingToGb: z.int().nullable().describe('The size that it is growing to; null: it is not growing'),
    nodeName: z.string().nullable().describe('The machine that it is on and can be used on; null: any in its region'),
    mounts: z.array(volumeMountRecord).describe('Where its rentals mount it'),
    providerId: providerId.describe('The engine that it is on; its rentals are on the same one'),
    supports: volumeSupport.describe('What its engine can do'),
  })
  .meta({ id: 'StorageVolume' })

export const volumeSize = { minGb: 256, maxGb: 64_000, stepGb: 256 } as const

export const volumeSizeGb = z.int().min(volumeSize.minGb).max(volumeSize.maxGb).multipleOf(volumeSize.stepGb)

const createVolumeBody = z
  .object({
    region: storageRegion,
    label: volumeLabel,
    sizeInGb: volumeSizeGb,
    rentalIds: z.array(z.int().positive()).max(limits.attachmentsPerVolume).optional(),
    nodeName: z
      .string()
      .max(limits.nameChars)
      .optional()
      .describe('The machine that it is for. Volumes of machines with containers are on their own disk and stay there'),
  })
  .meta({ id: 'CreateStorageVolume' })

const storageOption = z
  .object({
    region: storageRegion,
    enabled: z.boolean().describe('Whether a volume can be created in this region'),
    costPerGbHourUsd: storagePriceUsd,
    minSizeInGb: z.int().positive(),
    maxSizeInGb: z.int().positive(),
    availableGb: z.int().min(0).nullable().describe('Largest volume that fits right now; null: no known limit'),
    supports: volumeSupport.nullable().describe('What the engine of its volumes can do; null: there is none'),
  })
  .meta({ id: 'StorageOption' })

const rentalIds = z.array(z.int().min(-MAX_SAFE).max(MAX_SAFE)).min(1).max(limits.attachmentsPerVolume)

const attachBody = z.object({ storageVolumeId: positiveId, rentalIds })
const attachReply = z.object({
  storageVolumeId: z.int().positive(),
  attachedRentalIds: z.array(z.int().positive()),
  message: z.string(),
})

const base = '/v2/alpha/on-demand/storage-volumes'

export const volumeEndpoints = {
  listStorageOptions: endpoint({
    method: 'GET',
    path: '/v2/alpha/on-demand/storage-options',
    family: 'v2',
    tag: 'Storage volumes',
    access: 'public',
    summary: 'List regions for volumes with their prices per GB-hour',
    description: 'Regions without a price are not listed.',
    errors: [400, 500],
    response: z.array(storageOption),
  }),
  createVolume: endpoint({
    needsTerms: true,
    method: 'POST',
    path: base,
    family: 'v2',
    tag: 'Storage volumes',
    access: ['compute:write'],
    summary: 'Create a storage volume',
    errors: [400, 401, 403, 500],
    body: createVolumeBody,
    response: z.object({
      storageVolumeId: z.int().positive(),
      region: storageRegion,
      status: complete(volumeStatus.default('unknown')),
      label: z.string(),
      sizeInGb: z.int(),
      attachedRentals: z.array(z.int().positive()),
      message: z.string(),
    }),
    idempotent: true,
  }),
  listVolumes: endpoint({
    method: 'GET',
    path: base,
    family: 'v2',
    tag: 'Storage volumes',
    access: ['compute:read'],
    summary: 'List storage volumes',
    errors: [400, 401, 403, 404, 500],
    query: beforeQuery,
    response: z.array(volumeRecord),
  }),
  attachVolume: endpoint({
    method: 'POST',
    path: `${base}/attach`,
    family: 'v2',
    tag: 'Storage volumes',
    access: ['compute:write'],
    summary: 'Attach a volume to bare-metal rentals in its region: all of them, or none',
    errors: [400, 401, 403, 500],
    body: attachBody.meta({ id: 'AttachStorageVolume' }),
    response: attachReply,
  }),
  detachVolume: endpoint({
    method: 'POST',
    path: `${base}/detach`,
    family: 'v2',
    tag: 'Storage volumes',
    access: ['compute:write'],
    summary: 'Detach a volume from rentals',
    description:
      'Without `rentalIds`, the volume is detached from all rentals. `attachedRentalIds` lists those it stays attached to.',
    errors: [400, 401, 403, 404, 500],
    body: z
      .object({ storageVolumeId: positiveId, rentalIds: rentalIds.optional() })
      .meta({ id: 'DetachStorageVolume' }),
    response: attachReply,
  }),
  terminateVolume: endpoint({
    method: 'POST',
    path: `${base}/terminate`,
    family: 'v2',
    tag: 'Storage volumes',
    access: ['compute:write'],
    summary: 'Delete a volume and its data',
    description: 'Fails with `volume_attached` while the volume is attached to a rental.',
    errors: [400, 401, 403, 404, 500],
    body: z.object({ storageVolumeId: positiveId }).meta({ id: 'TerminateStorageVolume' }),
    response: message.extend({ storageVolumeId: z.int().positive() }),
  }),
}
