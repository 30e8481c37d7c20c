/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'

export const accountsSearch = z.object({
  find: z.string().max(200).optional().catch(undefined),
  standing: z.enum(['good', 'suspended', 'supplier']).optional().catch(undefined),
})
