/**
 * `providerData`: one variant per engine. Berth chooses the IDs of the eight third-party variants; the interface defines
 * the shapes and their order: V1 … V8, `private-cloud`, `mock`.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { gpuFormFactor, networkType } from './shared.ts'

const providerIds = [
  'lambda',
  'voltage-park',
  'latitude',
  'crusoe',
  'denvr',
  'verda',
  'kubernetes',
  'host',
  'private-cloud',
  'mock',
] as const
export const providerId = z.enum(providerIds)
export type ProviderId = z.infer<typeof providerId>

const common = {
  externalId: z.string().optional(),
  sshNetworking: z.array(z.object({ host: z.string(), port: z.number(), user: z.string() })).optional(),
  nodeNetworking: z.array(z.object({ publicIp: z.string(), privateIp: z.string() })).optional(),
  networkType: networkType.optional(),
  gpuFormFactor: gpuFormFactor.optional(),
}

const size = { cpuModel: z.string(), gpuCount: z.number(), ramGb: z.number(), storageGb: z.number() }
const withVcpus = z.object({ ...size, vcpuCount: z.number() })
const withCpus = z.object({ ...size, cpuCount: z.number() })
const withEither = z.union([withCpus, withVcpus])

const customPorts = z.array(z.int().min(1).max(65_535)).max(limits.customPorts).optional()

const lambda = z.object({ providerId: z.literal('lambda'), ...common, resources: withVcpus })
const voltagePark = z.object({
  providerId: z.literal('voltage-park'),
  ...common,
  networkType,
  resources: withEither,
  subOrder: z.string().optional(),
  portForwards: z.array(z.object({ externalPort: z.number(), internalPort: z.number() })).optional(),
})
const latitude = z.object({ providerId: z.literal('latitude'), ...common, resources: withCpus })
const crusoe = z.object({
  providerId: z.literal('crusoe'),
  ...common,
  resources: withVcpus,
  publicIpAddressId: z.string().optional(),
})
const denvr = z.object({
  providerId: z.literal('denvr'),
  ...common,
  resources: withVcpus,
  poolType: z.enum(['public', 'contracted']).nullable().optional(),
})
const verda = z.object({ providerId: z.literal('verda'), ...common, resources: withVcpus })
const kubernetes = z.object({ providerId: z.literal('kubernetes'), ...common, resources: withVcpus })
const host = z.object({ providerId: z.literal('host'), ...common, resources: withEither, customPorts })
const privateCloud = z.object({
  providerId: z.literal('private-cloud'),
  ...common,
  resources: withEither,
  gpuModel: z.string().optional(),
  location: z.string().optional(),
  benchmark: z.record(z.string(), z.unknown()).optional(),
  nodes: z.array(
    z.object({
      role: z.enum(['login', 'head', 'compute']).default('compute'),
      hostname: z.string().optional(),
      publicIp: z.string().optional(),
      privateIp: z.string(),
    }),
  ),
  sshUser: z.string(),
  sshPort: z.number().optional(),
  extra: z.record(z.string(), z.unknown()).optional(),
})
const mock = z.object({ providerId: z.literal('mock'), ...common, resources: withVcpus, customPorts })

export const providerData = z
  .discriminatedUnion('providerId', [
    lambda,
    voltagePark,
    latitude,
    crusoe,
    denvr,
    verda,
    kubernetes,
    host,
    privateCloud,
    mock,
  ])
  .meta({ id: 'ProviderData' })
export type ProviderData = z.output<typeof providerData>
