/** Marketplace machines and instances, as the interface has them. */
import { z } from 'zod'
import { instanceStatuses } from './rental-state.ts'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { stateFields } from './rental.ts'
import { imageName, imageTag } from './rental-order.ts'
import { metadata, ofOtherKinds, orderFields, workloadPorts } from './workload.ts'
import { labelText, nonNegativeUsd, time, timestamp } from './shared.ts'

const price = z.object({ amount: z.number(), period: z.string(), agent: z.string() })

const hardware = z.object({
  cpus: z.array(
    z.object({ hardware_type: z.literal('cpu'), model: z.string(), cores: z.number(), virtual_cores: z.number() }),
  ),
  gpus: z.array(
    z.object({
      hardware_type: z.literal('gpu'),
      model: z.string(),
      clock_speed: z.number(),
      compute_power: z.number(),
      ram: z.number().describe('MiB'),
      interface: z.string(),
    }),
  ),
  storage: z.array(z.object({ hardware_type: z.literal('storage'), capacity: z.number().describe('GB') })),
  ram: z.array(z.object({ hardware_type: z.literal('ram'), capacity: z.number().describe('GB') })),
})
export type ListedHardware = z.output<typeof hardware>

const machineFields = {
  id: z.string().describe('Node name; `node_name` when creating an instance'),
  status: z.string(),
  hardware,
  instances: z.array(
    z.object({
      id: z.string(),
      status: z.string(),
      hardware: z.array(
        z.object({ gpu: z.object({ hardware_type: z.literal('gpu'), model: z.string(), ram: z.number() }) }),
      ),
    }),
  ),
  location: z.object({ region: z.string() }),
  network: z.looseObject({}),
  gpus_total: z.number(),
  gpus_reserved: z.number(),
  has_persistent_storage: z.boolean(),
  supplier_id: z.string(),
  pricing: z.object({ price }),
  reserved: z.boolean().describe('No GPU is free'),
  cluster_name: z.string(),
}

const marketplaceMachine = z.object(machineFields).meta({ id: 'MarketplaceMachine' })

const marketplaceFilters = z
  .strictObject({
    gpu_model: z.string().max(100).optional().describe('Part of the name, case-insensitive'),
    min_gpus_available: z.int().min(0).max(64).optional(),
    max_price: z.number().min(0).optional().describe('USD per GPU-hour'),
    region: z.string().max(100).optional(),
    cluster_name: z.string().max(100).optional(),
    supplier_id: z.string().max(100).optional(),
    has_persistent_storage: z.boolean().optional(),
    min_gpu_ram: z.int().min(0).optional().describe('MiB'),
    available_only: z.boolean().optional(),
  })
  .meta({ id: 'MarketplaceFilters' })
export type MarketplaceFilters = z.output<typeof marketplaceFilters>

export const instanceStatus = z.enum(instanceStatuses)

const marketplaceInstance = z
  .object({
    id: z.string(),
    created: timestamp,
    start: timestamp.nullable(),
    end: timestamp.nullable(),
    sshCommand: z.string(),
    status_message: z.string().optional().describe('Progress while it starts'),
    portMappings: z.array(z.object({ domain: z.string(), protocol: z.string(), port: z.number() })),
    ...stateFields,
    userMetadata: z.record(z.string(), z.unknown()),
    instance: z.object({
      ...machineFields,
      status: instanceStatus,
      gpu_count: z.number(),
      owner: z.string(),
    }),
  })
  .meta({ id: 'MarketplaceInstance' })

const port = z.int().min(1).max(65_535)
const image = z.object({
  name: imageName,
  tag: imageTag.optional(),
  port: port.optional(),
  ports: z.array(port).max(limits.customPorts).optional(),
})

const createdInstance = z.object({ status: z.literal('success'), instance_name: z.string(), instance_id: z.string() })

const MAX_INSTANCE_GPUS = 64
const gpuNumber = z.int().min(1).max(MAX_INSTANCE_GPUS)

/** Some clients send the number as a string. A string that is not a number is a type error (422), not out of range (400). */
const gpuCount = z.union([
  gpuNumber,
  z
    .string()
    .superRefine((text, context) => {
      const message = `Must be a whole number of GPUs from 1 to ${MAX_INSTANCE_GPUS}`
      if (!/^\d{1,9}$/.test(text)) context.addIssue({ code: 'invalid_type', expected: 'number', input: text, message })
      else if (!gpuNumber.safeParse(Number.parseInt(text, 10)).success) context.addIssue({ code: 'custom', message })
    })
    .meta({ pattern: '^[1-9]\\d?$' }),
])

const instanceList = z.object({
  instances: z.array(marketplaceInstance),
  next_cursor: z.string().nullable().optional().describe('Present if there are more rows'),
})
const instancePage = z.strictObject({
  limit: z.coerce.number().int().min(1).max(limits.plainListRows).optional(),
  cursor: z.string().max(200).optional().describe('`next_cursor` from the previous page'),
})
const marketplace = { family: 'v1', tag: 'Marketplace' } as const

const listInstances = {
  ...marketplace,
  path: '/v1/marketplace/instances',
  access: ['compute:read'],
  summary: 'List active instances',
  errors: [400, 401, 403, 422, 500],
  query: instancePage,
  response: instanceList,
} as const

export const marketplaceEndpoints = {
  listMachines: endpoint({
    ...marketplace,
    method: 'POST',
    path: '/v1/marketplace',
    access: 'public',
    summary: 'List marketplace machines',
    errors: [400, 422, 500],
    query: z.strictObject({
      limit: z.coerce.number().int().min(1).max(limits.plainListRows).optional(),
      cursor: z.string().max(200).optional().describe('`next_cursor` from the previous page'),
    }),
    body: z.object({ filters: marketplaceFilters.default({}) }).meta({ id: 'MarketplaceQuery' }),
    response: z.object({
      instances: z.array(marketplaceMachine),
      next_cursor: z.string().nullable().optional().describe('Present if there are more rows'),
    }),
  }),
  createInstance: endpoint({
    needsTerms: true,
    ...marketplace,
    method: 'POST',
    path: '/v1/marketplace/instances/create',
    access: ['compute:write'],
    summary: 'Rent GPUs on a marketplace machine',
    errors: [400, 401, 402, 403, 404, 422, 500],
    body: z
      .object({
        cluster_name: z.string().min(1).max(100),
        node_name: z.string().min(1).max(100),
        gpu_count: gpuCount,
        image: image.nullable().optional(),
        userMetadata: metadata.optional(),
        metadata: metadata.optional().describe('Same as `userMetadata`'),
        ports: workloadPorts.optional().describe('Ports to expose in addition to those of `image`'),
        label: labelText.optional(),
        auto_terminate_at: time.optional(),
        spending_limit_usd: nonNegativeUsd.optional(),
        max_cost_per_hour_usd: nonNegativeUsd
          .optional()
          .describe('Rejects the order if the instance would cost more per hour (USD)'),
        ...orderFields,
        storageVolume: ofOtherKinds,
        cudaVersion: ofOtherKinds,
        customPorts: ofOtherKinds,
      })
      .meta({ id: 'CreateMarketplaceInstance' }),
    response: createdInstance,
    idempotent: true,
  }),
  listInstances: endpoint({ ...listInstances, method: 'GET' }),
  listInstancesByPost: endpoint({ ...listInstances, method: 'POST' }),
  listInstanceHistory: endpoint({
    ...marketplace,
    method: 'GET',
    path: '/v1/marketplace/instances/history',
    access: ['compute:read'],
    summary: 'List ended instances',
    errors: [400, 401, 403, 422, 500],
    query: z.strictObject({
      limit: z.coerce.number().int().min(1).max(limits.plainListRows).optional(),
      cursor: z.string().max(200).optional(),
    }),
    response: z.object({
      instance_history: z.array(
        z.object({
          instance_name: z.string(),
          started_at: timestamp.nullable(),
          terminated_at: timestamp.nullable(),
          price,
          hardware,
          gpu_count: z.number(),
        }),
      ),
      next_cursor: z.string().nullable().optional(),
    }),
  }),
  terminateInstance: endpoint({
    ...marketplace,
    method: 'POST',
    path: '/v1/marketplace/instances/terminate',
    access: ['compute:write'],
    summary: 'Terminate an instance; terminating it again succeeds',
    errors: [400, 401, 403, 404, 422, 500],
    body: z.object({ id: z.string().min(1).max(200) }).meta({ id: 'TerminateMarketplaceInstance' }),
    response: z.object({ status: z.literal('success') }),
  }),
  createCheapestInstance: endpoint({
    needsTerms: true,
    method: 'POST',
    path: '/v2/marketplace/instances/create-cheapest',
    family: 'v2',
    tag: 'Marketplace',
    access: ['compute:write'],
    summary: 'Rent GPUs on the cheapest marketplace machine with free capacity',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        gpuModel: z
          .string()
          .min(1)
          .max(100)
          .describe('Part of the GPU name in any case, spaces and hyphens ignored, such as `rtx4090`'),
        gpuCount,
        publicKey: z
          .string()
          .trim()
          .min(1)
          .max(limits.sshKeyChars)
          .optional()
          .describe('SSH key that is added to this instance, besides those of the account'),
        auth: z.looseObject({}).optional().describe('Ignored; some provisioners send it'),
        image: image.nullable().optional(),
        userMetadata: metadata.optional(),
        metadata: metadata.optional().describe('Same as `userMetadata`'),
        label: labelText.optional(),
        maxCostPerHourUsd: nonNegativeUsd
          .optional()
          .describe('Rejects the order if the instance would cost more per hour (USD)'),
        ...orderFields,
        ports: workloadPorts.optional(),
      })
      .meta({ id: 'CreateCheapestInstance' }),
    response: createdInstance.extend({ instanceName: z.string().describe('Same as `instance_name`') }),
    idempotent: true,
  }),
}
