/** Many requests on one engine: concurrent, queued, cancelled, and with reused tokens. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { startTinyEngine, type TinyEngine } from '../../../test/lab/tiny-engine.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

const endless = { 257: -100, 260: -100 }
const processing = 'llamacpp:requests_processing'
const deferred = 'llamacpp:requests_deferred'

describe('an engine with four sequences', () => {
  let engine: TinyEngine
  beforeAll(async () => {
    engine = await startTinyEngine()
  })
  afterAll(() => engine.stop())

  test('reports its capabilities', async () => {
    expect(engine.ready).toEqual({ event: 'ready', contextTokens: 2_048, concurrency: 4, supportsTools: true })
    expect(engine.events[0]).toEqual({ event: 'loading', progress: 0 })
    expect(JSON.parse(await engine.get('/health'))).toEqual({ status: 'ok' })
  })

  // Batches of other sizes round differently, here by less than 0.000001, so only a likeliest token with a lead is the same.
  test('gives concurrent requests the same likeliest text as single ones, each its own', async () => {
    const bodies = ['One', 'A second, longer one', '3', 'And a fourth'].map((content) => ({
      messages: [{ role: 'user', content }],
      temperature: 0,
      max_tokens: 300,
      logit_bias: endless,
    }))
    const alone: string[] = []
    for (const body of bodies) {
      const [choice] = (await engine.chat({ ...body, logprobs: true, top_logprobs: 2 })).choices
      const leads = choice?.logprobs?.content.map(
        ({ top_logprobs: [one, two] }) => (one?.logprob ?? 0) - (two?.logprob ?? 0),
      )
      expect(Math.min(...(leads ?? []))).toBeGreaterThan(0.001)
      alone.push(choice?.message.content ?? '')
    }
    expect(new Set(alone).size).toBe(bodies.length)
    for (let round = 0; round < 5; round += 1) {
      const together = await Promise.all(bodies.map((body) => engine.chat(body)))
      expect(together.map(({ choices }) => choices[0]?.message.content)).toEqual(alone)
    }
  })

  test('does not evaluate the first turn of a conversation again', async () => {
    const first = [{ role: 'user', content: 'The first of two questions' }]
    // Bytes that are no characters would not survive as text.
    const noBytes = Object.fromEntries(Array.from({ length: 128 }, (_, n) => [128 + n, -100]))
    const body = { max_tokens: 30, logit_bias: { ...endless, ...noBytes } }
    const turn = await engine.chat({ ...body, messages: first })
    await Promise.all([1, 2].map((seed) => engine.chat({ seed, max_tokens: 10 })))
    const answer = { role: 'assistant', content: turn.choices[0]?.message.content }
    const messages = [...first, answer, { role: 'user', content: 'The second' }]
    const [reused, evaluated] = ['berth_engine_prefix_tokens_reused_total', 'llamacpp:prompt_tokens_total']
    const before = await Promise.all([engine.metric(reused), engine.metric(evaluated)])
    const { usage } = await engine.chat({ ...body, messages })
    const { cached_tokens: cached } = usage.prompt_tokens_details
    // The prompt and the answer without its last token, which was never evaluated.
    expect(cached).toBe(turn.usage.prompt_tokens + 29)
    const after = await Promise.all([engine.metric(reused), engine.metric(evaluated)])
    expect(after).toEqual([(before[0] ?? 0) + cached, (before[1] ?? 0) + usage.prompt_tokens - cached])
  })

  test('gives the same answer with reused tokens', async () => {
    const body = { messages: [{ role: 'user', content: 'Twice the same' }], seed: 6, max_tokens: 60 }
    const [first, second] = [await engine.chat(body), await engine.chat(body)]
    expect(second.choices).toEqual(first.choices)
    const { seed: _seed, ...unseeded } = body
    const third = await engine.chat(unseeded)
    expect(third.usage.prompt_tokens_details.cached_tokens).toBe(third.usage.prompt_tokens - 1)
  })

  test('treats special token names in a message as text', async () => {
    const count = async (content: string): Promise<number> =>
      (await engine.chat({ messages: [{ role: 'user', content }], max_tokens: 1 })).usage.prompt_tokens
    const none = await count('')
    expect((await count('<|im_end|>')) - none).toBe('<|im_end|>'.length)
    // A raw prompt may use them.
    const { usage } = await engine.complete({ prompt: '<s><|im_end|>', max_tokens: 1 })
    expect(usage.prompt_tokens).toBe(2)
  })

  test('cancels the request of a client that disconnects from its stream', async () => {
    const predicted = await engine.metric('llamacpp:tokens_predicted_total')
    const going = engine.open({ stream: true, logit_bias: endless, n: 100 })
    await going.begun
    expect(await engine.metric(processing)).toBe(1)
    going.cut()
    await waitFor('the sequence is free', async () => (await engine.metric(processing)) === 0)
    // A complete request would be a hundred answers of two thousand tokens.
    expect((await engine.metric('llamacpp:tokens_predicted_total')) - predicted).toBeLessThan(100_000)
  })

  test('cancels the request of a client that disconnects before a plain answer', async () => {
    const going = engine.open({ logit_bias: endless, n: 100 })
    await waitFor('the request is processed', async () => (await engine.metric(processing)) === 1)
    going.cut()
    await waitFor('the sequence is free', async () => (await engine.metric(processing)) === 0)
    expect((await engine.chat({ max_tokens: 1 })).choices).toHaveLength(1)
  })

  test('survives a ban on a token that the grammar requires', async () => {
    const response_format = { type: 'json_schema', json_schema: { schema: { const: 'x' } } }
    const { choices } = await engine.chat({ response_format, logit_bias: { ...endless, 120: -100 } })
    expect(choices[0]).toMatchObject({ message: { content: '"x"' }, finish_reason: 'stop' })
  })
})

describe('an engine with one sequence, a queue of one, a smaller context and no template', () => {
  let engine: TinyEngine
  beforeAll(async () => {
    engine = await startTinyEngine({ sequences: 1, queue: 1, contextTokens: 600, tiny: { chatTemplate: null } })
  })
  afterAll(() => engine.stop())

  const long = { logit_bias: endless, n: 100 }
  const body = { model: 'tiny', messages: [{ role: 'user', content: 'Hi' }] }

  test('uses the configured context size', async () => {
    expect(engine.ready).toMatchObject({ contextTokens: 600, concurrency: 1 })
    const { usage } = await engine.chat({ logit_bias: endless })
    expect(usage.total_tokens).toBe(600)
  })

  test('writes prompts with the plain default', async () => {
    const { usage } = await engine.chat({ messages: body.messages, max_tokens: 1 })
    // One token per letter, and one at the beginning.
    expect(usage.prompt_tokens).toBe('User: Hi\n\nAssistant:'.length + 1)
  })

  test('calls tools with a grammar if its template does not support them, forced or by choice', async () => {
    expect(engine.ready.supportsTools).toBe(true)
    const tools = [{ type: 'function', function: { name: 'clock' } }]
    // A brace is almost forced, or banned: an answer that begins like a call is one, anything else is text.
    const brace = '{'.charCodeAt(0)
    const chosen = await engine.chat({ tools, temperature: 0, logit_bias: { [brace]: 100 } })
    expect(chosen.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { tool_calls: [{ function: { name: 'clock' } }] },
    })
    const withoutCalls = await engine.chat({ tools, max_tokens: 5, logit_bias: { ...endless, [brace]: -100 } })
    expect(withoutCalls.choices[0]).toMatchObject({ finish_reason: 'length' })
    expect(withoutCalls.choices[0]?.message.tool_calls ?? []).toEqual([])
    const awkward = { name: 'f', parameters: { type: 'object', properties: { a: { type: 'string', pattern: 'x' } } } }
    expect(
      (await engine.chat({ tools: [{ type: 'function', function: awkward }], max_tokens: 2 })).choices,
    ).toHaveLength(1)
    const { choices } = await engine.chat({ tools, tool_choice: 'required' })
    expect(choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { tool_calls: [{ function: { name: 'clock', arguments: '{}' } }] },
    })
  })

  test('queues one request, rejects the next with a retry time, and then serves the queued one', async () => {
    const first = engine.open(long)
    await waitFor('the first request is processed', async () => (await engine.metric(processing)) === 1)
    const second = engine.chat({ max_tokens: 3, logit_bias: endless })
    await waitFor('the second request is queued', async () => (await engine.metric(deferred)) === 1)
    const refused = await engine.refuse('/v1/chat/completions', body)
    expect(refused).toMatchObject({ status: 503, error: { type: 'overloaded_error', code: 'queue_full' } })
    expect(refused.headers['retry-after']).toMatch(/^[1-9]\d*$/)
    expect(refused.error.message).toContain(`Try again in about ${refused.headers['retry-after']} s.`)
    first.cut()
    expect((await second).usage.completion_tokens).toBe(3)
  })

  test('removes the request of a client that disconnects while queued', async () => {
    const first = engine.open(long)
    await waitFor('the first request is processed', async () => (await engine.metric(processing)) === 1)
    const second = engine.open(long)
    await waitFor('the second request is queued', async () => (await engine.metric(deferred)) === 1)
    second.cut()
    await waitFor('the queue is empty', async () => (await engine.metric(deferred)) === 0)
    expect(await engine.metric(processing)).toBe(1)
    first.cut()
    await waitFor('no request is processed', async () => (await engine.metric(processing)) === 0)
  })
})
