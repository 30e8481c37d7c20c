/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'
import { rentalType } from '../../../src/contract/rental.ts'
import { region } from '../../../src/contract/region.ts'
import { gpuType, networkType } from '../../../src/contract/shared.ts'

export const rentSearch = z.object({
  kind: rentalType.optional().catch(undefined),
  region: region.optional().catch(undefined),
  gpu: gpuType.optional().catch(undefined),
  network: networkType.optional().catch(undefined),
  /** The template to start with. */
  template: z.string().max(100).optional().catch(undefined),
  /** The rental whose settings fill in the form. */
  like: z.coerce.string().max(100).optional().catch(undefined),
  count: z.int().min(1).max(4_096).optional().catch(undefined),
})
