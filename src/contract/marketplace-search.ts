/** Browsing the marketplace: filtered, sorted and counted by the server. The marketplace API (v1) lists everything. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { gpusAfterWait, interruptibleOffer } from './interruption.ts'
import { providerId } from './provider-data.ts'
import { simulation, stoppedDiskPrice, usdAmount } from './shared.ts'
import { marketplaceSorts } from './choices.ts'

const browse = { family: 'v2', tag: 'Marketplace', method: 'GET', access: 'public', errors: [400, 500] } as const

const named = z.object({ name: z.string(), machines: z.number() })
const gpuModel = named.extend({
  gpuRamMib: z.number().describe('Of one GPU; the largest, if machines differ'),
  gpusFree: z.number(),
  gpusTotal: z.number(),
  regions: z.number(),
  fromPricePerGpuHourUsd: usdAmount
    .nullable()
    .describe('Lowest price of a free GPU, or of any if none is free; null: no price'),
})

export const marketplaceSearchEndpoints = {
  searchMachines: endpoint({
    ...browse,
    path: '/v2/marketplace/machines',
    summary: 'Search marketplace machines',
    query: z.strictObject({
      gpu: z.string().max(100).optional().describe('Part of the model name; spaces, hyphens and case do not matter'),
      free: z.coerce.number().int().min(1).max(64).optional().describe('Minimum number of free GPUs'),
      price: z.coerce.number().min(0).max(1_000).optional().describe('Maximum USD per GPU-hour'),
      region: z.string().max(100).optional(),
      text: z
        .string()
        .max(200)
        .optional()
        .describe('Every word must occur in a name, CPU, cluster, region or supplier'),
      sort: z.enum(marketplaceSorts).default('price'),
      down: z.stringbool().default(false).describe('Descending'),
      grouped: z
        .stringbool()
        .default(false)
        .describe('One row for identical machines: the one with the most free GPUs'),
      offset: z.coerce.number().int().min(0).max(limits.searchOffset).default(0),
      limit: z.coerce.number().int().min(1).max(limits.pageRows).default(limits.pageRowsDefault),
    }),
    response: z.object({
      matches: z.number().describe('Rows that match, on all pages'),
      machines: z.array(
        z.object({
          id: z.string(),
          providerId: providerId.describe('The engine that it is on; volumes have to be on the same one'),
          clusterName: z.string(),
          region: z.string(),
          supplierId: z.string().describe("`house` for the operator's own machines"),
          gpuModel: z.string(),
          gpuRamMib: z.number(),
          gpusFree: z.number(),
          gpusTotal: z.number(),
          cpuModel: z.string(),
          cpuCores: z.number(),
          virtualCores: z.number(),
          ramGb: z.number(),
          storageGb: z.number(),
          hasPersistentStorage: z.boolean(),
          pricePerGpuHourUsd: usdAmount,
          interruptible: interruptibleOffer,
          gpusAfterWait,
          gpuDriver: z.string().nullable(),
          cudaVersion: z.string().nullable(),
          uptimePercent: z
            .number()
            .nullable()
            .describe('Share of the last 30 days in which it was online; null: not known yet'),
          identicalMachines: z.number().describe('With `grouped`: how many this row stands for, itself included'),
          identicalGpusFree: z.number().describe('Free GPUs of all of them'),
          simulated: simulation.nullable().describe('What is simulated; null: nothing'),
          stoppedDiskUsdPerGbMonth: stoppedDiskPrice,
        }),
      ),
    }),
  }),
  countMachines: endpoint({
    ...browse,
    path: '/v2/marketplace/counts',
    summary: 'Count marketplace machines by GPU model and region',
    response: z.object({
      machines: z.number(),
      gpuModels: z.array(gpuModel).describe(`At most ${limits.pageRows}`),
      regions: z.array(named).describe(`At most ${limits.pageRows}`),
    }),
  }),
}
