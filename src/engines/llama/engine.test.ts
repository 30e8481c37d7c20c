/** Many requests on one engine: together, in line, cancelled, and with what was evaluated before. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { startTinyEngine, type TinyEngine } from '../../../test/harness/tiny-engine.ts'

const endless = { 257: -100, 260: -100 }
const processing = 'llamacpp:requests_processing'
const deferred = 'llamacpp:requests_deferred'

describe('an engine with four sequences', () => {
  let engine: TinyEngine
  beforeAll(async () => {
    engine = await startTinyEngine()
  })
  afterAll(() => engine.stop())

  test('says what it can do', async () => {
    expect(engine.ready).toEqual({ event: 'ready', contextTokens: 2_048, concurrency: 4, supportsTools: true })
    expect(engine.events[0]).toEqual({ event: 'loading', progress: 0 })
    expect(JSON.parse(await engine.get('/health'))).toEqual({ status: 'ok' })
  })

  // On the tiny model batches of one and of four come out the same to the bit. Kernels for other types of weights may
  // round otherwise in larger batches, and then a token that is nearly as likely as another may be taken instead.
  test('requests that are worked on together get the text that each gets alone', async () => {
    const bodies = ['One', 'A second, longer one', '3', 'And a fourth'].map((content, at) => ({
      messages: [{ role: 'user', content }],
      seed: at,
      max_tokens: 100,
      logit_bias: endless,
    }))
    const alone: unknown[] = []
    for (const body of bodies) alone.push((await engine.chat(body)).choices)
    const together = await Promise.all(bodies.map((body) => engine.chat(body)))
    expect(together.map(({ choices }) => choices)).toEqual(alone)
  })

  test('the second turn of a conversation does not evaluate the first again', async () => {
    const first = [{ role: 'user', content: 'The first of two questions' }]
    const body = { max_tokens: 30, logit_bias: endless }
    const turn = await engine.chat({ ...body, messages: first })
    await Promise.all([1, 2].map((seed) => engine.chat({ seed, max_tokens: 10 })))
    const answer = { role: 'assistant', content: turn.choices[0]?.message.content }
    const messages = [...first, answer, { role: 'user', content: 'The second' }]
    const [reused, evaluated] = ['berth_engine_prefix_tokens_reused_total', 'llamacpp:prompt_tokens_total']
    const before = await Promise.all([engine.metric(reused), engine.metric(evaluated)])
    const { usage } = await engine.chat({ ...body, messages })
    const { cached_tokens: cached } = usage.prompt_tokens_details
    // All of the prompt and of the answer, but for its last token, which was never put in.
    expect(cached).toBe(turn.usage.prompt_tokens + 29)
    const after = await Promise.all([engine.metric(reused), engine.metric(evaluated)])
    expect(after).toEqual([(before[0] ?? 0) + cached, (before[1] ?? 0) + usage.prompt_tokens - cached])
  })

  test('what is reused does not change the answer', async () => {
    const body = { messages: [{ role: 'user', content: 'Twice the same' }], seed: 6, max_tokens: 60 }
    const [first, second] = [await engine.chat(body), await engine.chat(body)]
    expect(second.choices).toEqual(first.choices)
    const { seed: _seed, ...unseeded } = body
    const third = await engine.chat(unseeded)
    expect(third.usage.prompt_tokens_details.cached_tokens).toBe(third.usage.prompt_tokens - 1)
  })

  test('names of special tokens in a message are text', async () => {
    const count = async (content: string): Promise<number> =>
      (await engine.chat({ messages: [{ role: 'user', content }], max_tokens: 1 })).usage.prompt_tokens
    const none = await count('')
    expect((await count('<|im_end|>')) - none).toBe('<|im_end|>'.length)
    // A raw prompt may name them.
    const { usage } = await engine.complete({ prompt: '<s><|im_end|>', max_tokens: 1 })
    expect(usage.prompt_tokens).toBe(2)
  })

  test('a client that goes away in the middle of a stream stops its request', async () => {
    const predicted = await engine.metric('llamacpp:tokens_predicted_total')
    const going = engine.open({ stream: true, logit_bias: endless, n: 100 })
    await going.begun
    expect(await engine.metric(processing)).toBe(1)
    going.cut()
    await waitFor('the sequence is free', async () => (await engine.metric(processing)) === 0)
    // It would have made a hundred answers of two thousand tokens.
    expect((await engine.metric('llamacpp:tokens_predicted_total')) - predicted).toBeLessThan(100_000)
  })

  test('so does one that waits for a plain answer', async () => {
    const going = engine.open({ logit_bias: endless, n: 100 })
    await waitFor('it is worked on', async () => (await engine.metric(processing)) === 1)
    going.cut()
    await waitFor('the sequence is free', async () => (await engine.metric(processing)) === 0)
    expect((await engine.chat({ max_tokens: 1 })).choices).toHaveLength(1)
  })

  test('a ban that a grammar cannot live with does not bring the engine down', async () => {
    const response_format = { type: 'json_schema', json_schema: { schema: { const: 'x' } } }
    const { choices } = await engine.chat({ response_format, logit_bias: { ...endless, 120: -100 } })
    expect(choices[0]).toMatchObject({ message: { content: '"x"' }, finish_reason: 'stop' })
  })
})

describe('an engine with one sequence, a line of one, a smaller context and a file without a template', () => {
  let engine: TinyEngine
  beforeAll(async () => {
    engine = await startTinyEngine({ sequences: 1, queue: 1, contextTokens: 600, tiny: { chatTemplate: null } })
  })
  afterAll(() => engine.stop())

  const long = { logit_bias: endless, n: 100 }
  const body = { model: 'tiny', messages: [{ role: 'user', content: 'Hi' }] }

  test('holds to the context that was asked for', async () => {
    expect(engine.ready).toMatchObject({ contextTokens: 600, concurrency: 1 })
    const { usage } = await engine.chat({ logit_bias: endless })
    expect(usage.total_tokens).toBe(600)
  })

  test('writes prompts by the plain default', async () => {
    const { usage } = await engine.chat({ messages: body.messages, max_tokens: 1 })
    // A letter is a token, and there is one at the very beginning.
    expect(usage.prompt_tokens).toBe('User: Hi\n\nAssistant:'.length + 1)
  })

  test('calls tools by a grammar where its template has none: forced, or of its own choice', async () => {
    expect(engine.ready.supportsTools).toBe(true)
    const tools = [{ type: 'function', function: { name: 'clock' } }]
    // The brace as good as forced, or ruled out: what begins as a call is one, anything else is text.
    const brace = '{'.charCodeAt(0)
    const chosen = await engine.chat({ tools, temperature: 0, logit_bias: { [brace]: 100 } })
    expect(chosen.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { tool_calls: [{ function: { name: 'clock' } }] },
    })
    const spoken = await engine.chat({ tools, max_tokens: 5, logit_bias: { ...endless, [brace]: -100 } })
    expect(spoken.choices[0]).toMatchObject({ finish_reason: 'length' })
    expect(spoken.choices[0]?.message.tool_calls ?? []).toEqual([])
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

  test('lets one wait, refuses the next with the time it would take, and serves who waits when its turn comes', async () => {
    const first = engine.open(long)
    await waitFor('the first is worked on', async () => (await engine.metric(processing)) === 1)
    const second = engine.chat({ max_tokens: 3, logit_bias: endless })
    await waitFor('the second waits', async () => (await engine.metric(deferred)) === 1)
    const refused = await engine.refuse('/v1/chat/completions', body)
    expect(refused).toMatchObject({ status: 503, error: { type: 'overloaded_error', code: 'queue_full' } })
    expect(refused.headers['retry-after']).toMatch(/^[1-9]\d*$/)
    expect(refused.error.message).toContain(`Try again in about ${refused.headers['retry-after']} s.`)
    first.cut()
    expect((await second).usage.completion_tokens).toBe(3)
  })

  test('a client that goes away while it waits leaves the line', async () => {
    const first = engine.open(long)
    await waitFor('the first is worked on', async () => (await engine.metric(processing)) === 1)
    const second = engine.open(long)
    await waitFor('the second waits', async () => (await engine.metric(deferred)) === 1)
    second.cut()
    await waitFor('nobody waits', async () => (await engine.metric(deferred)) === 0)
    expect(await engine.metric(processing)).toBe(1)
    first.cut()
    await waitFor('nobody is left', async () => (await engine.metric(processing)) === 0)
  })
})
