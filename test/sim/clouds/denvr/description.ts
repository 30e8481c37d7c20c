/**
 * The part of Denvr's API that Berth uses, described in our words after version 1 of the vendor's description and its Go
 * SDK. Bodies are strict: a field that the vendor does not know is a mistake of ours.
 */
import { z } from 'zod'
import type { SimDescription } from '../server.ts'

const failure = z.strictObject({
  success: z.literal(false),
  error: z.strictObject({ code: z.int(), message: z.string() }),
})
const common = { 400: failure, 401: failure, 403: failure }
const items = <S extends z.ZodType>(shape: S) => z.strictObject({ items: z.array(shape) })

const server = z.strictObject({
  id: z.string(),
  namespace: z.string(),
  username: z.string(),
  tenancy_name: z.string(),
  rpool: z.string(),
  cluster: z.string(),
  /** An id. */
  configuration: z.string().regex(/^\d+$/),
  gpu_type: z.string(),
  gpus: z.int(),
  vcpus: z.int(),
  memory: z.int(),
  storage: z.int(),
  ip: z.union([z.ipv4(), z.literal('')]),
  privateIp: z.union([z.ipv4(), z.literal('')]),
  image: z.string(),
  /** Some are documented, others appear: `na`, `FAILED`. */
  status: z.string().min(1),
  directAttachedStoragePersisted: z.boolean(),
})

const configuration = z.strictObject({
  id: z.int(),
  name: z.string(),
  user_friendly_name: z.string(),
  gpu_type: z.string(),
  /** Deprecated. */
  gpu_name: z.string().nullable(),
  text_name: z.string(),
  gpus: z.int(),
  vcpus: z.int(),
  memory: z.int(),
  storage: z.int(),
  price: z.number(),
  compute_network: z.string().nullable(),
  is_gpu_platform: z.boolean(),
  clusters: z.array(z.string()),
})

const place = z.strictObject({ Cluster: z.string() })
const named = z.strictObject({ Id: z.string(), Namespace: z.string(), Cluster: z.string() })

export const denvrDescription: SimDescription = {
  authenticate: {
    body: z.strictObject({ userNameOrEmailAddress: z.string(), password: z.string() }),
    answers: {
      200: z.strictObject({
        success: z.literal(true),
        result: z.strictObject({
          accessToken: z.string(),
          refreshToken: z.string(),
          expireInSeconds: z.int(),
          refreshTokenExpireInSeconds: z.int(),
        }),
      }),
      401: failure,
    },
  },
  listClusters: { answers: { ...common, 200: z.array(z.string()) } },
  listConfigurations: { answers: { ...common, 200: items(configuration) } },
  listAvailability: {
    query: z.strictObject({
      cluster: z.string(),
      resourcePool: z.string().min(1),
      reportNodes: z.enum(['true', 'false']).optional(),
    }),
    answers: {
      ...common,
      200: items(
        z.strictObject({
          configuration: z.string(),
          cluster: z.string(),
          rpool: z.string(),
          type: z.string(),
          price: z.number(),
          available: z.boolean(),
          count: z.int(),
          maxCount: z.int(),
        }),
      ),
    },
  },
  listImages: {
    answers: {
      ...common,
      200: items(z.strictObject({ id: z.int(), name: z.string(), distribution: z.string(), version: z.string() })),
    },
  },
  listServers: { query: place, answers: { ...common, 200: items(server) } },
  createServer: {
    body: z.strictObject({
      name: z
        .string()
        .max(63)
        .regex(/^[a-z0-9-]+$/),
      rpool: z.string().optional(),
      vpc: z.string(),
      configuration: z.string(),
      cluster: z.string(),
      ssh_keys: z.array(z.string().startsWith('ssh-')).min(1),
      operatingSystemImage: z.string().optional(),
      persistStorage: z.boolean().optional(),
      rootDiskSize: z.int().optional(),
    }),
    answers: { ...common, 202: server },
  },
  destroyServer: {
    query: named,
    answers: {
      ...common,
      202: z.strictObject({ id: z.string(), cluster: z.string(), status: z.string() }),
      404: failure,
    },
  },
}
