/** Validates image requests. Every error names its field and limit. */
import { randomInt } from 'node:crypto'
import { z } from 'zod'
import { ok, type Result } from '../../contract/result.ts'
import { readFields } from '../engine-http.ts'

const MIN_SIDE = 128
const MAX_SIDE = 2_496
const MAX_STEPS = 1_000
const MAX_GUIDANCE = 50
const MAX_PROMPT_CHARS = 10_000
/** Random seeds are short enough to be retyped. */
const DRAWN_SEEDS = 2 ** 32
const MAX_PARTIALS = 3

export interface ImageRequest {
  readonly prompt: string
  /** Empty: none. */
  readonly negativePrompt: string
  readonly width: number
  readonly height: number
  readonly steps: number
  readonly cfgScale: number
  readonly seed: number
  readonly stream: boolean
  /** How many unfinished images a stream should contain. */
  readonly partialImages: number
}

const side = wholeNumber(MIN_SIDE, MAX_SIDE).default(1_024)
const prompt = z.string('must be a text').max(MAX_PROMPT_CHARS, `must have at most ${MAX_PROMPT_CHARS} characters`)
const cfgFault = `must be a number from 0 to ${MAX_GUIDANCE}`
const seedFault = 'must be a whole number from -(2^53 - 1) to 2^53 - 1'

const requestForm = z.looseObject({
  // A prompt of marks and invisible characters only would be empty to the model.
  prompt: prompt.regex(/[^\s\p{C}\p{M}]/u, 'must contain text'),
  negative_prompt: prompt.nullish(),
  width: side,
  height: side,
  steps: wholeNumber(1, MAX_STEPS).default(30),
  cfg_scale: z.number(cfgFault).min(0, cfgFault).max(MAX_GUIDANCE, cfgFault).default(5),
  seed: z.int(seedFault).nullish(),
  stream: z.boolean('must be true or false').nullish(),
  partial_images: wholeNumber(0, MAX_PARTIALS).nullish(),
})

export function readRequest(body: unknown): Result<ImageRequest> {
  const fields = readFields(requestForm, body)
  if (!fields.ok) return fields
  const { cfg_scale: cfgScale, negative_prompt: negativePrompt, seed, stream, ...rest } = fields.value
  const isStream = stream ?? false
  return ok({
    prompt: rest.prompt,
    negativePrompt: negativePrompt ?? '',
    width: rest.width,
    height: rest.height,
    steps: rest.steps,
    cfgScale,
    seed: seed ?? randomInt(DRAWN_SEEDS),
    stream: isStream,
    partialImages: isStream ? (rest.partial_images ?? 0) : 0,
  })
}

function wholeNumber(min: number, max: number): z.ZodNumber {
  const fault = `must be a whole number from ${min} to ${max}`
  return z.int(fault).min(min, fault).max(max, fault)
}
