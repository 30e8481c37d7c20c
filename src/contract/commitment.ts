/** What reserved terms commit to, and what an order would cost (v2). */
import { z } from 'zod'
import { region } from './region.ts'
import { gpuType, networkType } from './shared.ts'

const earlyEndRates = z
  .array(
    z.object({
      completedDays: z.number().describe('From this many full days of the term on; 0: from the order on'),
      costPerHourUsd: z.string(),
    }),
  )
  .describe('Price of the time used when the rental ends early: that of the longest term completed by then')

export const commitment = z
  .object({
    totalUsd: z.string().describe('The price of the whole term: held with the order, and the most it can cost'),
    chargedUsd: z.string(),
    heldUsd: z.string().describe('What is left of the hold'),
    endsAt: z.string(),
    earlyEndRates,
    earlyEndChargeUsd: z.string().describe('Charged on top because it ended early'),
    endNow: z
      .object({
        costUsd: z.string().describe('What the rental costs in total if it ends now'),
        extraUsd: z.string().describe('Of it, for ending early'),
        returnedUsd: z.string().describe('What returns from the hold'),
      })
      .nullable()
      .describe('null once the term is over'),
  })
  .meta({ id: 'Commitment' })

export const rentalQuoteQuery = z.strictObject({
  region,
  gpuType,
  networkType,
  gpuCount: z.coerce.number().int().min(1).max(100_000),
  termPeriodDays: z.coerce.number().min(1).max(3650).optional().describe('Leave out for an on-demand order'),
  discountPercentage: z.coerce.number().min(0).max(100).optional().describe('Default: the best that the term earns'),
})

export const rentalQuote = z
  .object({
    costPerHourUsd: z.string(),
    originalCostPerHourUsd: z.string().describe('On demand'),
    termPeriodDays: z.number().nullable(),
    discountPercentage: z.number(),
    totalUsd: z.string().nullable().describe('Of the whole term; null: on demand'),
    holdUsd: z.string().describe('Set aside with the order'),
    earlyEndRates,
  })
  .meta({ id: 'RentalQuote' })
