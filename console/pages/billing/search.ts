/** What stands in the address of this page. A value that cannot be right is left out. */
import { z } from 'zod'

export const billingSearch = z.object({
  tab: z.enum(['statement', 'invoices', 'purchases']).optional().catch(undefined),
})
