/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'

export const auditSearch = z.object({
  accountId: z.string().min(1).max(50).optional().catch(undefined),
  /** The page shown; the newest without it. */
  cursor: z.string().min(1).max(200).optional().catch(undefined),
})
