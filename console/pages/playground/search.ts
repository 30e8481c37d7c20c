/** Search parameters of the chat, image and speech pages. Invalid values are ignored. */
import { z } from 'zod'

export const playgroundSearch = z.object({
  /** The second model of a comparison. */
  with: z.string().min(1).max(200).optional().catch(undefined),
  model: z.string().min(1).max(200).optional().catch(undefined),
})
