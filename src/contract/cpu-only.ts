/** Rentals that run without their GPUs. Our own answers show it; the given lists have no room for it. */
import { z } from 'zod'
import { usdAmount } from './shared.ts'

export const cpuOnlyFields = {
  cpuOnly: z.boolean().describe('It starts or runs without its GPUs, for `cpuOnlyCostPerHourUsd`'),
  cpuOnlyCostPerHourUsd: usdAmount
    .nullable()
    .describe('Price while it runs without its GPUs; null: it cannot be stopped'),
}
