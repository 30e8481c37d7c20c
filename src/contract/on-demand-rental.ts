/** The given operations of virtual-machine and bare-metal rentals (v2). `rental.ts` has those of every kind. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { commitment } from './commitment.ts'
import { endpoint } from './endpoint.ts'
import { providerData } from './provider-data.ts'
import { reservationRequest } from './reservation.ts'
import { metadata, ofOtherKinds, OTHER_KINDS, orderFields, workloadPorts } from './workload.ts'
import { bareMetalRegion, region, virtualMachineRegion } from './region.ts'
import {
  beforeQuery,
  complete,
  ethernetVariant,
  gpuFormFactor,
  gpuType,
  labelText,
  message,
  networkType,
  nonNegativeUsd,
  numericIdParams,
  orderableTermType,
  positiveId,
  positiveUsdNumber,
  providerName,
  time,
  timestamp,
  usdNumber,
  volumeLabel,
} from './shared.ts'
import { detailFields, rentalStatus, rentalType, stateFields } from './rental.ts'

const recordFields = {
  id: z.int32(),
  createdAt: timestamp,
  updatedAt: timestamp.nullable(),
  deletedAt: timestamp.nullable(),
  userId: z.string().max(50),
  orgId: z.any().nullable(),
  startedAt: timestamp.nullable(),
  terminatedAt: timestamp.nullable(),
  externalId: z.string(),
  rentalId: z.any(),
  providerData,
  rentalType,
  name: z.string().nullable(),
  label: z.string().nullable(),
  region: region.nullable(),
  convertToOnDemandOnExpiry: z.boolean().nullable(),
  managedK8sClusterId: z.int32().nullable(),
  gpuType,
  gpuCount: z.int32(),
}

const rentalRecord = z.strictObject({ ...recordFields, meta: z.any().optional() }).meta({ id: 'RentalRecord' })

const attachedStorage = z
  .object({
    id: positiveId,
    cost_per_hour: positiveUsdNumber,
    size_in_gb: positiveId,
    label: z.string(),
    vip: z.string(),
    attached_instance_ids: z.array(z.number()),
  })
  .meta({ id: 'AttachedStorage' })

const rentalMeta = z
  .strictObject({
    monitoring_enabled: z.boolean().optional(),
    termination_reason: z.string().optional(),
    attached_storage: z.array(attachedStorage).optional(),
    rental_type: z.string().optional(),
    sales_contract_external_id: z.string().optional(),
  })
  .meta({ id: 'RentalMeta' })

const termFields = { effectiveAt: timestamp, costPerHour: usdNumber }
const unbound = {
  reservedUntil: z.null(),
  reservationEndsAt: z.null(),
  termPeriodDays: z.null(),
  discountPercentage: z.null(),
  originalCostPerHour: z.null(),
}

export const term = z
  .discriminatedUnion('termType', [
    z.object({ ...termFields, termType: z.literal('on-demand'), ...unbound }),
    z.object({
      ...termFields,
      termType: z.literal('reserved'),
      reservedUntil: timestamp.nullable(),
      reservationEndsAt: timestamp.nullable(),
      termPeriodDays: z.number(),
      discountPercentage: z.number(),
      originalCostPerHour: usdNumber,
    }),
    z.object({ ...termFields, termType: z.literal('private-cloud'), ...unbound }),
  ])
  .meta({ id: 'Term' })

export const nodeResources = z.object({
  cpuModel: z.string(),
  gpuCount: z.number(),
  ramGb: z.number(),
  storageGb: z.number(),
  cpuCount: z.number(),
})

const activeFields = {
  ...recordFields,
  currentTerm: term,
  meta: rentalMeta.nullable().optional(),
  attachedStorage: z.array(attachedStorage).optional(),
  gpuFormFactor,
  nodes: z.array(nodeResources),
  connectionType: networkType,
  ethernetVariant: ethernetVariant.optional(),
  region,
  createdBy: z.object({
    id: z.string().max(50),
    name: z.string().max(255).nullable(),
    email: z.string().max(255),
    picture: z.string().nullable(),
  }),
  supportsFeature: z.object({ attachedStorage: z.boolean() }),
  status: complete(rentalStatus.default('Unknown')),
  ...stateFields,
}

const activeBareMetalRental = z
  .object({ ...activeFields, rentalType: z.literal('bare-metal') })
  .meta({ id: 'ActiveBareMetalRental' })
const activeVirtualMachineRental = z
  .object({ ...activeFields, rentalType: z.literal('virtual-machine') })
  .meta({ id: 'ActiveVirtualMachineRental' })

const rentalDetail = z
  .object({
    ...activeFields,
    rentalType,
    ...detailFields,
    commitment: commitment.nullable().describe('Commitment of a reserved term; null: on demand'),
  })
  .meta({ id: 'OnDemandRental' })

/** Optional fields of both creates, beyond the interface. */
const guards = {
  autoTerminateAt: time.optional().describe('Terminates the rental at this time (ISO 8601)'),
  spendingLimitUsd: nonNegativeUsd.optional().describe('Terminates the rental when its cost reaches this amount (USD)'),
  maxCostPerHourUsd: nonNegativeUsd
    .optional()
    .describe('Rejects the order if the rental would cost more per hour (USD)'),
  providerAccount: providerName
    .optional()
    .describe('For operators: places the order at this account of another cloud, and nowhere else'),
}

const newVolume = z.object({ isNew: z.literal(true), label: volumeLabel, sizeInGb: z.int().min(256).max(64_000) })
const existingVolume = z.object({ isNew: z.literal(false), id: positiveId })

const cudaVersion = z.enum(['cuda12.8', 'cuda12.9'])
const customPorts = z.array(z.int().min(1).max(65_535)).max(limits.customPorts)

export const createBareMetalRentalBody = z
  .object({
    networkType,
    gpuCount: z.number().min(1).multipleOf(8),
    storageVolume: z.discriminatedUnion('isNew', [existingVolume, newVolume]).optional(),
    region: bareMetalRegion.default('us-central-1'),
    gpuType: gpuType.default('h100'),
    cudaVersion: cudaVersion.optional(),
    label: labelText.optional(),
    termType: orderableTermType.default('on-demand'),
    discountPercentage: z.number().default(0),
    termPeriodDays: z.number().optional(),
    monitoringEnabled: z.boolean().optional(),
    convertToOnDemandOnExpiry: z.boolean().default(true),
    ...guards,
    ...orderFields,
    metadata: metadata.optional(),
    ports: workloadPorts.optional().describe(OTHER_KINDS),
    customPorts: customPorts.optional().describe(OTHER_KINDS),
    maxCostPerHourUsd: guards.maxCostPerHourUsd.describe(
      'Rejects the order if the rental would cost more per hour (USD), not counting a new volume',
    ),
  })
  .meta({ id: 'CreateBareMetalRental' })

export const createVirtualMachineRentalBody = z
  .object({
    gpuCount: z.number(),
    networkType: networkType.default('ethernet'),
    region: virtualMachineRegion.default('us-central-1'),
    gpuType: gpuType.default('h100'),
    label: labelText.optional(),
    termType: orderableTermType.default('on-demand'),
    termPeriodDays: z.number().optional(),
    discountPercentage: z.number().default(0),
    monitoringEnabled: z.boolean().optional(),
    customPorts: customPorts.optional(),
    convertToOnDemandOnExpiry: z.boolean().default(true),
    ...guards,
    ...orderFields,
    ports: workloadPorts.optional().describe('Ports to expose, in addition to `customPorts`'),
    metadata: metadata.optional(),
    storageVolume: ofOtherKinds,
    cudaVersion: cudaVersion.optional().describe(OTHER_KINDS),
  })
  .meta({ id: 'CreateVirtualMachineRental' })

const terminateBody = z.object({
  rentalId: z.int(),
  reason: z.string().max(limits.reasonChars).optional(),
})
const terminateReply = z.object({ message: z.string(), rentalId: z.int() })

const base = '/v2/alpha/on-demand'

export const onDemandRentalEndpoints = {
  createBareMetalRental: endpoint({
    needsTerms: true,
    method: 'POST',
    path: `${base}/bare-metal-rentals`,
    family: 'v2',
    tag: 'Rentals',
    access: ['compute:write'],
    summary: 'Rent bare-metal machines',
    description:
      'Returns immediately with a `Pending` rental, which then starts. An on-demand order holds the price of one hour; a reserved order holds the price of the whole term (see `quoteRental`).',
    errors: [400, 401, 403, 500],
    body: createBareMetalRentalBody,
    response: rentalRecord,
    idempotent: true,
  }),
  listBareMetalRentals: endpoint({
    method: 'GET',
    path: `${base}/bare-metal-rentals`,
    family: 'v2',
    tag: 'Rentals',
    access: ['compute:read'],
    summary: 'List bare-metal rentals that are not terminated',
    errors: [400, 401, 403, 404, 500],
    query: beforeQuery,
    response: z.array(activeBareMetalRental),
  }),
  terminateBareMetalRental: endpoint({
    method: 'POST',
    path: `${base}/bare-metal-rentals/terminate`,
    family: 'v2',
    tag: 'Rentals',
    access: ['compute:write'],
    summary: 'Terminate a bare-metal rental',
    description: 'Billing stops with this request. The rental becomes `Terminated` once the machine is gone.',
    errors: [400, 401, 403, 404, 500],
    body: terminateBody,
    response: terminateReply,
  }),
  createVirtualMachineRental: endpoint({
    needsTerms: true,
    method: 'POST',
    path: `${base}/virtual-machine-rentals`,
    family: 'v2',
    tag: 'Rentals',
    access: ['compute:write'],
    summary: 'Rent a virtual machine',
    description: '`gpuCount` must be one that `rental-options` offers for the region, GPU and network.',
    errors: [400, 401, 403, 500],
    body: createVirtualMachineRentalBody,
    response: rentalRecord,
    idempotent: true,
  }),
  listVirtualMachineRentals: endpoint({
    method: 'GET',
    path: `${base}/virtual-machine-rentals`,
    family: 'v2',
    tag: 'Rentals',
    access: ['compute:read'],
    summary: 'List virtual-machine rentals that are not terminated',
    errors: [400, 401, 403, 404, 500],
    query: beforeQuery,
    response: z.array(activeVirtualMachineRental),
  }),
  terminateVirtualMachineRental: endpoint({
    method: 'POST',
    path: `${base}/virtual-machine-rentals/terminate`,
    family: 'v2',
    tag: 'Rentals',
    access: ['compute:write'],
    summary: 'Terminate a virtual-machine rental',
    errors: [400, 401, 403, 404, 500],
    body: terminateBody,
    response: terminateReply,
  }),
  getOnDemandRental: endpoint({
    method: 'GET',
    path: `${base}/rentals/{id}`,
    family: 'v2',
    tag: 'Rentals',
    access: ['compute:read'],
    summary: 'Get a virtual machine or bare-metal rental with its events',
    errors: [400, 401, 403, 404, 500],
    params: numericIdParams,
    response: rentalDetail,
  }),
  requestReservation: endpoint({
    method: 'POST',
    path: `${base}/request-reservation`,
    family: 'v2',
    tag: 'Rentals',
    access: ['compute:write'],
    summary: 'Request a large reservation from the operator',
    errors: [400, 401, 403, 500],
    body: reservationRequest,
    response: message,
  }),
}
