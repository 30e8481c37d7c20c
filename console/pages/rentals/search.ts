/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'
import { rentalState } from '../../../src/contract/rental.ts'

export const rentalsSearch = z.object({
  tab: z.enum(['ended']).optional().catch(undefined),
  kind: z.enum(['virtual-machine', 'bare-metal', 'container']).optional().catch(undefined),
  state: rentalState.optional().catch(undefined),
  /** Part of a name or label. */
  find: z.string().max(100).optional().catch(undefined),
})
