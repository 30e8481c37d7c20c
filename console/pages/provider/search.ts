/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'

const providerTabs = ['offers', 'margin', 'bills'] as const
export type ProviderTab = (typeof providerTabs)[number]

export const providerSearch = z.object({
  tab: z.enum(providerTabs).optional().catch(undefined),
  by: z.enum(['day', 'rental']).optional().catch(undefined),
  /** The imported bill that is compared. */
  bill: z.string().max(60).optional().catch(undefined),
})
