/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'
import { rentalStatus } from '../../../src/contract/rental.ts'

export const rentalsSearch = z.object({
  tab: z.enum(['ended']).optional().catch(undefined),
  kind: z.enum(['virtual-machine', 'bare-metal', 'container']).optional().catch(undefined),
  state: rentalStatus.optional().catch(undefined),
  /** Part of a name or label. */
  find: z.string().max(100).optional().catch(undefined),
})
