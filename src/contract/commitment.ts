/** Commitments of reserved terms, and quotes for orders (v2). */
import { z } from 'zod'
import { region } from './region.ts'
import { gpuType, networkType, timestamp, usdAmount } from './shared.ts'

const earlyEndRates = z
  .array(
    z.object({
      completedDays: z.number().describe('After this many full days of the term; 0: from the order'),
      costPerHourUsd: usdAmount,
    }),
  )
  .describe('Price of the time used if the rental ends early: the price of the longest term completed by then')

export const commitment = z
  .object({
    totalUsd: usdAmount.describe('Price of the whole term: held when the order is placed, and the maximum cost'),
    chargedUsd: usdAmount,
    heldUsd: usdAmount.describe('Remaining hold'),
    endsAt: timestamp,
    earlyEndRates,
    earlyEndChargeUsd: usdAmount.describe('Additional charge for ending early'),
    endNow: z
      .object({
        costUsd: usdAmount.describe('Total cost if the rental ends now'),
        extraUsd: usdAmount.describe('Part of it for ending early'),
        returnedUsd: usdAmount.describe('Released from the hold'),
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
    costPerHourUsd: usdAmount,
    originalCostPerHourUsd: usdAmount.describe('On-demand price'),
    termPeriodDays: z.number().nullable(),
    discountPercentage: z.number(),
    totalUsd: usdAmount.nullable().describe('For the whole term; null: on demand'),
    holdUsd: usdAmount.describe('Held when the order is placed'),
    diskGb: z.number().nullable().describe('Size of the root disk of a virtual machine; null: no machine is offered'),
    stoppedCostPerHourUsd: usdAmount.nullable().describe('Price while it is stopped; null: it cannot be stopped'),
    earlyEndRates,
  })
  .meta({ id: 'RentalQuote' })
