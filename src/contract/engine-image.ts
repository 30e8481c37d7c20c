/** The image with our own engines, which hosts get from their server. */
import { z } from 'zod'

/** The only image repository that hosts get from their server. */
export const ENGINE_REPOSITORY = 'berth/engine'

export const engineImageFacts = z.object({
  tag: z.string().regex(/^[\w.+-]{1,100}$/),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  bytes: z.int().min(1),
})
export type EngineImageFacts = z.output<typeof engineImageFacts>
