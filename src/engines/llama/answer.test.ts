/** What answers look like, and where they end, on the real engine. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { joinContent, startTinyEngine, type ChatChunk, type TinyEngine } from '../../../test/harness/tiny-engine.ts'

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
  test.each(['max_tokens', 'max_completion_tokens'])('%s is met to the token', async (name) => {
    for (const count of [1, 17]) {
      const { choices, usage } = await engine.chat({ ...greedy, [name]: count })
      expect(choices[0]?.finish_reason).toBe('length')
      // Each letter is a token of the tiny model.
      expect(choices[0]?.message.content).toHaveLength(count)
      expect(usage).toMatchObject({ completion_tokens: count, total_tokens: usage.prompt_tokens + count })
    }
  })

  test('without a limit it may fill what is left of the context', async () => {
    const content = 'a'.repeat(1_900)
    const { choices, usage } = await engine.chat({ ...greedy, messages: [{ role: 'user', content }] })
    expect(choices[0]?.finish_reason).toBe('length')
    expect(usage.total_tokens).toBe(2_048)
    expect(usage.prompt_tokens).toBeGreaterThan(1_900)
  })

  test.each([2_000, 1_000_000])('a prompt of %i letters and more is refused by its name', async (count) => {
    const content = 'a'.repeat(count) + 'b'.repeat(100)
    const chat = await engine.refuse(CHAT, { model: 'tiny', messages: [{ role: 'user', content }] })
    expect(chat).toMatchObject({ status: 400, error: { param: 'messages', code: 'context_length_exceeded' } })
    expect(chat.error.message).toMatch(/^This model's maximum context length is 2048 tokens/)
    const text = await engine.refuse('/v1/completions', { model: 'tiny', prompt: content })
    expect(text).toMatchObject({ status: 400, error: { param: 'prompt', code: 'context_length_exceeded' } })
  })
})

describe('stop', () => {
  test('the answer ends before the stop text, which lies across tokens', async () => {
    const text = await greedyText()
    const stop = text.slice(30, 34)
    const { choices } = await engine.chat({ ...greedy, max_tokens: 80, stop })
    expect(choices[0]).toMatchObject({
      message: { content: text.slice(0, text.indexOf(stop)) },
      finish_reason: 'stop',
    })
  })

  test('in a stream no part of the stop text is seen, and what looked like one is delivered', async () => {
    const text = await greedyText()
    const stop = [`${text.slice(5, 8)}\u0001`, text.slice(30, 34)]
    const chunks = await engine.chatChunks({ ...greedy, max_tokens: 80, stop })
    expect(joinContent(chunks)).toBe(text.slice(0, text.indexOf(text.slice(30, 34))))
    expect(finishOf(chunks)).toBe('stop')
  })

  test('a stop text that does not come changes nothing', async () => {
    const { choices } = await engine.chat({ ...greedy, max_tokens: 80, stop: ['\u0001\u0002'] })
    expect(choices[0]).toMatchObject({ message: { content: await greedyText() }, finish_reason: 'length' })
  })
})

describe('n', () => {
  test('choices differ, and each is what its own seed gives', async () => {
    const body = { seed: 40, max_tokens: 40, logit_bias: endless }
    const { choices, usage } = await engine.chat({ ...body, n: 3 })
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(new Set(choices.map(({ message }) => message.content)).size).toBe(3)
    const alone = await engine.chat({ ...body, seed: 42 })
    expect(choices[2]?.message.content).toBe(alone.choices[0]?.message.content)
    expect(usage).toMatchObject({ prompt_tokens: alone.usage.prompt_tokens, completion_tokens: 120 })
  })

  test('streamed choices carry their index', async () => {
    const body = { seed: 40, max_tokens: 40, logit_bias: endless, n: 2 }
    const [plain, chunks] = [await engine.chat(body), await engine.chatChunks(body)]
    for (const { index, message } of plain.choices) expect(joinContent(chunks, index)).toBe(message.content)
  })

  test('several prompts of a completion have their choices one after the other', async () => {
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
  test('begin with the role, end with the reason, and say the same as a plain answer', async () => {
    const body = { seed: 3, max_tokens: 30 }
    const [plain, chunks] = [await engine.chat(body), await engine.chatChunks(body)]
    expect(chunks[0]?.choices).toEqual([{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }])
    expect(chunks.at(-1)?.choices).toEqual([{ index: 0, delta: {}, finish_reason: plain.choices[0]?.finish_reason }])
    expect(joinContent(chunks)).toBe(plain.choices[0]?.message.content)
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1)
    expect(chunks.every(({ usage }) => usage === undefined)).toBe(true)
  })

  test('of completions have no opening', async () => {
    const body = { ...greedy, prompt: 'abc', max_tokens: 4 }
    const [plain, chunks] = [await engine.complete(body), await engine.completeChunks(body)]
    expect(chunks.map(({ choices }) => choices[0]?.text).join('')).toBe(plain.choices[0]?.text)
    expect(chunks.map(({ choices }) => choices[0]?.finish_reason)).toEqual([null, null, null, null, 'length'])
  })

  test('include_usage adds a last chunk without choices', async () => {
    const chunks = await engine.chatChunks({ ...greedy, max_tokens: 5, stream_options: { include_usage: true } })
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 5 } })
    expect(chunks.slice(0, -1).every(({ usage }) => usage === undefined)).toBe(true)
  })

  test('continuous_usage_stats counts in every chunk', async () => {
    const stream_options = { include_usage: true, continuous_usage_stats: true }
    const chunks = await engine.chatChunks({ ...greedy, max_tokens: 4, stream_options })
    // The opening goes out with the first token.
    expect(chunks.map(({ usage }) => usage?.completion_tokens)).toEqual([1, 1, 2, 3, 4, 4, 4])
  })

  test('a character of several tokens comes whole', async () => {
    const schema = { const: 'é—😀' }
    const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } }
    const chunks = await engine.chatChunks({ ...greedy, response_format })
    const parts = chunks.flatMap(({ choices }) => choices[0]?.delta.content ?? [])
    expect(parts.filter((part) => part !== '')).toEqual(['"', 'é', '—', '😀', '"'])
  })
})

describe('logprobs', () => {
  const letters = { ...greedy, max_tokens: 20, logprobs: true }

  test('rate each token of the answer, with the likeliest beside it', async () => {
    const { choices } = await engine.chat({ ...letters, top_logprobs: 5 })
    const content = choices[0]?.logprobs?.content ?? []
    expect(content.map(({ token }) => token).join('')).toBe(choices[0]?.message.content)
    for (const { token, logprob, bytes, top_logprobs: top } of content) {
      expect(logprob).toBeLessThanOrEqual(0)
      expect(Buffer.from(bytes).toString()).toBe(token)
      expect(top).toHaveLength(5)
      // Without temperature the likeliest is taken.
      expect(top[0]).toEqual({ token, logprob, bytes })
      expect(top.map((one) => one.logprob)).toEqual(top.map((one) => one.logprob).toSorted((a, b) => b - a))
      expect(top.reduce((sum, one) => sum + Math.exp(one.logprob), 0)).toBeLessThanOrEqual(1.000_01)
    }
  })

  test('are those before the temperature', async () => {
    const first = async (temperature: number): Promise<number[]> => {
      // The first token must not be the end, which has no rating.
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

  test('stream together with their text, and none of a stop text', async () => {
    const text = await greedyText()
    const chunks = await engine.chatChunks({ ...letters, max_tokens: 80, stop: text.slice(30, 34) })
    for (const { choices } of chunks) {
      const { delta, logprobs } = choices[0] ?? {}
      expect((logprobs?.content ?? []).map(({ token }) => token).join('')).toBe(delta?.content ?? '')
    }
  })

  test('of completions have the older shape', async () => {
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

describe('what cannot be had is refused by its name', () => {
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

  test('another model, no JSON, another path', async () => {
    expect(await engine.refuse(CHAT, { model: 'other', messages })).toMatchObject({
      status: 404,
      error: { param: 'model' },
    })
    expect(await engine.refuse(CHAT, '{')).toMatchObject({ status: 400, error: { code: 'not_json' } })
    expect(await engine.refuse('/v1/embeddings', {})).toMatchObject({ status: 404 })
  })

  test('null is the same as nothing', async () => {
    const nothing = { stop: null, seed: null, tools: null, suffix: null, max_tokens: 5, ...greedy }
    expect((await engine.chat(nothing)).usage.completion_tokens).toBe(5)
  })
})
