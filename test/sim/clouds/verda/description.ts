/**
 * The part of Verda's API that Berth uses, described in our words after the vendor's typed SDKs (Go 1.4, Python 1.20).
 * Bodies are strict: a field that the vendor does not know is a mistake of ours.
 */
import { z } from 'zod'
import type { SimDescription } from '../server.ts'

const cores = z.strictObject({ description: z.string(), number_of_cores: z.int() })
const gpus = z.strictObject({ description: z.string(), number_of_gpus: z.int() })
const size = z.strictObject({ description: z.string(), size_in_gigabytes: z.int() })
const storage = z.strictObject({ description: z.string() })
const hardware = { cpu: cores, gpu: gpus, gpu_memory: size, memory: size, storage }

const instanceType = z.strictObject({
  id: z.string(),
  instance_type: z.string(),
  model: z.string(),
  name: z.string(),
  ...hardware,
  price_per_hour: z.string().regex(/^\d+\.\d+$/),
  spot_price: z.string(),
  currency: z.enum(['usd', 'eur']),
  description: z.string(),
})

const instance = z.strictObject({
  id: z.uuid(),
  ip: z.ipv4().nullable(),
  status: z.enum([
    'ordered',
    'provisioning',
    'running',
    'offline',
    'error',
    'deleting',
    'discontinued',
    'no_capacity',
    'installing',
  ]),
  created_at: z.iso.datetime(),
  ...hardware,
  hostname: z.string(),
  description: z.string(),
  location: z.string(),
  price_per_hour: z.number(),
  is_spot: z.boolean(),
  instance_type: z.string(),
  image: z.string(),
  os_name: z.string(),
  startup_script_id: z.uuid().nullable(),
  ssh_key_ids: z.array(z.uuid()),
  os_volume_id: z.uuid().nullable(),
  contract: z.enum(['PAY_AS_YOU_GO', 'LONG_TERM', 'SPOT']),
  pricing: z.enum(['FIXED_PRICE', 'DYNAMIC_PRICE']),
  volume_ids: z.array(z.uuid()),
})

const volume = {
  id: z.uuid(),
  name: z.string(),
  size: z.int(),
  type: z.enum(['NVMe', 'HDD', 'NVMe_Shared']),
  status: z.enum(['ordered', 'attached', 'detached', 'deleting', 'deleted']),
  created_at: z.iso.datetime(),
  instance_id: z.uuid().nullable(),
  location: z.string(),
  is_os_volume: z.boolean(),
  base_hourly_cost: z.number(),
  monthly_price: z.number(),
  currency: z.enum(['usd', 'eur']),
}

const failure = (...codes: string[]) => z.strictObject({ code: z.enum(codes), message: z.string() })
const invalid = failure('invalid_request')
const common = { 401: failure('unauthorized_request'), 403: failure('forbidden_action') }
const missing = { 404: failure('not_found') }
const named = { name: z.string().min(1).max(100) }
/** Text, not JSON. */
const bareId = z.uuid()

const actionResults = z.array(
  z.strictObject({
    action: z.string(),
    instanceId: z.string(),
    status: z.enum(['success', 'error']),
    error: z.string().optional(),
    statusCode: z.int().optional(),
  }),
)

export const verdaDescription: SimDescription = {
  createToken: {
    body: z.strictObject({
      grant_type: z.literal('client_credentials'),
      client_id: z.string(),
      client_secret: z.string(),
    }),
    answers: {
      200: z.strictObject({
        access_token: z.string(),
        refresh_token: z.string(),
        token_type: z.literal('Bearer'),
        expires_in: z.int(),
        scope: z.string(),
      }),
      400: invalid,
      401: failure('unauthorized_request'),
    },
  },
  getBalance: { answers: { ...common, 200: z.strictObject({ amount: z.number(), currency: z.enum(['usd', 'eur']) }) } },
  listInstanceTypes: {
    query: z.strictObject({ currency: z.enum(['usd', 'eur']).optional() }),
    answers: { ...common, 200: z.array(instanceType) },
  },
  listAvailability: {
    query: z.strictObject({ is_spot: z.enum(['true', 'false']).optional(), location_code: z.string().optional() }),
    answers: {
      ...common,
      200: z.array(z.strictObject({ location_code: z.string(), availabilities: z.array(z.string()) })),
    },
  },
  listVolumeTypes: {
    answers: {
      ...common,
      200: z.array(
        z.strictObject({
          type: z.string(),
          price: z.strictObject({ price_per_month_per_gb: z.number(), currency: z.enum(['usd', 'eur']) }),
          is_shared_fs: z.boolean(),
        }),
      ),
    },
  },
  listImages: {
    query: z.strictObject({ instance_type: z.string().optional() }),
    answers: {
      ...common,
      200: z.array(
        z.strictObject({
          id: z.uuid(),
          image_type: z.string(),
          name: z.string(),
          is_default: z.boolean(),
          is_cluster: z.boolean(),
          details: z.array(z.string()),
          category: z.string(),
        }),
      ),
    },
  },
  listInstances: {
    query: z.strictObject({ status: z.string().optional() }),
    answers: { ...common, 200: z.array(instance) },
  },
  getInstance: { answers: { ...common, ...missing, 200: instance, 400: invalid } },
  createInstance: {
    body: z.strictObject({
      instance_type: z.string(),
      image: z.string(),
      hostname: z
        .string()
        .max(60)
        .regex(/^[a-z0-9-]+$/),
      description: z.string().min(1),
      location_code: z.string(),
      ssh_key_ids: z.array(z.uuid()).min(1),
      startup_script_id: z.uuid().optional(),
      os_volume: z.strictObject({ name: z.string().min(1), size: z.int().min(50) }),
      is_spot: z.boolean().optional(),
      contract: z.enum(['PAY_AS_YOU_GO', 'LONG_TERM', 'SPOT']).optional(),
      pricing: z.enum(['FIXED_PRICE', 'DYNAMIC_PRICE']).optional(),
    }),
    answers: { ...common, ...missing, 202: bareId, 400: invalid, 402: failure('insufficient_funds') },
  },
  actOnInstances: {
    body: z.strictObject({
      id: z.array(z.string()).min(1),
      action: z.enum(['delete', 'shutdown', 'start']),
      volume_ids: z.array(z.uuid()).optional(),
      delete_permanently: z.boolean().optional(),
    }),
    answers: {
      ...common,
      ...missing,
      202: actionResults,
      207: actionResults,
      400: invalid,
    },
  },
  listVolumes: { query: z.strictObject({}), answers: { ...common, 200: z.array(z.strictObject(volume)) } },
  listTrash: {
    answers: {
      ...common,
      200: z.array(z.strictObject({ ...volume, deleted_at: z.iso.datetime(), is_permanently_deleted: z.boolean() })),
    },
  },
  actOnVolume: {
    body: z.strictObject({ id: z.string(), action: z.literal('delete'), is_permanent: z.boolean().optional() }),
    answers: { ...common, ...missing, 202: z.undefined(), 400: invalid },
  },
  listKeys: { answers: { ...common, 200: z.array(z.strictObject({ id: z.uuid(), ...named, key: z.string() })) } },
  addKey: {
    body: z.strictObject({ ...named, key: z.string().startsWith('ssh-') }),
    answers: { ...common, 201: bareId, 400: invalid },
  },
  deleteKey: { answers: { ...common, ...missing, 200: z.undefined() } },
  listScripts: { answers: { ...common, 200: z.array(z.strictObject({ id: z.uuid(), ...named, script: z.string() })) } },
  addScript: {
    body: z.strictObject({ ...named, script: z.string().startsWith('#!') }),
    answers: { ...common, 201: bareId, 400: invalid },
  },
  deleteScript: { answers: { ...common, ...missing, 200: z.undefined() } },
}
