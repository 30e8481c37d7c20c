/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'

const rentalTabs = ['state', 'metrics', 'terminal', 'logs', 'volumes', 'events'] as const
export type RentalTab = (typeof rentalTabs)[number]

export const rentalSearch = z.object({ tab: z.enum(rentalTabs).optional().catch(undefined) })
