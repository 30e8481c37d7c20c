/**
 * The part of the Latitude.sh API that Berth uses, described in our words after the vendor's typed client. Bodies are
 * strict: a field that the vendor does not know is a mistake of ours.
 */
import { z } from 'zod'
import type { SimDescription } from '../server.ts'

const resource = <T extends string, S extends z.ZodType>(type: T, attributes: S) =>
  z.strictObject({ id: z.string().min(1), type: z.literal(type), attributes })
const one = <S extends z.ZodType>(data: S) => z.strictObject({ data, meta: z.strictObject({}) })
const many = <S extends z.ZodType>(data: S) => z.strictObject({ data: z.array(data), meta: z.strictObject({}) })
const posted = <T extends string, S extends z.ZodType>(type: T, attributes: S) =>
  z.strictObject({ data: z.strictObject({ type: z.literal(type), attributes }) })

const errors = z.strictObject({
  errors: z.array(
    z.strictObject({
      code: z.string(),
      status: z.string(),
      title: z.string(),
      detail: z.string(),
      meta: z.strictObject({}),
    }),
  ),
})
const common = { 401: errors, 403: errors }
/** Without a page, the first twenty. */
const inProject = z.strictObject({
  'filter[project]': z.string().min(1),
  'page[size]': z.coerce.number().int().min(1).max(100).optional(),
  'page[number]': z.coerce.number().int().min(1).optional(),
})
const sites = [
  'ASH',
  'BUE',
  'CHI',
  'DAL',
  'FRA',
  'LAX',
  'LON',
  'MEX',
  'MEX2',
  'MIA',
  'MIA2',
  'NYC',
  'SAO',
  'SAO2',
  'SGP',
  'SYD',
  'TYO',
  'TYO2',
] as const
const site = z.enum(sites)
const price = z.strictObject({ hour: z.number(), month: z.number(), year: z.number() })

const plan = resource(
  'plans',
  z.strictObject({
    slug: z.string(),
    name: z.string(),
    features: z.array(z.enum(['ssh', 'raid', 'user_data', 'sev'])),
    specs: z.strictObject({
      cpu: z.strictObject({ type: z.string(), clock: z.number(), cores: z.number(), count: z.number() }).optional(),
      memory: z.strictObject({ total: z.number() }).optional(),
      drives: z
        .array(z.strictObject({ count: z.number(), size: z.string(), type: z.enum(['SSD', 'HDD', 'NVME']) }))
        .optional(),
      nics: z.array(z.strictObject({ count: z.number(), type: z.string() })).optional(),
      gpu: z
        .strictObject({ count: z.number(), type: z.string(), vram_per_gpu: z.number(), interconnect: z.string() })
        .partial(),
    }),
    regions: z.array(
      z.strictObject({
        name: z.string(),
        deploys_instantly: z.array(site),
        locations: z.strictObject({ available: z.array(site), in_stock: z.array(site) }),
        stock_level: z.enum(['unavailable', 'low', 'medium', 'high']),
        pricing: z.strictObject({ USD: price, BRL: price }),
      }),
    ),
  }),
)

const server = resource(
  'servers',
  z.strictObject({
    hostname: z.string(),
    label: z.string(),
    /** Documented: `on`, `off`, `unknown`, `disk_erasing`, `deploying`, `failed_deployment`, `rescue_mode`. */
    status: z.string().min(1),
    role: z.string(),
    site,
    locked: z.boolean(),
    primary_ipv4: z.ipv4().nullable(),
    primary_ipv6: z.null(),
    created_at: z.iso.datetime({ offset: true }),
    scheduled_deletion_at: z.null(),
    plan: z.strictObject({ id: z.string(), name: z.string(), slug: z.string(), billing: z.string() }),
    region: z.strictObject({
      city: z.string(),
      country: z.string(),
      site: z.strictObject({ id: z.string(), name: z.string(), slug: site, facility: z.string() }),
    }),
  }),
)
const sshKey = resource(
  'ssh_keys',
  z.strictObject({ name: z.string(), public_key: z.string(), fingerprint: z.string() }),
)
const userData = resource('user_data', z.strictObject({ description: z.string(), content: z.base64() }))
const operatingSystem = z.enum([
  'ubuntu22_ml_in_a_box',
  'ubuntu24_ml_in_a_box',
  'ubuntu_22_04_x64_lts',
  'ubuntu_24_04_x64_lts',
])

export const latitudeDescription: SimDescription = {
  listPlans: { query: z.strictObject({ 'filter[gpu]': z.literal('true') }), answers: { ...common, 200: many(plan) } },
  listServers: {
    query: inProject,
    answers: { ...common, 200: many(server) },
  },
  createServer: {
    body: posted(
      'servers',
      z.strictObject({
        project: z.string().min(1),
        plan: z.string(),
        site,
        operating_system: operatingSystem,
        hostname: z.string().regex(/^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/),
        ssh_keys: z.array(z.string()),
        user_data: z.string(),
        billing: z.enum(['hourly', 'monthly', 'yearly']),
      }),
    ),
    answers: { ...common, 201: one(server), 404: errors, 422: errors },
  },
  deleteServer: { answers: { ...common, 204: z.undefined(), 404: errors, 422: errors, 423: errors } },
  listSshKeys: { query: inProject, answers: { ...common, 200: many(sshKey) } },
  createSshKey: {
    body: posted('ssh_keys', z.strictObject({ name: z.string(), public_key: z.string().min(20), project: z.string() })),
    answers: { ...common, 201: one(sshKey), 422: errors },
  },
  deleteSshKey: { answers: { ...common, 200: z.undefined(), 404: errors } },
  listUserData: { query: inProject, answers: { ...common, 200: many(userData) } },
  createUserData: {
    body: posted('user_data', z.strictObject({ description: z.string(), content: z.base64(), project: z.string() })),
    answers: { ...common, 201: one(userData), 422: errors },
  },
  deleteUserData: { answers: { ...common, 204: z.undefined(), 404: errors } },
}
