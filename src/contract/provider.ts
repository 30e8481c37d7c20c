/** Accounts at other clouds, for operators: credentials, prices, offers, health and margin. */
import { z } from 'zod'

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
  type: z.string().describe('The instance type, in the words of the cloud'),
  providerRegion: z.string().describe('The region, in the words of the cloud'),
  region: z.string().nullable().describe('The region it is sold in; null: it is not'),
  gpu: z.string(),
  gpuCount: z.number(),
  machineType: z.enum(['virtual-machine', 'bare-metal']),
  available: z.number().nullable().describe('null: the cloud gives no number'),
  costPerHourUsd: z.string().describe('What the cloud charges for the whole machine'),
  unsold: z.enum(unsoldReasons).nullable().describe('Why it is not on sale; null: it is'),
})
export type ProviderOffer = z.output<typeof providerOffer>
