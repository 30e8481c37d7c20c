/** What stands in the address of this page. A value that cannot be right is left out. */
import { z } from 'zod'

const rentalTabs = ['state', 'metrics', 'terminal', 'logs', 'volumes', 'events'] as const
export type RentalTab = (typeof rentalTabs)[number]

export const rentalSearch = z.object({ tab: z.enum(rentalTabs).optional().catch(undefined) })
