/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'

export const billingSearch = z.object({
  tab: z.enum(['statement', 'invoices', 'purchases']).optional().catch(undefined),
})
