/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'

export const economicsSearch = z.object({
  /** First and last day, UTC. */
  from: z.iso.date().optional().catch(undefined),
  to: z.iso.date().optional().catch(undefined),
})
