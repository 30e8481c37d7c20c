/** What stands in the address of this page. A value that cannot be right is left out. */
import { z } from 'zod'

export const accountsSearch = z.object({
  find: z.string().max(200).optional().catch(undefined),
  standing: z.enum(['good', 'suspended', 'supplier']).optional().catch(undefined),
})
