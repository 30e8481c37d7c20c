/** What an engine process says on its standard output: one JSON object a line, about itself and nothing else. */
import { z } from 'zod'

const engineLine = z.discriminatedUnion('event', [
  /** `progress` goes from 0 to 1. Each line also says that the engine is still at it. */
  z.object({ event: z.literal('loading'), progress: z.number() }),
  z.object({
    event: z.literal('ready'),
    contextTokens: z.int().min(1).nullable(),
    concurrency: z.int().min(1),
    supportsTools: z.boolean(),
  }),
  /** It cannot run, and ends after this. */
  z.object({ event: z.literal('failed'), message: z.string() }),
])
export type EngineLine = z.infer<typeof engineLine>

/** undefined: not one of ours. A library inside an engine may print what it likes. */
export function parseEngineLine(text: string): EngineLine | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    return engineLine.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
