/** The format and the end of answers, on the real engine. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { joinContent, startTinyEngine, type ChatChunk, type TinyEngine } from '../../../test/lab/tiny-engine.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let engine: TinyEngine
beforeAll(async () => {
  engine = await startTinyEngine()
})
afterAll(() => engine.stop())

const endless = { 257: -100, 260: -100 }
const greedy = { temperature: 0, logit_bias: endless }
const CHAT = '/v1/chat/completions'
const messages = [{ role: 'user', content: 'Hi' }]

async function greedyText(): Promise<string> {
  const { choices } = await engine.chat({ ...greedy, max_tokens: 80 })
  return choices[0]?.message.content ?? ''
}

const finishOf = (chunks: readonly ChatChunk[]): unknown =>
  chunks.flatMap(({ choices }) => choices).findLast(({ index }) => index === 0)?.finish_reason

describe('the length of an answer', () => {
  test.each(['max_tokens', 'max_completion_tokens'])(
    '%s limits the answer to exactly that many tokens',
    async (name) => {
      for (const count of [1, 17]) {
        const { choices, usage } = await engine.chat({ ...greedy, [name]: count })
        expect(choices[0]?.finish_reason).toBe('length')
        // The tiny model has one token per letter.
        expect(choices[0]?.message.content).toHaveLength(count)
        expect(usage).toMatchObject({ completion_tokens: count, total_tokens: usage.prompt_tokens + count })
      }
    },
  )

  test('an answer without a limit fills the rest of the context', async () => {
    const content = 'a'.repeat(1_900)
    const { choices, usage } = await engine.chat({ ...greedy, messages: [{ role: 'user', content }] })
    expect(choices[0]?.finish_reason).toBe('length')
    expect(usage.total_tokens).toBe(2_048)
    expect(usage.prompt_tokens).toBeGreaterThan(1_900)
  })

  test.each([2_000, 1_000_000])('rejects a prompt of more than %i letters and names the field', async (count) => {
    const content = 'a'.repeat(count) + 'b'.repeat(100)
    const chat = await engine.refuse(CHAT, { model: 'tiny', messages: [{ role: 'user', content }] })
    expect(chat).toMatchObject({ status: 400, error: { param: 'messages', code: 'context_length_exceeded' } })
    expect(chat.error.message).toMatch(/^This model's maximum context length is 2048 tokens/)
    const text = await engine.refuse('/v1/completions', { model: 'tiny', prompt: content })
    expect(text).toMatchObject({ status: 400, error: { param: 'prompt', code: 'context_length_exceeded' } })
  })
})

describe('stop', () => {
  test('ends the answer before a stop text that spans tokens', async () => {
    const text = await greedyText()
    const stop = text.slice(30, 34)
    const { choices } = await engine.chat({ ...greedy, max_tokens: 80, stop })
    expect(choices[0]).toMatchObject({
      message: { content: text.slice(0, text.indexOf(stop)) },
      finish_reason: 'stop',
    })
  })

  test('streams no part of the stop text, and delivers text that only resembles it', async () => {
    const text = await greedyText()
    const stop = [`${text.slice(5, 8)}\u0001`, text.slice(30, 34)]
    const chunks = await engine.chatChunks({ ...greedy, max_tokens: 80, stop })
    expect(joinContent(chunks)).toBe(text.slice(0, text.indexOf(text.slice(30, 34))))
    expect(finishOf(chunks)).toBe('stop')
  })

  test('leaves the answer unchanged if the stop text does not occur', async () => {
    const { choices } = await engine.chat({ ...greedy, max_tokens: 80, stop: ['\u0001\u0002'] })
    expect(choices[0]).toMatchObject({ message: { content: await greedyText() }, finish_reason: 'length' })
  })
})

describe('n', () => {
  test('gives each choice its own seed', async () => {
    const body = { seed: 40, max_tokens: 40, logit_bias: endless }
    const { choices, usage } = await engine.chat({ ...body, n: 3 })
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(new Set(choices.map(({ message }) => message.content)).size).toBe(3)
    const alone = await engine.chat({ ...body, seed: 42 })
    expect(choices[2]?.message.content).toBe(alone.choices[0]?.message.content)
    expect(usage).toMatchObject({ prompt_tokens: alone.usage.prompt_tokens, completion_tokens: 120 })
  })

  test('includes the index in streamed choices', async () => {
    const body = { seed: 40, max_tokens: 40, logit_bias: endless, n: 2 }
    const [plain, chunks] = [await engine.chat(body), await engine.chatChunks(body)]
    for (const { index, message } of plain.choices) expect(joinContent(chunks, index)).toBe(message.content)
  })

  test('orders the choices of a completion by prompt', async () => {
    const body = { ...greedy, max_tokens: 5 }
    const { choices, usage } = await engine.complete({ ...body, prompt: ['abc', 'xyz'], n: 2 })
    const [abc, xyz] = [
      await engine.complete({ ...body, prompt: 'abc' }),
      await engine.complete({ ...body, prompt: 'xyz' }),
    ]
    const texts = [abc, abc, xyz, xyz].map((answer) => answer.choices[0]?.text)
    expect(choices.map(({ index, text }) => [index, text])).toEqual(texts.map((text, index) => [index, text]))
    expect(usage).toMatchObject({ prompt_tokens: 8, completion_tokens: 20 })
  })
})

describe('streams', () => {
  test('start with the role, end with the finish reason, and match the plain answer', async () => {
    const body = { seed: 3, max_tokens: 30 }
    const [plain, chunks] = [await engine.chat(body), await engine.chatChunks(body)]
    expect(chunks[0]?.choices).toEqual([{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }])
    expect(chunks.at(-1)?.choices).toEqual([{ index: 0, delta: {}, finish_reason: plain.choices[0]?.finish_reason }])
    expect(joinContent(chunks)).toBe(plain.choices[0]?.message.content)
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1)
    expect(chunks.every(({ usage }) => usage === undefined)).toBe(true)
  })

  test('have no opening chunk for completions', async () => {
    const body = { ...greedy, prompt: 'abc', max_tokens: 4 }
    const [plain, chunks] = [await engine.complete(body), await engine.completeChunks(body)]
    expect(chunks.map(({ choices }) => choices[0]?.text).join('')).toBe(plain.choices[0]?.text)
    expect(chunks.map(({ choices }) => choices[0]?.finish_reason)).toEqual([null, null, null, null, 'length'])
  })

  test('end with a chunk without choices if include_usage is set', async () => {
    const chunks = await engine.chatChunks({ ...greedy, max_tokens: 5, stream_options: { include_usage: true } })
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 5 } })
    expect(chunks.slice(0, -1).every(({ usage }) => usage === undefined)).toBe(true)
  })

  test('report usage in every chunk if continuous_usage_stats is set', async () => {
    const stream_options = { include_usage: true, continuous_usage_stats: true }
    const chunks = await engine.chatChunks({ ...greedy, max_tokens: 4, stream_options })
    // The opening chunk is sent with the first token.
    expect(chunks.map(({ usage }) => usage?.completion_tokens)).toEqual([1, 1, 2, 3, 4, 4, 4])
  })

  test('send a character of several tokens in one chunk', async () => {
    const schema = { const: 'é—😀' }
    const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } }
    const chunks = await engine.chatChunks({ ...greedy, response_format })
    const parts = chunks.flatMap(({ choices }) => choices[0]?.delta.content ?? [])
    expect(parts.filter((part) => part !== '')).toEqual(['"', 'é', '—', '😀', '"'])
  })
})

describe('logprobs', () => {
  const letters = { ...greedy, max_tokens: 20, logprobs: true }

  test('list each token of the answer and its likeliest alternatives', async () => {
    const { choices } = await engine.chat({ ...letters, top_logprobs: 5 })
    const content = choices[0]?.logprobs?.content ?? []
    expect(content.map(({ token }) => token).join('')).toBe(choices[0]?.message.content)
    for (const { token, logprob, bytes, top_logprobs: top } of content) {
      expect(logprob).toBeLessThanOrEqual(0)
      expect(Buffer.from(bytes).toString()).toBe(token)
      expect(top).toHaveLength(5)
      // At temperature 0 the likeliest token is taken.
      expect(top[0]).toEqual({ token, logprob, bytes })
      expect(top.map((one) => one.logprob)).toEqual(top.map((one) => one.logprob).toSorted((a, b) => b - a))
      expect(top.reduce((sum, one) => sum + Math.exp(one.logprob), 0)).toBeLessThanOrEqual(1.000_01)
    }
  })

  test('are independent of the temperature', async () => {
    const first = async (temperature: number): Promise<number[]> => {
      // The first token must not be the end token, which has no log-probability.
      const drawn = { temperature, seed: 1, max_tokens: 1, logit_bias: endless }
      const { choices } = await engine.chat({ ...drawn, logprobs: true, top_logprobs: 8 })
      return choices[0]?.logprobs?.content[0]?.top_logprobs.map(({ logprob }) => logprob) ?? []
    }
    const [raw, hot] = [await first(1), await first(1.7)]
    expect(raw).toHaveLength(8)
    raw.forEach((logprob, at) => expect(hot[at]).toBeCloseTo(logprob, 3))
  })

  test('do not change the answer', async () => {
    const body = { seed: 9, max_tokens: 40 }
    const [without, withThem] = [await engine.chat(body), await engine.chat({ ...body, logprobs: 3 })]
    expect(withThem.choices[0]?.message).toEqual(without.choices[0]?.message)
    expect(withThem.choices[0]?.logprobs?.content[0]?.top_logprobs).toHaveLength(3)
    expect(without.choices[0]?.logprobs).toBeNull()
  })

  test('are streamed with their text and omit the stop text', async () => {
    const text = await greedyText()
    const chunks = await engine.chatChunks({ ...letters, max_tokens: 80, stop: text.slice(30, 34) })
    for (const { choices } of chunks) {
      const { delta, logprobs } = choices[0] ?? {}
      expect((logprobs?.content ?? []).map(({ token }) => token).join('')).toBe(delta?.content ?? '')
    }
  })

  test('have the older format for completions', async () => {
    const { choices } = await engine.complete({ ...greedy, prompt: 'abc', max_tokens: 3, logprobs: 2 })
    const { text = '', logprobs } = choices[0] ?? {}
    expect(logprobs?.tokens).toEqual(Array.from(text))
    expect(logprobs?.text_offset).toEqual([0, 1, 2])
    logprobs?.tokens.forEach((token, at) => {
      expect(Object.keys(logprobs.top_logprobs[at] ?? {})).toHaveLength(2)
      expect(logprobs.top_logprobs[at]?.[token]).toBe(logprobs.token_logprobs[at])
    })
  })
})

describe('names the field of an unsupported or invalid value', () => {
  const image = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:' } }] }]
  const tools = [{ type: 'function', function: { name: 'f' } }]
  test.each<[string, object]>([
    ['messages.0.content', { messages: image }],
    ['top_logprobs', { top_logprobs: 2 }],
    ['logprobs', { logprobs: true, tools }],
    ['response_format', { response_format: { type: 'json_object' }, tools }],
    [
      'response_format',
      { response_format: { type: 'json_schema', json_schema: { schema: { type: 'string', pattern: 'x' } } } },
    ],
    ['response_format', { response_format: { type: 'json_schema', json_schema: { schema: { $ref: '#' } } } }],
    ['tool_choice', { tool_choice: 'required' }],
    ['tool_choice', { tools, tool_choice: { type: 'function', function: { name: 'g' } } }],
    ['functions', { functions: [] }],
    ['ignore_eos', { ignore_eos: true }],
    ['temperature', { temperature: 3 }],
    ['stop.0', { stop: [''] }],
    ['n', { n: 0 }],
  ])('%s %j', async (param, body) => {
    const refused = await engine.refuse(CHAT, { model: 'tiny', messages, ...body })
    expect(refused).toMatchObject({ status: 400, error: { param, type: 'invalid_request_error' } })
  })

  test.each(['suffix', 'echo', 'best_of'])('%s of a completion', async (param) => {
    const refused = await engine.refuse('/v1/completions', { model: 'tiny', prompt: 'x', [param]: 2 })
    expect(refused).toMatchObject({ status: 400, error: { param, code: 'unsupported_parameter' } })
  })

  test('rejects another model, invalid JSON and another path', async () => {
    expect(await engine.refuse(CHAT, { model: 'other', messages })).toMatchObject({
      status: 404,
      error: { param: 'model' },
    })
    expect(await engine.refuse(CHAT, '{')).toMatchObject({ status: 400, error: { code: 'not_json' } })
    expect(await engine.refuse('/v1/embeddings', {})).toMatchObject({ status: 404 })
  })

  test('treats null like an absent field', async () => {
    const nothing = { stop: null, seed: null, tools: null, suffix: null, max_tokens: 5, ...greedy }
    expect((await engine.chat(nothing)).usage.completion_tokens).toBe(5)
  })
})
