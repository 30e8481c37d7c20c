/**
 * Image requests: queueing, generation and progress. One image at a time, since it uses all threads. Nothing is
 * truncated silently: if a prompt is longer than the model reads, the answer says so.
 */
import { fail, ok, type Result } from '../../contract/result.ts'
import type { EngineCall } from '../engine-http.ts'
import { WorkQueue } from '../engine-queue.ts'
import type { ImageFacts } from './model-folder.ts'
import { gaussianNoise } from './noise.ts'
import type { Painter, EncodedPrompt } from './painter-process.ts'
import { ImageReply, type FinishedImage } from './image-reply.ts'
import { readRequest, type ImageRequest } from './request.ts'
import { sample, type Preview } from './sampler.ts'

/** Estimated time of a run for one text, used until one has been measured. */
const GUESSED_MS_PER_RUN = 100
/** Cost of decoding and the PNG, in runs. */
const FINISH_RUNS = 2
/** Finished images that clients have not read yet. */
const MAX_UNSENT = 32
const UNSENT_RETRY_MS = 5_000
/** How much of the end of the processed part of a prompt is quoted. */
const MAX_QUOTED_CHARS = 40

export class ImageHandler {
  readonly queue: WorkQueue
  readonly #painter: Painter
  readonly #facts: ImageFacts
  #unsent = 0

  constructor(painter: Painter, facts: ImageFacts, queueLimit: number) {
    this.#painter = painter
    this.#facts = facts
    this.queue = new WorkQueue(queueLimit, { images: { places: 1, msPerUnit: GUESSED_MS_PER_RUN } })
  }

  async generate({ body, signal, response }: EngineCall): Promise<Result<unknown>> {
    const request = readRequest(body)
    if (!request.ok) return request
    if (this.#unsent >= MAX_UNSENT) {
      return fail('queue_full', { waiting: this.#unsent, retryAfterMs: UNSENT_RETRY_MS })
    }
    const reply = new ImageReply(response, signal, request.value.stream)
    const painted = await this.#paintInTurn(request.value, reply, signal)
    if (!painted.ok) return painted
    // The next image is generated while the client reads this one.
    this.#unsent += 1
    try {
      await reply.finish(painted.value)
    } finally {
      this.#unsent -= 1
    }
    return ok(undefined)
  }

  async #paintInTurn(request: ImageRequest, reply: ImageReply, signal: AbortSignal): Promise<Result<FinishedImage>> {
    const units = request.steps * countTexts(request.cfgScale) + FINISH_RUNS * (1 + request.partialImages)
    const paint = async (): Promise<Result<FinishedImage>> => {
      reply.begin()
      return ok(await this.#paint(request, reply, signal))
    }
    try {
      return await this.queue.run('images', units, signal, paint, (ahead) => reply.reportQueued(ahead))
    } catch (cause) {
      reply.fail()
      throw cause
    }
  }

  async #paint(
    { prompt, negativePrompt, cfgScale, seed, steps, width, height, partialImages }: ImageRequest,
    reply: ImageReply,
    signal: AbortSignal,
  ): Promise<FinishedImage> {
    const notes: string[] = []
    const read = async (field: string, text: string): Promise<EncodedPrompt> => {
      const encoded = await this.#painter.encodePrompt(text)
      if (encoded.readPart !== undefined) notes.push(this.#noteOf(field, encoded.readPart))
      return encoded
    }
    const texts = [
      ...(cfgScale === 1 ? [] : [await read('negative_prompt', negativePrompt)]),
      ...(cfgScale === 0 ? [] : [await read('prompt', prompt)]),
    ]
    const [channels, rows, columns] = this.#facts.latent
    const partialSteps = stepsOfPartials(steps, partialImages)
    const onStep = async (step: number, preview: Preview): Promise<void> => {
      reply.reportProgress(step, steps)
      if (!partialSteps.has(step) || !reply.takesPartial || signal.aborted) return
      reply.sendPartial(await this.#painter.finish(preview(), { width, height }))
    }
    const latent = await sample({
      noise: gaussianNoise(seed, channels * rows * columns),
      steps,
      shift: this.#facts.shift,
      velocity: async (now, time) => guide(await this.#painter.velocities(now, time, texts), now.length, cfgScale),
      onStep,
      signal,
    })
    signal.throwIfAborted()
    return { png: await this.#painter.finish(latent, { width, height }), seed, notes }
  }

  #noteOf(field: string, readPart: string): string {
    const quote = readPart.length > MAX_QUOTED_CHARS ? `…${readPart.slice(-MAX_QUOTED_CHARS)}` : readPart
    // Two are the start and end tokens.
    const tokens = this.#facts.maxTokens - 2
    return `${field}: this model reads only ${tokens} tokens, here up to "${quote}". The rest had no effect`
  }
}

/**
 * The steps after which an unfinished image is sent, evenly spread. The last step gives the image itself, so there are
 * fewer than requested if there are few steps.
 */
function stepsOfPartials(steps: number, count: number): ReadonlySet<number> {
  const all = Array.from({ length: count }, (_, i) => Math.round(((i + 1) * steps) / (count + 1)))
  return new Set(all.filter((step) => step >= 1 && step < steps))
}

/** At scale 1 only the prompt matters and at 0 only the negative prompt, so the model needs one text only. */
function countTexts(cfgScale: number): number {
  return cfgScale === 0 || cfgScale === 1 ? 1 : 2
}

/** Classifier-free guidance: extrapolates from the negative prompt through the prompt. One text: its own velocity. */
function guide(velocities: Float32Array, size: number, scale: number): Float32Array {
  if (velocities.length === size) return velocities
  const [away, towards] = [velocities.subarray(0, size), velocities.subarray(size)]
  return away.map((value, i) => value + scale * ((towards[i] ?? 0) - value))
}
