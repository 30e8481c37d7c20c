/** The options for a rental, and the terms on offer (v2). */
import { z } from 'zod'
import { rentalQuote, rentalQuoteQuery } from './commitment.ts'
import { endpoint } from './endpoint.ts'
import { region } from './region.ts'
import { nodeResources } from './on-demand-rental.ts'
import { rentalType } from './rental.ts'
import {
  ethernetVariant,
  gpuFormFactor,
  gpuType,
  networkType,
  simulation,
  stoppedDiskPrice,
  usdNumber,
} from './shared.ts'

const rentalOption = z
  .object({
    enabled: z.boolean(),
    costPerHour: usdNumber,
    region,
    gpuType,
    gpuCount: z.number(),
    gpuFormFactor,
    connectionType: networkType,
    ethernetVariant: ethernetVariant.optional(),
    totalAvailable: z.number().describe('Number of such rentals available right now'),
    machineType: rentalType,
    nodes: z.array(nodeResources),
    simulated: simulation
      .nullable()
      .optional()
      .describe('Whether an order gets a simulated machine; null: not all machines are simulated'),
    stoppedDiskUsdPerGbMonth: stoppedDiskPrice.optional(),
  })
  .meta({ id: 'RentalOption' })

const base = '/v2/alpha/on-demand'

export const rentalOptionEndpoints = {
  listRentalOptions: endpoint({
    method: 'GET',
    path: `${base}/rental-options`,
    family: 'v2',
    tag: 'Rentals',
    access: 'public',
    summary: 'List rental options with their regions and prices',
    errors: [400, 500],
    response: z.array(rentalOption),
  }),
  listReserveOptions: endpoint({
    method: 'GET',
    path: `${base}/reserve-options`,
    family: 'v2',
    tag: 'Rentals',
    access: ['compute:read'],
    summary: 'List reserved terms and their discounts',
    errors: [400, 401, 403, 500],
    response: z.array(z.object({ termPeriodDays: z.number(), discountPercentage: z.number() })),
  }),
  quoteRental: endpoint({
    method: 'GET',
    path: '/v2/rental-quote',
    family: 'v2',
    tag: 'Rentals',
    access: ['compute:read'],
    summary: 'Quote an order: price, hold, and cost of ending early',
    description:
      'Does not place an order. A reserved order holds the price of its whole term and is charged from that hold. If it ends early, the time used is charged at the price of the longest term completed by then, never more than the total; the rest of the hold is released immediately.',
    errors: [400, 401, 403, 500],
    query: rentalQuoteQuery.extend({ rentalType }),
    response: rentalQuote,
  }),
}
