/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'
import { marketplaceSorts } from '../../../src/contract/marketplace-search.ts'

export const marketplaceSearch = z.object({
  /** Part of the model name, case-insensitive. */
  gpu: z.coerce.string().max(100).optional().catch(undefined),
  /** Minimum number of free GPUs. */
  free: z.int().min(1).max(64).optional().catch(undefined),
  /** Maximum USD per GPU-hour. */
  price: z.number().min(0).max(1_000).optional().catch(undefined),
  region: z.string().max(100).optional().catch(undefined),
  /** Every word must occur in the row. */
  text: z.coerce.string().max(200).optional().catch(undefined),
  /** The template to start with. */
  template: z.string().max(100).optional().catch(undefined),
  /** The container whose settings fill in the order. */
  like: z.string().max(100).optional().catch(undefined),
  /** Every machine, instead of one row for identical ones. */
  each: z.boolean().optional().catch(undefined),
  sort: z.enum(marketplaceSorts).optional().catch(undefined),
  down: z.boolean().optional().catch(undefined),
})
