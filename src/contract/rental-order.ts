/** The order of a rental: `kind` decides which fields it has. A field means the same in each kind that has it. */
import { z } from 'zod'
import { MAX_INT32 } from '../base/limits.ts'
import { interruptionOrder } from './interruption.ts'
import { bareMetalRegion, virtualMachineRegion } from './region.ts'
import {
  gpuType,
  labelText,
  networkType,
  nonNegativeUsd,
  positiveId,
  providerName,
  time,
  volumeLabel,
} from './shared.ts'
import { volumeSizeGb } from './volume.ts'
import { metadata, orderFields, workloadPorts } from './workload.ts'

const MAX_CONTAINER_GPUS = 64
const MAX_TERM_DAYS = 3_650

const { templateId, secrets, env, files, onStart, idle } = orderFields
const everyKind = {
  label: labelText.optional(),
  templateId,
  secrets,
  env,
  files,
  onStart,
  idle,
  autoTerminateAt: time.optional().describe('Terminates the rental at this time (ISO 8601)'),
  spendingLimitUsd: nonNegativeUsd.optional().describe('Terminates the rental when its cost reaches this amount (USD)'),
  maxCostPerHourUsd: nonNegativeUsd
    .optional()
    .describe('Rejects the order if the rental would cost more per hour (USD), not counting a new volume'),
  metadata: metadata.optional(),
}

/** Containers and virtual machines share a machine with others: they can be stopped and have ports and mounts. */
const { diskGb, volumes, stopAt } = orderFields
const sharedMachine = { diskGb, volumes, stopAt, ports: workloadPorts.optional().describe('Ports to expose') }

/** Virtual machines and bare metal have the price of the operator, on demand or for a term. */
const priceBook = {
  gpuType,
  networkType,
  userData: orderFields.userData,
  termPeriodDays: z
    .int()
    .min(1)
    .max(MAX_TERM_DAYS)
    .optional()
    .describe('Reserves it for one of the terms in `reserve-options`; leave out for an on-demand rental'),
  discountPercentage: z
    .number()
    .min(0)
    .max(100)
    .optional()
    .describe('Discount for the term; default: the largest that the account gets for it'),
  convertToOnDemandOnExpiry: z
    .boolean()
    .optional()
    .describe('Whether it continues on demand when its term ends (default), or terminates'),
  monitoringEnabled: z.boolean().optional(),
  providerAccount: providerName
    .optional()
    .describe('For operators: places the order at this account of another cloud, and nowhere else'),
}

export const imageName = z.string().min(1).max(500)
export const imageTag = z.string().min(1).max(128)

const { command, args, shmGb, restart, registryCredentialId } = orderFields
const containerOrder = z.strictObject({
  kind: z.literal('container'),
  machineId: z.string().min(1).max(100).optional().describe('Marketplace machine that runs it'),
  gpuModel: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .describe(
      'Instead of `machineId`: part of the GPU name in any case, spaces and hyphens ignored, such as `rtx4090`. The cheapest machine is chosen',
    ),
  gpuCount: z.int().min(1).max(MAX_CONTAINER_GPUS),
  image: z
    .strictObject({ name: imageName, tag: imageTag.optional() })
    .optional()
    .describe("Absent: that of the template, or the supplier's default"),
  command,
  args,
  shmGb,
  restart,
  registryCredentialId,
  ...interruptionOrder,
  ...sharedMachine,
  ...everyKind,
})

const virtualMachineOrder = z.strictObject({
  kind: z.literal('virtual-machine'),
  region: virtualMachineRegion,
  gpuCount: z.int().min(1).max(MAX_INT32).describe('One of the numbers that `rental-options` offers'),
  ...priceBook,
  ...sharedMachine,
  ...everyKind,
})

const bareMetalOrder = z.strictObject({
  kind: z.literal('bare-metal'),
  region: bareMetalRegion,
  gpuCount: z.int().min(1).max(MAX_INT32).multipleOf(8),
  cudaVersion: z.enum(['cuda12.8', 'cuda12.9']).optional(),
  volumes: z
    .array(z.strictObject({ volumeId: positiveId }))
    .max(1)
    .optional()
    .describe('Storage volume to attach'),
  newVolume: z
    .strictObject({ label: volumeLabel, sizeInGb: volumeSizeGb })
    .optional()
    .describe('Instead of `volumes`: a storage volume that is created and attached'),
  ...priceBook,
  ...everyKind,
})

/** The order in an answer, with defaults filled in, which makes it another schema of the description. */
export const orderOfRental = z.discriminatedUnion('kind', [containerOrder, virtualMachineOrder, bareMetalOrder])

export const rentalOrder = z
  .discriminatedUnion('kind', [
    containerOrder
      .refine(({ machineId, gpuModel }) => (machineId === undefined) !== (gpuModel === undefined), {
        path: ['machineId'],
        message: 'Give either machineId or gpuModel',
      })
      .refine(({ interruptible, afterInterruption }) => interruptible === true || afterInterruption === undefined, {
        path: ['afterInterruption'],
        message: 'Only an interruptible rental is interrupted',
      })
      .refine(({ interruptible, maxWaitSeconds }) => interruptible !== true || maxWaitSeconds === undefined, {
        path: ['maxWaitSeconds'],
        message: 'An interruptible rental interrupts no others',
      })
      .meta({ id: 'ContainerOrder' }),
    virtualMachineOrder.meta({ id: 'VirtualMachineOrder' }),
    bareMetalOrder
      .refine(({ volumes: existing = [], newVolume }) => existing.length === 0 || newVolume === undefined, {
        path: ['newVolume'],
        message: 'Give either volumes or newVolume',
      })
      .meta({ id: 'BareMetalOrder' }),
  ])
  .meta({ id: 'RentalOrder' })
export type RentalOrder = z.output<typeof rentalOrder>
export type RentalOrderInput = z.input<typeof rentalOrder>
