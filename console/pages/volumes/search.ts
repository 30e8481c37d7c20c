/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'

export const volumesSearch = z.object({
  /** The dialog is open, for this region and machine. */
  create: z.boolean().optional().catch(undefined),
  region: z.string().max(100).optional().catch(undefined),
  machine: z.string().max(255).optional().catch(undefined),
})
