/** What stands in the address of this page. A value that cannot be right is left out. */
import { z } from 'zod'

export const usageSearch = z.object({
  /** First and last day, UTC. */
  from: z.iso.date().optional().catch(undefined),
  to: z.iso.date().optional().catch(undefined),
  by: z.enum(['day', 'model', 'key', 'rental']).optional().catch(undefined),
})
