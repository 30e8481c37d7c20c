/** The Responses API of `openai`, with its stream helper, which checks the grammar of events. */
import { describe, expect, test } from 'vitest'
import { breakNextStream, lastAsked, promptTokens, spoken, words, type Berth } from './berth.ts'
import { failureOf } from './outcome.ts'
import {
  refusal,
  remark,
  schemaAnswer,
  thirdCall,
  thought,
  toolPlaces,
  toolUsage,
  type ToolShape,
} from './tool-server.ts'

// Types differ by version; `expect` is the check.
// eslint-disable-next-line typescript/no-explicit-any
type Loose = any

/** The parts of the SDK that are used here. */
interface Client {
  readonly responses: {
    create(body: object): Promise<Loose>
    parse(body: object): Promise<Loose>
    stream(body: object): AsyncIterable<Loose> & { finalResponse(): Promise<Loose> }
    retrieve(id: string, query?: object): Promise<Loose>
    delete(id: string): Promise<unknown>
    readonly inputItems: { list(id: string, query?: object): AsyncIterable<Loose> }
    readonly inputTokens: { count(body: object): Promise<{ input_tokens: number }> }
  }
}

export interface ResponsesSdk {
  readonly default: new (options: { baseURL: string; apiKey: string; maxRetries: number }) => Client
  readonly [name: string]: unknown
}

const shapes: ToolShape[] = ['vllm', 'llama']
const input = [{ role: 'user', content: 'Grüß Gott, 🚢' }]
const weather = {
  type: 'function',
  name: 'weather',
  description: 'The weather at a place',
  parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
  strict: false,
}
const TURNS = 10

export function responsesSuite(berth: () => Berth, version: string, load: () => Promise<ResponsesSdk>): void {
  describe(`P5: the Responses API of openai ${version}`, () => {
    const client = async (apiKey = berth().customer.key): Promise<Client> =>
      new (await load()).default({ baseURL: berth().baseUrl, apiKey, maxRetries: 0 })

    /** Streamed with the helper, plain, read back, and streamed again. */
    async function inAllWays(body: object): Promise<Loose> {
      const { responses } = await client()
      const plain = await responses.create(body)
      const streamed = await responses.stream(body).finalResponse()
      for (const response of [plain, streamed]) {
        const stored = await responses.retrieve(response.id)
        expect(plainly(stored)).toEqual(plainly(response))
        const again = await responses.stream({ response_id: response.id }).finalResponse()
        expect(plainly(again)).toEqual(plainly(stored))
      }
      expect(contentOf(streamed)).toEqual(contentOf(plain))
      return streamed
    }

    test('creates, streams, stores and streams again what it said', async () => {
      const { chat } = berth()
      const body = { model: chat.name, input, instructions: 'Be brief.', max_output_tokens: 100 }
      const response = await inAllWays(body)
      expect(response).toMatchObject({
        id: expect.stringMatching(/^resp_[0-9a-f]{32}$/),
        object: 'response',
        status: 'completed',
        model: chat.name,
        output_text: spoken,
        usage: { output_tokens: words.length, output_tokens_details: { reasoning_tokens: 0 } },
      })
      const messages = [{ role: 'system', content: 'Be brief.' }, ...input]
      expect(response.usage.input_tokens).toBe(promptTokens(messages))
      expect(lastAsked(chat)).toMatchObject({ model: 'their-name', messages, max_tokens: 100 })
      const events: Loose[] = []
      for await (const event of (await client()).responses.stream(body)) events.push(event)
      const deltas = events.filter(({ type }) => type === 'response.output_text.delta')
      expect(deltas.map(({ delta }) => delta)).toEqual(words)
      expect(events.map((event) => event.sequence_number)).toEqual(events.map((_event, at) => at))
    })

    test.each(shapes)('thinks, speaks and makes three calls at once (%s)', async (shape) => {
      const { name: model } = berth().tools[shape]
      const body = { model, input: 'Everything, please', tools: [weather], include: ['reasoning.encrypted_content'] }
      const { output, usage } = await inAllWays(body)
      const calls = [...toolPlaces, 'Ost'].map((place) => ({ type: 'function_call', name: 'weather', place }))
      expect(output).toMatchObject([
        {
          type: 'reasoning',
          content: [{ type: 'reasoning_text', text: thought }],
          encrypted_content: expect.any(String),
        },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: remark }] },
        ...calls.map(({ type, name }) => ({ type, name, status: 'completed' })),
      ])
      expect(output.slice(2).map((call: Loose) => JSON.parse(call.arguments))).toEqual(
        calls.map(({ place }) => ({ place })),
      )
      expect(output[4].call_id).toBe(thirdCall.id)
      expect(usage).toMatchObject({
        input_tokens: toolUsage.prompt_tokens,
        input_tokens_details: { cached_tokens: toolUsage.prompt_tokens_details.cached_tokens, cache_write_tokens: 0 },
        output_tokens: toolUsage.completion_tokens,
      })
    })

    test('stops at the limit, refuses, and answers by a schema', async () => {
      const { chat, tools } = berth()
      const short = await inAllWays({ model: chat.name, input, max_output_tokens: 3 })
      expect([short.status, short.incomplete_details, short.output_text]).toEqual([
        'incomplete',
        { reason: 'max_output_tokens' },
        words.slice(0, 3).join(''),
      ])
      const { name: model } = tools.vllm
      const refused = await inAllWays({ model, input: 'Refuse it.' })
      expect(refused.output).toMatchObject([{ type: 'message', content: [{ type: 'refusal', refusal }] }])
      const schema = { type: 'object', properties: { name: { type: 'string' } } }
      const format = { type: 'json_schema', name: 'ship', schema, strict: true }
      const parsed = await (await client()).responses.parse({ model, input, text: { format } })
      expect(JSON.parse(parsed.output_text)).toEqual(schemaAnswer)
    })

    test('P8: ten turns with calls give the same messages by id, with replayed items, and with sealed reasoning', async () => {
      const { name: model, upstream } = berth().tools.vllm
      const { responses } = await client()
      const results = (output: readonly Loose[]): object[] =>
        output
          .filter(({ type }) => type === 'function_call')
          .map(({ call_id }) => ({
            type: 'function_call_output',
            call_id,
            output: `rain at ${call_id}`,
          }))
      const base = { model, tools: [weather], instructions: 'You are a pilot.' }
      const include = ['reasoning.encrypted_content']
      const sealed = (output: readonly Loose[]): Loose[] =>
        output.map(({ content, ...item }) => (item.type === 'reasoning' ? item : { ...item, content }))

      const run = async (way: 'by id' | 'replayed' | 'sealed'): Promise<string[]> => {
        const first = upstream.bodies.length
        const items: object[] = []
        let previous: string | undefined
        const ask = async (given: readonly object[]): Promise<readonly Loose[]> => {
          items.push(...given)
          const body = {
            ...base,
            ...(way === 'by id' ? { previous_response_id: previous, input: given } : { input: items, store: false }),
            ...(way === 'sealed' ? { include } : {}),
          }
          const { id, output } = await responses.stream(body).finalResponse()
          previous = id
          items.push(...(way === 'sealed' ? sealed(output) : output))
          return output
        }
        for (let turn = 0; turn < TURNS; turn += 1) {
          const output = await ask([{ role: 'user', content: `Think: how is it at ${turn}?` }])
          await ask(results(output))
        }
        return upstream.bodies.slice(first).map(({ messages }) => JSON.stringify(messages))
      }

      const byId = await run('by id')
      expect(byId).toHaveLength(2 * TURNS)
      expect(await run('replayed')).toEqual(byId)
      expect(await run('sealed')).toEqual(byId)
      const last = JSON.parse(byId.at(-1) ?? '') as Loose[]
      // Each prompt extends the one before, so that an engine can reuse it.
      for (const [at, text] of byId.slice(1).entries())
        expect(text.startsWith(byId[at]?.slice(0, -1) ?? '?')).toBe(true)
      expect(last.filter(({ reasoning_content }) => reasoning_content === thought).length).toBeGreaterThanOrEqual(TURNS)
    })

    test('reads back what was asked, counts it, and deletes it', async () => {
      const { vision } = berth()
      const { responses } = await client()
      const first = await responses.create({ model: vision.name, input: 'One', max_output_tokens: 5 })
      const body = { model: vision.name, previous_response_id: first.id, input: [{ role: 'user', content: 'Two' }] }
      const second = await responses.create({ ...body, max_output_tokens: 5 })
      const items: Loose[] = []
      for await (const item of responses.inputItems.list(second.id, { order: 'asc', limit: 2 })) items.push(item)
      expect(items).toMatchObject([
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'One' }] },
        first.output[0],
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Two' }] },
      ])
      const { input_tokens } = await responses.inputTokens.count(body)
      expect(input_tokens).toBe(second.usage.input_tokens)
      await responses.delete(first.id)
      const failures = await Promise.all([responses.retrieve(first.id), responses.create(body)].map(failureOf))
      for (const failure of failures) expect(failure).toMatchObject({ status: 404, code: 'response_not_found' })
      expect((await responses.retrieve(second.id)).id).toBe(second.id)
    })

    test('has the codes that clients branch on', async () => {
      const { chat, broken, server, fragile } = berth()
      const body = { model: chat.name, input }
      const poor = await server.account()
      const limited = await server.account({ usd: '1', scopes: ['billing:read'] })
      const facts = async (change: object, key?: string): Promise<unknown[]> => {
        const error = (await failureOf((await client(key)).responses.create({ ...body, ...change }))) as Loose
        return [error.status, error.code, error.param]
      }
      expect(await facts({ max_output_tokens: 0 })).toEqual([400, null, 'max_output_tokens'])
      expect(await facts({ input: [{ role: 'user' }] })).toEqual([400, null, 'input[0].content'])
      expect(await facts({ input: [{ type: 'mcp_call' }] })).toEqual([400, 'not_supported', 'input[0].type'])
      expect(await facts({}, poor.key.slice(0, -1))).toEqual([401, 'invalid_api_key', null])
      expect((await facts({}, poor.key)).slice(0, 2)).toEqual([402, 'insufficient_quota'])
      expect((await facts({}, limited.key))[0]).toBe(403)
      expect(await facts({ model: 'nobody/nothing' })).toEqual([404, 'model_not_found', 'model'])
      expect((await facts({ model: broken.name })).slice(0, 2)).toEqual([503, 'server_error'])
      chat.upstream.behaviour.faultsOnce.push({
        kind: 'status',
        status: 400,
        body: '{"message":"maximum context length is 9"}',
      })
      expect((await facts({})).slice(0, 2)).toEqual([400, 'context_length_exceeded'])
      await breakNextStream(berth())
      const cut = await (await client()).responses.stream({ ...body, model: fragile.name }).finalResponse()
      expect([cut.status, cut.error.code]).toEqual(['failed', 'server_error'])
    })
  })
}

/** The helper adds members of its own. */
function plainly({ output_text: _text, output_parsed: _parsed, output, ...response }: Loose): unknown {
  return { ...response, output: output.map(({ parsed_arguments: _arguments, ...item }: Loose) => plainItem(item)) }
}

function plainItem(item: Loose): unknown {
  if (!Array.isArray(item.content)) return item
  return { ...item, content: item.content.map(({ parsed: _parsed, ...part }: Loose) => part) }
}

function contentOf(response: Loose): unknown {
  return response.output.map((item: Loose) => ({
    ...(plainItem(item) as object),
    id: '',
    parsed_arguments: undefined,
    encrypted_content: '',
  }))
}
