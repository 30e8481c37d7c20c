/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'

export const billingSearch = z.object({
  tab: z.enum(['statement', 'changes', 'budgets', 'invoices', 'purchases']).optional().catch(undefined),
  /** Month of the statement, such as 2026-11. */
  month: z
    .string()
    .regex(/^\d{4}-(0[1-9]|1[0-2])$/)
    .optional()
    .catch(undefined),
})
