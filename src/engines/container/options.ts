/** The command line of `berth/engine`, and the start of the engine that serves the model. */
import { parseArgs } from 'node:util'
import { z } from 'zod'

const whole = (min: number, max: number) => z.coerce.number().int().min(min).max(max)

const options = z.object({
  kind: z.enum(['chat', 'embedding', 'image', 'speech']),
  name: z.string().min(1).max(200),
  port: whole(1, 65_535).default(8_000),
  /** A GGUF file; the other kinds have their model in the image. */
  model: z.string().min(1).optional(),
  context: whole(1, 100_000_000).optional(),
  concurrency: whole(1, 256).default(4),
  queue: whole(0, 100_000).default(64),
  threads: whole(1, 1_024).optional(),
})

export interface ContainerStart {
  readonly kind: z.output<typeof options>['kind']
  /** The engine's own argument. */
  readonly start: Readonly<Record<string, unknown>>
}

/** Throws a sentence about the first wrong option. */
export function readContainerOptions(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  cpus: number,
): ContainerStart {
  const named = Object.keys(options.shape).map((name) => [name, { type: 'string' as const }])
  const { values } = parseArgs({ args: [...args], options: Object.fromEntries(named), strict: true })
  const parsed = options.safeParse(values)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw new Error(`--${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not valid'}`)
  }
  const { kind, name, port, model, context, concurrency, queue, threads } = parsed.data
  if (kind === 'chat' && model === undefined) throw new Error('--model: the GGUF file of the chat model is missing')
  const apiKey = env['ENGINE_API_KEY']
  return {
    kind,
    start: {
      model: name,
      port,
      queue,
      threads: threads ?? cpus,
      ...(apiKey === undefined || apiKey === '' ? {} : { apiKey }),
      ...(kind === 'chat' ? { file: model, contextTokens: context ?? null, sequences: concurrency } : {}),
    },
  }
}
