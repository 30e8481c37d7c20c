/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'

export const sortNames = ['gpu', 'free', 'vram', 'cpu', 'ram', 'disk', 'region', 'price', 'supplier'] as const

export const marketplaceSearch = z.object({
  /** Part of the model's name, in any case. */
  gpu: z.coerce.string().max(100).optional().catch(undefined),
  /** Free GPUs, at least. */
  free: z.int().min(1).max(64).optional().catch(undefined),
  /** USD for a GPU and hour, at most. */
  price: z.number().min(0).max(1_000).optional().catch(undefined),
  region: z.string().max(100).optional().catch(undefined),
  /** Words that all stand somewhere in a machine's row. */
  text: z.coerce.string().max(200).optional().catch(undefined),
  sort: z.enum(sortNames).optional().catch(undefined),
  down: z.boolean().optional().catch(undefined),
})
