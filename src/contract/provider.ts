/** Accounts at other clouds, for operators: credentials, prices, offers, health and margin. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { virtualMachineRegion, bareMetalRegion } from './region.ts'
import {
  gpuType,
  networkType,
  nonNegativeUsd,
  priceUsd,
  providerName,
  timestamp,
  usdAmount,
  signedUsd,
} from './shared.ts'

const providerChecks = ['reachable', 'rights', 'limits', 'prices'] as const

const providerCheck = z.object({
  check: z.enum(providerChecks),
  result: z.enum(['passed', 'failed', 'not_tried']),
  detail: z.string(),
})
export type ProviderCheck = z.output<typeof providerCheck>

const unsoldReasons = ['gpu_not_sold', 'region_not_mapped', 'name_too_long', 'no_capacity'] as const
export type UnsoldReason = (typeof unsoldReasons)[number]

const providerOffer = z.object({
  offerId: z.string().nullable().describe('The start of the names of its machines here; null: it cannot be sold'),
  type: z.string().describe('The instance type, in the words of the cloud'),
  providerRegion: z.string().describe('The region, in the words of the cloud'),
  region: z.string().nullable().describe('The region it is sold in; null: it is not'),
  gpu: z.string(),
  gpuType: gpuType.nullable().describe('As it is sold; null: it is not'),
  gpuCount: z.number(),
  networkType,
  machineType: z.enum(['virtual-machine', 'bare-metal']),
  available: z.number().nullable().describe('null: the cloud gives no number'),
  costPerHourUsd: usdAmount.describe('What the cloud charges for the whole machine'),
  unsold: z.enum(unsoldReasons).nullable().describe('Why it is not on sale; null: it is'),
})
export type ProviderOffer = z.output<typeof providerOffer>

/** The sale of an offer here, by the last report that had it. */
const offerSale = z.object({
  pricePerHourUsd: usdAmount.nullable().describe('Selling price of the whole machine; null: it has none'),
  free: z.int().describe('Machines that can be ordered now'),
  rented: z.int(),
  seenAt: timestamp.describe('When the cloud last listed it'),
})

const providerResource = z.object({
  what: z.string().describe('`machine`, `volume`, `ssh-key`, `address`, …'),
  id: z.string().describe('At the cloud'),
  state: z.string().nullable().describe('Of a machine'),
  rentalId: z.int().nullable().describe('The rental that it was made for; null: another installation or an old backup'),
})

/** The clouds that have a driver. */
const providerDriver = z.enum(['lambda', 'voltage-park', 'latitude', 'crusoe', 'denvr', 'verda'])

const providerState = z.enum(['unknown', 'healthy', 'stale', 'broken', 'suspended'])

const regionMap = z
  .record(z.string().min(1).max(60), z.union([virtualMachineRegion, bareMetalRegion]))
  .describe('From regions of the cloud to regions of this installation, in addition to those that Berth knows')

const rules = {
  regions: regionMap,
  markupPercentage: z
    .number()
    .min(0)
    .max(1000)
    .nullable()
    .describe('Selling price: cost plus this; null: only the price book sets prices'),
  floorPerGpuHourUsd: priceUsd.nullable().describe('The selling price by markup is at least this'),
  fixedPerGpuHourUsd: priceUsd.nullable().describe('Selling price instead of cost and markup'),
  sellsBelowCost: z.boolean().describe('Whether machines may be sold for less than they cost'),
  monthlyCapUsd: nonNegativeUsd
    .nullable()
    .describe('No new orders once the costs of a calendar month (UTC) reach this'),
  preference: z.int().min(-100).max(100).describe('Placement prefers a higher one before the price'),
}

const providerRecord = z
  .object({
    name: z.string(),
    provider: providerDriver,
    title: z.string(),
    baseUrl: z.string(),
    state: providerState.describe(
      '`stale`: does not answer. `broken`: rejects the credentials. `suspended`: by an operator',
    ),
    stateReason: z.string().nullable(),
    stateSince: timestamp,
    answeredAt: timestamp.nullable().describe('When it last listed its offers'),
    pausedUntil: timestamp
      .nullable()
      .describe(
        'The circuit breaker of this server is open until then, because the cloud failed repeatedly; null: it is closed',
      ),
    ...rules,
    costThisMonthUsd: usdAmount,
    rentals: z.int().describe('Rentals that are not ended'),
    createdAt: timestamp,
  })
  .meta({ id: 'Provider' })

const providerKind = z.object({
  provider: providerDriver,
  title: z.string(),
  baseUrl: z.string(),
  billing: z
    .object({ from: z.enum(['create', 'running']), incrementSeconds: z.number(), minimumSeconds: z.number() })
    .describe('How the cloud bills a machine: from when on, and in which steps'),
  credentials: z.array(z.object({ name: z.string(), help: z.string(), optional: z.boolean().optional() })),
})

const credentials = z
  .record(z.string().min(1).max(60), z.string().min(1).max(limits.secretBytes))
  .describe('The fields that `kinds` lists for the cloud. Stored encrypted, and never returned')

const marginRow = z.object({
  subject: z.string().describe('The account, rental or day'),
  revenueUsd: signedUsd.describe('Charges less refunds'),
  costUsd: signedUsd,
  marginUsd: signedUsd,
})

const nameParams = z.object({ name: providerName })
const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const
const day = z.iso.date().describe('UTC day')

export const providerEndpoints = {
  listProviders: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/providers',
    summary: 'List accounts at other clouds, and the clouds that can be added',
    errors: [401, 403],
    response: z.object({ providers: z.array(providerRecord), kinds: z.array(providerKind) }),
  }),
  addProvider: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/providers',
    summary: 'Add an account at another cloud',
    errors: [400, 401, 403],
    body: z.strictObject({
      name: providerName,
      provider: providerDriver,
      credentials,
      baseUrl: z.url().max(500).optional().describe('Default: the address of the cloud'),
      ...z.object(rules).partial().shape,
    }),
    response: providerRecord,
  }),
  tryProvider: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/providers/try',
    summary: 'Check credentials of another cloud, and list its offers, before an account is added',
    description: 'Nothing is stored, here or at the cloud.',
    errors: [400, 401, 403],
    body: z.strictObject({
      provider: providerDriver,
      credentials,
      baseUrl: z.url().max(500).optional().describe('Default: the address of the cloud'),
      regions: regionMap.optional(),
    }),
    response: z.object({
      ok: z.boolean(),
      checks: z.array(providerCheck),
      offers: z.array(providerOffer).describe('Empty if a check failed'),
    }),
  }),
  changeProvider: endpoint({
    ...operator,
    method: 'PATCH',
    path: '/v2/operator/providers/{name}',
    summary: 'Change prices, cap, regions, preference or suspension of a provider account',
    errors: [400, 401, 403, 404],
    params: nameParams,
    body: z.strictObject({ ...z.object(rules).partial().shape, suspended: z.boolean().optional() }),
    response: providerRecord,
  }),
  rotateProvider: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/providers/{name}/rotate',
    summary: 'Replace the credentials of a provider account',
    errors: [400, 401, 403, 404],
    params: nameParams,
    body: z.strictObject({ credentials }),
    response: providerRecord,
  }),
  checkProvider: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/providers/{name}/check',
    summary: 'Check what a provider account can do, with calls that change nothing',
    errors: [401, 403, 404],
    params: nameParams,
    response: z.object({ ok: z.boolean(), checks: z.array(providerCheck) }),
  }),
  listProviderOffers: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/providers/{name}/offers',
    summary: 'List the offers of a provider account now, and why some are not on sale',
    errors: [401, 403, 404],
    params: nameParams,
    response: z.object({
      offers: z.array(providerOffer.extend({ sale: offerSale.nullable().describe('null: not on sale yet') })),
    }),
  }),
  listProviderResources: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/providers/{name}/resources',
    summary: 'List what exists at a provider account for this installation: machines, volumes, keys, addresses, disks',
    errors: [401, 403, 404],
    params: nameParams,
    query: z.strictObject({ rentalId: z.coerce.number().int().positive().optional().describe('Only of this rental') }),
    response: z.object({ resources: z.array(providerResource) }),
  }),
  removeProvider: endpoint({
    ...operator,
    method: 'DELETE',
    path: '/v2/operator/providers/{name}',
    summary: 'Remove a provider account without rentals, and delete its credentials',
    errors: [401, 403, 404],
    params: nameParams,
    response: z.object({ name: z.string() }),
  }),
  listMargins: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/margins',
    summary: 'Revenue, cost and margin of rentals at other clouds',
    errors: [400, 401, 403],
    query: z.strictObject({
      by: z.enum(['provider', 'rental', 'day']).default('provider'),
      from: day.optional().describe('First UTC day; default: 30 days ago'),
      to: day.optional().describe('Last UTC day; default: today'),
      name: providerName.optional().describe('Only this provider account'),
    }),
    response: z.object({ margins: z.array(marginRow) }),
  }),
}
