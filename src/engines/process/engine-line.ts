/** The state of an engine process, as JSON lines on its standard output. */
import { z } from 'zod'

const engineLine = z.discriminatedUnion('event', [
  /** `progress` goes from 0 to 1. Each line also shows that the engine has not hung. */
  z.object({ event: z.literal('loading'), progress: z.number() }),
  z.object({
    event: z.literal('ready'),
    contextTokens: z.int().min(1).nullable(),
    concurrency: z.int().min(1),
    supportsTools: z.boolean(),
  }),
  /** The engine cannot run, and exits after this line. */
  z.object({ event: z.literal('failed'), message: z.string() }),
])
export type EngineLine = z.infer<typeof engineLine>

/** undefined: other output. Libraries inside an engine may print anything. */
export function parseEngineLine(text: string): EngineLine | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    return engineLine.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
