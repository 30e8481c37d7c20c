/** What stands in the address of this page. A value that cannot be right is left out. */
import { z } from 'zod'

export const auditSearch = z.object({
  accountId: z.string().min(1).max(50).optional().catch(undefined),
  /** Of the page that is shown; without it the newest. */
  cursor: z.string().min(1).max(200).optional().catch(undefined),
})
