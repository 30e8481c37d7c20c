/** Commitments of reserved terms, and quotes for orders (v2). */
import { z } from 'zod'
import { region } from './region.ts'
import { gpuType, networkType } from './shared.ts'

const earlyEndRates = z
  .array(
    z.object({
      completedDays: z.number().describe('After this many full days of the term; 0: from the order'),
      costPerHourUsd: z.string(),
    }),
  )
  .describe('Price of the time used if the rental ends early: the price of the longest term completed by then')

export const commitment = z
  .object({
    totalUsd: z.string().describe('Price of the whole term: held when the order is placed, and the maximum cost'),
    chargedUsd: z.string(),
    heldUsd: z.string().describe('Remaining hold'),
    endsAt: z.string(),
    earlyEndRates,
    earlyEndChargeUsd: z.string().describe('Additional charge for ending early'),
    endNow: z
      .object({
        costUsd: z.string().describe('Total cost if the rental ends now'),
        extraUsd: z.string().describe('Part of it for ending early'),
        returnedUsd: z.string().describe('Released from the hold'),
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
  discountPercentage: z.coerce
    .number()
    .min(0)
    .max(100)
    .optional()
    .describe('Default: the largest discount for the term'),
  diskGb: z.coerce
    .number()
    .int()
    .min(1)
    .max(64_000)
    .optional()
    .describe('Size of the root disk; default: as for an order'),
})

export const rentalQuote = z
  .object({
    costPerHourUsd: z.string(),
    originalCostPerHourUsd: z.string().describe('On-demand price'),
    termPeriodDays: z.number().nullable(),
    discountPercentage: z.number(),
    totalUsd: z.string().nullable().describe('For the whole term; null: on demand'),
    holdUsd: z.string().describe('Held when the order is placed'),
    diskGb: z.number().nullable().describe('Size of the root disk of a virtual machine; null: no machine is offered'),
    stoppedCostPerHourUsd: z.string().nullable().describe('Price while it is stopped; null: it cannot be stopped'),
    earlyEndRates,
  })
  .meta({ id: 'RentalQuote' })
