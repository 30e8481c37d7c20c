/** `@anthropic-ai/sdk` in the two versions that are in use, which differ in headers, fields and parameters. */
import { describe, expect, test } from 'vitest'
import { serveModel } from '../harness/inference.ts'
import type { Fault } from '../sim/model-server-fault.ts'
import { breakNextStream, lastAsked, promptTokens, spoken, words, type Berth } from './berth.ts'
import { failureOf } from './outcome.ts'
import { schemaAnswer, thought, toolPlaces, toolUsage, type ToolShape } from './tool-server.ts'

// Types differ by version; `expect` is the check.
// eslint-disable-next-line typescript/no-explicit-any
type Loose = any

/** The parts of the SDK that are used here. */
interface Client {
  readonly messages: {
    create(body: object): Promise<Loose>
    stream(body: object): { finalMessage(): Promise<Loose>; on(event: string, listener: (text: string) => void): void }
    countTokens(body: object): { withResponse(): Promise<{ data: { input_tokens: number }; response: Response }> }
  }
  readonly beta: { readonly messages: Pick<Client['messages'], 'stream'> }
  readonly models: { list(): AsyncIterable<{ id: string; type: string; display_name: string; created_at: string }> }
}

interface Sdk {
  readonly default: new (options: { baseURL: string; apiKey: string; maxRetries: number }) => Client
  readonly [name: string]: unknown
}

const sdks = [
  ['1.9', 'anthropic-sdk-1', { temperature: undefined }],
  ['0.137', 'anthropic-sdk-0', { temperature: 0.5 }],
] as const

const shapes: ToolShape[] = ['vllm', 'llama']
const messages = [{ role: 'user', content: 'Grüß Gott, 🚢' }]
const weather = {
  name: 'weather',
  description: 'The weather at a place',
  input_schema: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
}
const png = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }

export function anthropicSuite(berth: () => Berth): void {
  describe.each(sdks)('P14: @anthropic-ai/sdk %s', (version, name, sampling) => {
    const load = async (): Promise<Sdk> => (await import(name)) as Sdk
    const client = async (apiKey = berth().customer.key): Promise<Client> =>
      new (await load()).default({ baseURL: berth().server.url, apiKey, maxRetries: 0 })

    test('creates and streams messages', async () => {
      const { chat } = berth()
      const body = {
        model: chat.name,
        max_tokens: 100,
        messages,
        system: 'Be brief.',
        stop_sequences: ['\n\n'],
        ...sampling,
      }
      const plain = await (await client()).messages.create(body)
      const prompt = promptTokens([{ role: 'system', content: 'Be brief.' }, ...messages])
      expect(plain).toMatchObject({
        id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
        type: 'message',
        role: 'assistant',
        model: chat.name,
        content: [{ type: 'text', text: spoken }],
        stop_reason: 'end_turn',
        usage: { output_tokens: words.length },
      })
      const { _request_id: requestId } = plain
      expect(requestId).toMatch(/^req_[0-9a-f]{32}$/)
      expect(plain.usage.input_tokens + plain.usage.cache_read_input_tokens).toBe(prompt)
      expect(lastAsked(chat)).toEqual({
        model: 'their-name',
        messages: [{ role: 'system', content: 'Be brief.' }, ...messages],
        max_tokens: 100,
        stop: ['\n\n'],
        ...(sampling.temperature === undefined ? {} : { temperature: sampling.temperature }),
      })
      const texts: string[] = []
      const stream = (await client()).messages.stream(body)
      stream.on('text', (text: string) => texts.push(text))
      const streamed = await stream.finalMessage()
      expect(texts).toEqual(words)
      expect(streamed).toMatchObject({ content: plain.content, stop_reason: 'end_turn', stop_details: null })
      expect(streamed.usage.input_tokens + streamed.usage.cache_read_input_tokens).toBe(prompt)
      expect(Object.keys(streamed)).toEqual(expect.arrayContaining(Object.keys(plain)))
    })

    test.each(shapes)('thinks, calls tools in parallel and returns their results (%s)', async (shape) => {
      const { name: model, upstream } = berth().tools[shape]
      const asked = [{ role: 'user', content: 'Think: what is the weather?' }]
      const body = {
        model,
        max_tokens: 2_000,
        messages: asked,
        tools: [weather],
        thinking: { type: 'enabled', budget_tokens: 1_024 },
      }
      const plain = await (await client()).messages.create(body)
      const streamed = await (await client()).messages.stream(body).finalMessage()
      expect(plain.content).toMatchObject([
        { type: 'thinking', thinking: thought },
        { type: 'tool_use', id: 'call_nord', name: 'weather', input: { place: toolPlaces[0] } },
        { type: 'tool_use', id: 'call_sued', name: 'weather', input: { place: toolPlaces[1] } },
      ])
      const plainly = (content: object[]): object[] => content.map((block) => ({ ...block, signature: undefined }))
      expect(plainly(streamed.content)).toEqual(plainly(plain.content))
      for (const { stop_reason, usage } of [plain, streamed]) {
        expect([stop_reason, usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens]).toEqual([
          'tool_use',
          toolUsage.prompt_tokens - toolUsage.prompt_tokens_details.cached_tokens,
          toolUsage.prompt_tokens_details.cached_tokens,
          toolUsage.completion_tokens,
        ])
      }
      const results = ['call_nord', 'call_sued'].map((id) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: `rain at ${id}`,
      }))
      const history = [...asked, { role: 'assistant', content: streamed.content }, { role: 'user', content: results }]
      const answer = await (await client()).messages.create({ ...body, messages: history })
      expect(answer.content.at(-1).text).toBe('call_nord: rain at call_nord; call_sued: rain at call_sued')
      expect(upstream.bodies.at(-1)?.messages[1]).toMatchObject({ reasoning_content: thought, content: null })
    })

    test('gets no thinking that it did not ask for, and answers by a schema', async () => {
      const { name: model } = berth().tools.vllm
      const schema = { type: 'object', properties: { name: { type: 'string' } } }
      const asked = [{ role: 'user', content: 'Think of a ship.' }]
      const body = {
        model,
        max_tokens: 500,
        messages: asked,
        output_config: { format: { type: 'json_schema', schema } },
      }
      const { content } = await (await client()).messages.create(body)
      expect(content).toMatchObject([{ type: 'text', text: JSON.stringify(schemaAnswer) }])
    })

    test('sends images, counts tokens and lists models', async () => {
      const { vision } = berth()
      const withImage = [{ role: 'user', content: [png, { type: 'text', text: 'What is it?' }] }]
      await (await client()).messages.create({ model: vision.name, max_tokens: 20, messages: withImage })
      expect(lastAsked(vision)['messages']).toEqual([
        {
          role: 'user',
          content: [
            { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
            { type: 'text', text: 'What is it?' },
          ],
        },
      ])
      const { data, response } = await (
        await client()
      ).messages
        .countTokens({ model: vision.name, messages })
        .withResponse()
      expect([data.input_tokens, response.headers.get('x-berth-token-count')]).toEqual([
        promptTokens(messages),
        'exact',
      ])
      const listed: string[] = []
      for await (const { id, type, display_name, created_at } of (await client()).models.list()) {
        expect([type, display_name, Number.isNaN(Date.parse(created_at))]).toEqual(['model', id, false])
        listed.push(id)
      }
      expect(listed).toContain(vision.name)
    })

    test('sends what agents send', async () => {
      const { name: model, upstream } = berth().tools.vllm
      const stream = (await client()).beta.messages.stream({
        model,
        max_tokens: 32_000,
        betas: ['context-management-2025-06-27', 'a-flag-of-next-year'],
        messages: [...messages, { role: 'system', content: 'A note.' }],
        system: [{ type: 'text', text: 'x-anthropic-billing-header: a', cache_control: { type: 'ephemeral' } }],
        tools: [weather, { type: 'web_search_20250305', name: 'web_search' }],
        thinking: { type: 'adaptive' },
        output_config: { effort: 'high' },
        context_management: { edits: [] },
        metadata: { user_id: 'ada' },
      })
      expect((await stream.finalMessage()).stop_reason).toBe('tool_use')
      expect(upstream.bodies.at(-1)).toMatchObject({
        messages: [{ role: 'user', content: 'Grüß Gott, 🚢\n\nA note.' }],
      })
      // The context has 8,192.
      expect(upstream.bodies.at(-1)?.max_tokens).toBeLessThan(8_192)
    })

    test('has a class for every error', async () => {
      const { chat, broken, server, fragile } = berth()
      const sdk = await load()
      const body = { model: chat.name, max_tokens: 100, messages }
      const poor = await server.account()
      const limited = await server.account({ usd: '1', scopes: ['billing:read'] })
      const fail = async (change: object, key?: string) =>
        failureOf((await client(key)).messages.create({ ...body, ...change }))
      const facts = async (change: object, key?: string) => {
        const error = (await fail(change, key)) as {
          status: number
          error: { error: { type: string } }
          constructor: { name: string }
        }
        return [error.status, error.error.error.type, error.constructor.name]
      }
      expect(await facts({ max_tokens: 0 })).toEqual([400, 'invalid_request_error', 'BadRequestError'])
      expect(await facts({ messages: 'Hi' })).toEqual([400, 'invalid_request_error', 'BadRequestError'])
      expect(await facts({}, poor.key.slice(0, -1))).toEqual([401, 'authentication_error', 'AuthenticationError'])
      expect((await facts({}, poor.key)).slice(0, 2)).toEqual([402, 'billing_error'])
      expect(await facts({}, limited.key)).toEqual([403, 'permission_error', 'PermissionDeniedError'])
      expect(await facts({ model: 'nobody/nothing' })).toEqual([404, 'not_found_error', 'NotFoundError'])
      expect((await facts({ model: broken.name })).slice(0, 2)).toEqual([503, 'api_error'])
      chat.upstream.behaviour.faultsOnce.push({
        kind: 'status',
        status: 400,
        body: '{"message":"maximum context length is 9"}',
      })
      expect(await fail({})).toMatchObject({ status: 400, message: expect.stringContaining('prompt is too long') })
      const error = (await fail({ model: 'nobody/nothing' })) as { requestID: string; error: { request_id: string } }
      expect(error.error.request_id).toBe(error.requestID)
      const once = { name: 'once', scopes: ['inference'], requestsPerMinute: 1 }
      const slow = (await poor.call('POST', '/v2/api-keys', once)).body.key as string
      expect(await facts({ model: 'nobody/nothing' }, slow)).toEqual([404, 'not_found_error', 'NotFoundError'])
      expect(await facts({}, slow)).toEqual([429, 'rate_limit_error', 'RateLimitError'])
      await breakNextStream(berth())
      const stream = (await client()).messages.stream({ ...body, model: fragile.name })
      const cut = await failureOf(stream.finalMessage())
      expect(cut).toBeInstanceOf(sdk['APIError'])
      expect(cut).toMatchObject({ error: { type: 'error', error: { type: 'api_error' } } })
    })

    const faults: ReadonlyArray<readonly [Fault, number, string]> = [
      [{ kind: 'status', status: 429 }, 529, 'overloaded_error'],
      [{ kind: 'hang' }, 504, 'timeout_error'],
      [{ kind: 'reset' }, 503, 'api_error'],
    ]
    test.each(faults)('has a class for an engine with %j', async (fault, status, type) => {
      const faulty = await serveModel(berth().server, {
        name: `test/${type}-${version}`,
        behaviour: { fault },
        deployment: { firstByteMs: 200 },
      })
      const asked = { model: faulty.name, max_tokens: 100, messages }
      const error = (await failureOf((await client()).messages.create(asked))) as Loose
      const cut = (await failureOf((await client()).messages.stream(asked).finalMessage())) as Loose
      await faulty.upstream.close()
      const { InternalServerError } = await load()
      for (const one of [error, cut]) {
        expect(one).toBeInstanceOf(InternalServerError)
        expect([one.status, one.error.error.type]).toEqual([status, type])
      }
    })
  })
}
