/**
 * OpenAI-compatible embedding requests. Nothing is truncated silently: a text longer than the model's context is
 * rejected unless `truncate` is true. An empty or blank text is rejected too, since its vector has no direction.
 */
import { setImmediate } from 'node:timers/promises'
import { z } from 'zod'
import { failField, ok, type Result } from '../../contract/result.ts'
import { readFields, type EngineCall } from '../engine-http.ts'
import { WorkQueue } from '../engine-queue.ts'
import { DIMENSIONS, MAX_TOKENS, type EmbeddingModel } from './mini-lm.ts'
import type { Tokens } from './word-piece.ts'

const MAX_INPUTS = 2_048
/** Requests that alternate, text by text, so that a long list does not block short ones. */
const PLACES = 4
/** Used until a request has been measured. */
const GUESSED_MS_PER_TOKEN = 0.2
/** 512 of the longest words, far more than the model's context. The rest of a longer text is not tokenized. */
const MAX_TEXT_CHARS = 100_000
/** Only the start and end tokens. */
const EMPTY_TOKENS = 2
/** Enough digits to distinguish any two 32-bit floats. */
const FLOAT_DIGITS = 9

/** One text as tokens of this model. */
const tokenList = z.array(z.int().min(0)).min(1).max(MAX_TEXT_CHARS)

const requestForm = z.looseObject({
  input: z.union(
    [z.string(), z.array(z.string()).min(1).max(MAX_INPUTS), tokenList, z.array(tokenList).min(1).max(MAX_INPUTS)],
    { error: `must be a string or a list of tokens, or a list of 1 to ${MAX_INPUTS} of them` },
  ),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: z.literal(DIMENSIONS, { error: `must be ${DIMENSIONS}: this model has no other` }).nullish(),
  truncate: z.boolean().nullish(),
})

/** A text or its tokens. */
type Input = string | readonly number[]

export class EmbeddingHandler {
  readonly queue: WorkQueue
  readonly #model: EmbeddingModel
  readonly #modelName: string

  constructor(model: EmbeddingModel, modelName: string, queueLimit: number) {
    this.#model = model
    this.#modelName = modelName
    this.queue = new WorkQueue(queueLimit, { texts: { places: PLACES, msPerUnit: GUESSED_MS_PER_TOKEN } })
  }

  async embed({ body, signal }: EngineCall): Promise<Result<unknown>> {
    const request = readFields(requestForm, body)
    if (!request.ok) return request
    const { input, encoding_format: format, truncate } = request.value
    const texts = await this.#tokenize(input, truncate ?? false)
    if (!texts.ok) return texts
    const tokens = texts.value.reduce((sum, ids) => sum + ids.length, 0)
    return this.queue.run('texts', tokens, signal, async () => {
      const data: unknown[] = []
      for (const [index, ids] of texts.value.entries()) {
        signal.throwIfAborted()
        const vector = await this.#model.embed(ids)
        data.push({ object: 'embedding', index, embedding: format === 'base64' ? toBase64(vector) : toNumbers(vector) })
      }
      return ok({
        object: 'list',
        data,
        model: this.#modelName,
        usage: { prompt_tokens: tokens, total_tokens: tokens },
      })
    })
  }

  #read(text: Input): Tokens {
    if (typeof text !== 'string') {
      const isCut = text.length > MAX_TOKENS - EMPTY_TOKENS
      return { ids: this.#model.wrap(isCut ? text.slice(0, MAX_TOKENS - EMPTY_TOKENS) : text), isCut }
    }
    const { ids, isCut } = this.#model.tokenize(text.slice(0, MAX_TEXT_CHARS))
    return { ids, isCut: isCut || text.length > MAX_TEXT_CHARS }
  }

  async #tokenize(input: Input | readonly Input[], truncate: boolean): Promise<Result<Array<readonly number[]>>> {
    const texts: Array<readonly number[]> = []
    let chars = 0
    const isOne = typeof input === 'string' || typeof input[0] === 'number'
    for (const [index, text] of (isOne ? [input as Input] : (input as readonly Input[])).entries()) {
      const path = isOne ? ['input'] : ['input', index]
      const unknown = typeof text === 'string' ? undefined : text.find((id) => id >= this.#model.vocabularySize)
      if (unknown !== undefined) {
        return failField(path, 'invalid_value', {
          message: `${path.join('.')}: ${unknown} is not a token of this model.`,
        })
      }
      const { ids, isCut } = this.#read(text)
      if (isCut && !truncate) {
        return failField(path, 'context_length_exceeded', {
          message: `This model's maximum context length is ${MAX_TOKENS} tokens, and ${path.join('.')} has more. Send shorter texts, or set truncate to true.`,
        })
      }
      if (ids.length <= EMPTY_TOKENS) {
        return failField(path, 'empty_input', { name: path.join('.') })
      }
      texts.push(ids)
      chars += text.length
      if (chars < MAX_TEXT_CHARS) continue
      // Lets other requests run.
      await setImmediate()
      chars = 0
    }
    return ok(texts)
  }
}

function toNumbers(vector: Float32Array): number[] {
  return Array.from(vector, (value) => Number(value.toPrecision(FLOAT_DIGITS)))
}

/** Little-endian 32-bit floats. */
function toBase64(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * 4)
  vector.forEach((value, i) => bytes.writeFloatLE(value, 4 * i))
  return bytes.toString('base64')
}
