/** Operations for suppliers: set prices, take machines off sale, view earnings. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { interruptionNotice, noticeLimits } from './interruption.ts'
import { suppliedHost } from './host.ts'
import { pageQuery, priceUsd, searchText, textIdParams, time, timestamp, usdAmount } from './shared.ts'
import { offerings } from './choices.ts'

export const suppliedMachine = z
  .object({
    id: z.string(),
    clusterName: z.string(),
    region: z.string(),
    offering: z.enum(offerings),
    status: z.string(),
    listed: z.boolean(),
    gpuModel: z.string(),
    gpusTotal: z.number(),
    gpusInUse: z.number(),
    gpusSick: z.array(z.number()),
    /** The GPUs in `gpusSick` that an operator withdrew; the driver reported the others. */
    gpusWithdrawn: z.array(z.number()),
    pricePerGpuHourUsd: usdAmount.nullable(),
    interruptiblePricePerGpuHourUsd: usdAmount
      .nullable()
      .describe('Price of interruptible rentals; null: the machine has none'),
    interruptionNoticeSeconds: z.int(),
    seenAt: timestamp,
  })
  .meta({ id: 'SuppliedMachine' })

const supply = { family: 'v2', tag: 'Supply', access: ['supply'] } as const

export const supplyEndpoints = {
  listSupply: endpoint({
    ...supply,
    method: 'GET',
    path: '/v2/supply',
    summary: 'List the machines and hosts of this account together, with totals',
    description:
      'A machine and the host that runs it share one ID. A host that has just joined is not listed as a machine yet, and a machine without an agent has no host.',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({
      q: searchText.describe('Part of the ID'),
      left: z.stringbool().optional().describe('Also machines that have left'),
      joinedAfter: time.optional().describe('Only hosts that joined at this time or later'),
    }),
    response: z.object({
      supplied: z.array(
        z.object({ id: z.string(), host: suppliedHost.nullable(), machine: suppliedMachine.nullable() }),
      ),
      totals: z
        .object({
          machines: z.number(),
          onSale: z.number(),
          gpus: z.number(),
          gpusRented: z.number(),
          gpusFaulty: z.number(),
          tenants: z.number(),
          left: z.number().describe('Machines that have left; not in the other totals'),
        })
        .describe('Totals of the machines on all pages'),
      nextCursor: z.string().nullable(),
    }),
  }),
  listSuppliedMachines: endpoint({
    ...supply,
    method: 'GET',
    path: '/v2/supply/machines',
    summary: 'List machines supplied by this account',
    errors: [400, 401, 403, 500],
    query: pageQuery,
    response: z.object({ machines: z.array(suppliedMachine), nextCursor: z.string().nullable() }),
  }),
  changeSuppliedMachine: endpoint({
    ...supply,
    method: 'PATCH',
    path: '/v2/supply/machines/{id}',
    summary: 'Set the prices of a machine or take it off sale; running rentals keep their price',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        pricePerGpuHourUsd: priceUsd.optional(),
        interruptiblePricePerGpuHourUsd: priceUsd
          .nullable()
          .optional()
          .describe('For rentals that may be interrupted; below the other price. null: no such rentals'),
        interruptionNoticeSeconds: interruptionNotice
          .optional()
          .describe(
            `Time from the announcement of an interruption to the end of the rental; ${noticeLimits.usualSeconds} unless set`,
          ),
        listed: z.boolean().optional(),
      })
      .meta({ id: 'ChangeSuppliedMachine' }),
    response: suppliedMachine,
  }),
  getEarnings: endpoint({
    ...supply,
    method: 'GET',
    path: '/v2/supply/earnings',
    summary: 'Get earnings in total, by day and by machine',
    description:
      'Earnings count on the UTC day they were posted, and the days add up to the ledger. GPU-hours are those charged so far; running rentals are charged every few minutes.',
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      days: z.coerce.number().int().min(1).max(limits.earningsDays).default(30).describe('Including today'),
    }),
    response: z.object({
      unpaidUsd: usdAmount,
      paidOutUsd: usdAmount,
      platformFeePercentage: z.number(),
      machines: z.array(z.object({ id: z.string(), earnedUsd: usdAmount })).describe('In total'),
      from: z.string().describe('First day (UTC)'),
      to: z.string().describe('Today'),
      earnedUsd: usdAmount.describe('In this period'),
      byDay: z
        .array(z.object({ day: z.string(), earnedUsd: usdAmount, gpuHoursSold: z.number() }))
        .describe('Every day, oldest first'),
      byMachine: z
        .array(
          z.object({
            id: z.string(),
            earnedUsd: usdAmount,
            gpuHoursSold: z.number(),
            gpuHours: z
              .number()
              .nullable()
              .describe('Its GPUs times the hours since it joined, on sale or not; null: no longer yours'),
            occupancyPercentage: z.number().nullable().describe('Share of GPU-hours sold, rounded to 0.01'),
          }),
        )
        .describe(`In this period, by ID; at most ${limits.plainListRows}`),
    }),
  }),
}
