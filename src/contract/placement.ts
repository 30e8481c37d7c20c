/** The placement report: where an order would go, and why. */
import { z } from 'zod'
import { usdAmount } from './shared.ts'

export const placementReason = z.enum([
  'other_offering',
  'region_mismatch',
  'other_gpu',
  'other_network',
  'engine_off',
  'not_listed',
  'draining',
  'cleaning',
  'quarantined',
  'lost',
  'costs_too_much',
  'other_size',
  'not_whole',
  'too_few_free',
  'sick_gpus',
  'no_disk',
  'cluster_too_small',
])
export type PlacementReason = z.output<typeof placementReason>

/** Why a matching machine is tried at its rank. */
const placementOrder = z.enum([
  'first',
  'real_first',
  'own_first',
  'preference',
  'price',
  'no_capacity',
  'name',
  'fuller_first',
  'same',
])
export type PlacementOrder = z.output<typeof placementOrder>

const offerHistory = z.object({
  made: z.int(),
  noCapacity: z.int(),
  failed: z.int().describe('Refused for another reason, or never ran'),
  startSeconds: z.int().nullable().describe('From the create until it ran, on average; null: none ran'),
  lowest: z.int().nullable().describe('Of the counts that the cloud reported; null: it reports none'),
  highest: z.int().nullable(),
})

export const placement = z
  .object({
    found: z.boolean().describe('Whether this order could be placed now'),
    price: z.enum(['found', 'disabled', 'missing', 'other_gpu_count']).describe('Result of the price book'),
    candidates: z
      .array(
        z.object({
          machineId: z.string(),
          driver: z.string(),
          clusterName: z.string(),
          gpusFree: z.number(),
          gpusTotal: z.number(),
          order: placementOrder.describe(
            '`first`: tried first. Otherwise what the first one is better in; `same`: in nothing',
          ),
          costPerGpuHourUsd: usdAmount.nullable().describe('What it costs us; null: our own machine'),
          preference: z.int().describe("The operator's, of its provider account"),
          history: offerHistory.nullable().describe('Of its offer in the last hour; null: not known'),
        }),
      )
      .describe('Matching machines in the order they would be tried; at most 200'),
    rejected: z
      .array(z.object({ machineId: z.string(), driver: z.string(), reason: placementReason, detail: z.string() }))
      .describe("Machines that don't match, closest first; at most 200"),
    rejectedCount: z.number(),
  })
  .meta({ id: 'Placement' })
