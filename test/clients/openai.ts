/** `openai`, the most widely used client. */
import OpenAI from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { grayPng } from '../sim/model-server-answer.ts'
import { waitFor } from '../harness/wait.ts'
import {
  breakNextStream,
  connections,
  lastAsked,
  promptTokens,
  spoken,
  words,
  wordsBeforeBreak,
  type Berth,
} from './berth.ts'
import { failureOf, outcomeOf } from './outcome.ts'
import { schemaAnswer, toolCalls, toolPlaces, toolUsage, vector, type ToolShape } from './tool-server.ts'

const messages = [{ role: 'user' as const, content: 'Grüß Gott, 🚢' }]
const shapes: ToolShape[] = ['vllm', 'llama']

const weather = {
  type: 'function' as const,
  function: {
    name: 'weather',
    description: 'The weather at a place',
    parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
  },
}

export function openaiSuite(berth: () => Berth): void {
  const client = (apiKey = berth().customer.key, by: typeof fetch = fetch): OpenAI =>
    new OpenAI({ baseURL: berth().baseUrl, apiKey, maxRetries: 0, fetch: by })

  describe.each(connections)('openai, %s,', (_how, by) => {
    const completions = () => client(berth().customer.key, by).chat.completions

    test('chats', async () => {
      const { chat } = berth()
      const asked = { model: chat.name, messages, temperature: 0.5, max_completion_tokens: 100, stop: ['\n\n'] }
      const { data, response, request_id } = await completions().create(asked).withResponse()
      expect(data.choices.map(({ message, finish_reason }) => [message.role, message.content, finish_reason])).toEqual([
        ['assistant', spoken, 'stop'],
      ])
      const prompt = promptTokens(messages)
      expect(data.usage).toMatchObject({
        prompt_tokens: prompt,
        completion_tokens: words.length,
        total_tokens: prompt + words.length,
      })
      expect(data.model).toBe(chat.name)
      expect(data.id).toMatch(/^chatcmpl-[0-9a-f]{32}$/)
      expect(request_id).toMatch(/^req_/)
      expect(response.headers.get('x-inference-request-id')).toMatch(/^req_[0-9a-f]{32}$/)
      const { max_completion_tokens, ...others } = asked
      expect(lastAsked(chat)).toEqual({ ...others, model: 'their-name', max_tokens: max_completion_tokens })
    })

    test('streams, with usage only on request', async () => {
      const { chat } = berth()
      const said: string[] = []
      for await (const chunk of await completions().create({ model: chat.name, messages, stream: true })) {
        expect(chunk.usage ?? null).toBeNull()
        said.push(chunk.choices[0]?.delta.content ?? '')
      }
      expect(said.filter((text) => text !== '')).toEqual(words)

      const reported: Array<OpenAI.CompletionUsage | null | undefined> = []
      const stream = await completions().create({
        model: chat.name,
        messages,
        stream: true,
        stream_options: { include_usage: true },
      })
      for await (const { usage, choices } of stream) if (choices.length === 0) reported.push(usage)
      expect(reported).toMatchObject([{ prompt_tokens: promptTokens(messages), completion_tokens: words.length }])
    })

    test('collects a stream with its own helper', async () => {
      const { chat } = berth()
      const stream = completions().stream({ model: chat.name, messages, max_tokens: 3 })
      const completion = await stream.finalChatCompletion()
      expect(completion.choices[0]).toMatchObject({
        finish_reason: 'length',
        message: { role: 'assistant', content: words.slice(0, 3).join('') },
      })
    })

    test('stops the engine when it leaves a stream', async () => {
      const { slow } = berth()
      const before = slow.upstream.received
      const aborted = await completions().create({ model: slow.name, messages, stream: true })
      const ids: string[] = []
      for await (const { id } of aborted) if (ids.push(id) === 3) aborted.controller.abort()
      expect(ids.length).toBeLessThan(100)
      await waitFor('the request to be cancelled', () => slow.upstream.requests.at(-1)?.abortedAt !== undefined)
      const left = await completions().create({ model: slow.name, messages, stream: true })
      for await (const chunk of left) if (chunk.choices[0]?.delta.content === 'word1 ') break
      expect(slow.upstream.received).toBe(before + 2)
      await waitFor('the request to be cancelled again', () => slow.upstream.requests.at(-1)?.abortedAt !== undefined)
    })

    test('gets an error when a stream breaks', async () => {
      const { fragile } = berth()
      await breakNextStream(berth())
      const said: string[] = []
      const read = async (): Promise<void> => {
        const stream = await completions().create({ model: fragile.name, messages, stream: true })
        for await (const chunk of stream) said.push(chunk.choices[0]?.delta.content ?? '')
      }
      const error = await failureOf(read())
      expect(error).toBeInstanceOf(OpenAI.APIError)
      expect(error).toMatchObject({ code: 'engine_failed', type: 'server_error' })
      expect(said.join('')).toBe(words.slice(0, wordsBeforeBreak).join(''))
    })
  })

  describe('openai', () => {
    test.each(shapes)('gets tool calls from an engine like %s', async (shape) => {
      const { name, upstream } = berth().tools[shape]
      const tool_choice = { type: 'function' as const, function: { name: 'weather' } }
      const answer = await client().chat.completions.create({ model: name, messages, tools: [weather], tool_choice })
      expect(answer.id).toMatch(/^chatcmpl-[0-9a-f]{32}$/)
      expect(answer.model).toBe(name)
      expect(answer.usage).toEqual(toolUsage)
      expect(answer.choices[0]).toMatchObject({
        finish_reason: 'tool_calls',
        message: {
          content: null,
          tool_calls: toolCalls.map(({ id, name, pieces }) => ({
            id,
            type: 'function',
            function: { name, arguments: pieces.join('') },
          })),
        },
      })
      expect(upstream.bodies.at(-1)).toMatchObject({ tools: [weather], tool_choice })
    })

    test.each(shapes)('gets streamed tool calls from an engine like %s', async (shape) => {
      const { name } = berth().tools[shape]
      const stream = client().chat.completions.stream({
        model: name,
        messages,
        tools: [weather],
        stream_options: { include_usage: true },
      })
      const ids = new Set<string>()
      stream.on('chunk', (chunk) => ids.add(chunk.id))
      const answer = await stream.finalChatCompletion()
      expect([...ids]).toEqual([expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/)])
      const called = answer.choices[0]?.message.tool_calls ?? []
      expect(called.map((call) => [call.id, 'function' in call && call.function.name])).toEqual(
        toolCalls.map(({ id, name }) => [id, name]),
      )
      const places = called.map((call) => JSON.parse('function' in call ? call.function.arguments : '') as unknown)
      expect(places).toEqual(toolPlaces.map((place) => ({ place })))
      expect(answer.usage).toEqual(toolUsage)
    })

    test.each(shapes)('runs tools and returns their results to an engine like %s', async (shape) => {
      const { name, upstream } = berth().tools[shape]
      const run = client().chat.completions.runTools({
        model: name,
        messages,
        stream: true,
        tools: [
          {
            type: 'function',
            function: {
              ...weather.function,
              parse: (text: string) => JSON.parse(text) as { place: string },
              function: ({ place }: { place: string }) => `rain at ${place}`,
            },
          },
        ],
      })
      const said = toolCalls.map(({ id }, n) => `${id}: rain at ${toolPlaces[n]}`).join('; ')
      expect(await run.finalContent()).toBe(said)
      expect(upstream.bodies.at(-1)?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool'])
    })

    test.each(shapes)('gets structured output from an engine like %s', async (shape) => {
      const { name, upstream } = berth().tools[shape]
      const ship = z.object({ name: z.string(), berths: z.array(z.int()) })
      const response_format = zodResponseFormat(ship, 'ship')
      const parsed = await client().chat.completions.parse({ model: name, messages, response_format })
      expect(parsed.choices[0]?.message.parsed).toEqual(schemaAnswer)
      expect(upstream.bodies.at(-1)?.response_format).toEqual(JSON.parse(JSON.stringify(response_format)))
    })

    test('completes a text, plain and streamed', async () => {
      const { chat } = berth()
      const asked = { model: chat.name, prompt: 'A berth is', max_tokens: 50 }
      const whole = await client().completions.create(asked)
      expect([whole.object, whole.model, whole.choices[0]?.text]).toEqual(['text_completion', chat.name, spoken])
      expect(whole.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: words.length })
      expect(lastAsked(chat)).toEqual({ ...asked, model: 'their-name' })
      const said: string[] = []
      for await (const chunk of await client().completions.create({ ...asked, stream: true })) {
        said.push(chunk.choices[0]?.text ?? '')
      }
      expect(said.filter((text) => text !== '')).toEqual(words)
    })

    test('embeds texts in its default encoding and as numbers', async () => {
      const { embedding } = berth()
      const input = ['a ship', 'a harbour']
      const expected = input.map((text) => Array.from({ length: 8 }, (_, n) => ((text.length + n * 7) % 13) / 13))
      const usual = await client().embeddings.create({ model: embedding.name, input })
      expect(usual.data.map((one) => [...one.embedding])).toEqual(
        expected.map((vector) => vector.map((value) => Math.fround(value))),
      )
      expect([usual.model, usual.usage]).toEqual([embedding.name, { prompt_tokens: 5, total_tokens: 5 }])
      const plain = await client().embeddings.create({ model: embedding.name, input, encoding_format: 'float' })
      expect(plain.data.map((one) => one.embedding)).toEqual(expected)
    })

    test('gets its vector encoding from an engine that only has the other', async () => {
      const { name } = berth().tools.vllm
      const plain = await client().embeddings.create({ model: name, input: 'a ship', encoding_format: 'float' })
      expect(plain.data).toEqual([{ object: 'embedding', index: 0, embedding: vector }])
      const usual = await client().embeddings.create({ model: name, input: 'a ship' })
      expect(usual.data.map((one) => [...one.embedding])).toEqual([vector])
    })

    test('generates an image', async () => {
      const { painter } = berth()
      const prompt = 'a harbour at dawn'
      const answer = await client().images.generate({
        model: painter.name,
        prompt,
        n: 1,
        size: '256x256',
        response_format: 'b64_json',
      })
      expect(answer.data?.map((one) => one.b64_json)).toEqual([grayPng(256, 256).toString('base64')])
      expect(Math.abs(answer.created - berth().server.app.clock.now() / 1_000)).toBeLessThan(60)
      expect(lastAsked(painter)).toMatchObject({ model: 'their-name', prompt, size: '256x256' })
      const usual = await client().images.generate({ model: painter.name, prompt, size: 'auto' })
      expect(usual.data?.[0]?.b64_json).toBe(grayPng(1024, 1024).toString('base64'))
    })

    test('lists the models', async () => {
      const listed: string[] = []
      for await (const model of client().models.list()) listed.push(model.id)
      expect(listed).toEqual(expect.arrayContaining([berth().chat.name, berth().voice.name]))
    })
  })

  describe('openai raises its own error for:', () => {
    const ask = (model = berth().chat.name, apiKey = berth().customer.key, more: object = {}): Promise<unknown> =>
      client(apiKey).chat.completions.create({ model, messages, ...more })

    test('a wrong key', async () => {
      const error = await failureOf(ask(berth().chat.name, 'bk_wrong'))
      expect(error).toBeInstanceOf(OpenAI.AuthenticationError)
      expect(error).toMatchObject({ status: 401, type: 'authentication_error' })
    })

    test('an unknown model', async () => {
      const error = await failureOf(ask('nobody/nothing'))
      expect(error).toBeInstanceOf(OpenAI.BadRequestError)
      expect(error).toMatchObject({ status: 400, param: 'model', requestID: expect.stringMatching(/^req_/) as string })
      expect((error as Error).message).toMatch(/"nobody\/nothing" does not exist/)
    })

    test('no money', async () => {
      const poor = await berth().server.account()
      const error = await failureOf(ask(berth().chat.name, poor.key))
      expect(error).toBeInstanceOf(OpenAI.APIError)
      expect(error).toMatchObject({ status: 402, type: 'insufficient_balance' })
    })

    test('a key without the scope', async () => {
      const other = await berth().server.account({ usd: '1', scopes: ['compute:read'] })
      expect(await failureOf(ask(berth().chat.name, other.key))).toBeInstanceOf(OpenAI.PermissionDeniedError)
    })

    test('a parameter out of range, and one of the wrong type', async () => {
      const hot = await failureOf(ask(berth().chat.name, berth().customer.key, { temperature: 3 }))
      expect(hot).toBeInstanceOf(OpenAI.BadRequestError)
      expect(hot).toMatchObject({ status: 400, param: 'temperature' })
      const odd = await failureOf(ask(berth().chat.name, berth().customer.key, { messages: 'hello' }))
      expect(odd).toBeInstanceOf(OpenAI.UnprocessableEntityError)
      expect(odd).toMatchObject({ status: 422, param: 'messages' })
    })

    test('an image without a model, with another size or in another format', async () => {
      const { painter } = berth()
      const draw = (more: object): Promise<unknown> =>
        failureOf(client().images.generate({ model: painter.name, prompt: 'a ship', ...more } as never))
      const before = painter.upstream.received
      expect(await draw({ model: undefined })).toMatchObject({ status: 400, param: 'model' })
      for (const size of ['64x64', '5000x128', 'large']) {
        expect([size, await draw({ size })]).toMatchObject([size, { status: 400, param: 'size' }])
      }
      expect(await draw({ n: 5 })).toMatchObject({ status: 400, param: 'n' })
      expect(await draw({ response_format: 'gif' })).toMatchObject({ status: 400, param: 'response_format' })
      expect(await draw({ model: berth().chat.name })).toMatchObject({ status: 400, param: 'model' })
      expect(painter.upstream.received).toBe(before)
    })

    test('too many requests', async () => {
      const { key } = (
        await berth().customer.call('POST', '/v2/api-keys', {
          name: 'seldom',
          scopes: ['inference'],
          requestsPerMinute: 1,
        })
      ).body as { key: string }
      // One per minute: of three in quick succession, which may span two minutes, the third is too many.
      const outcomes = [await outcomeOf(ask(undefined, key)), await outcomeOf(ask(undefined, key))]
      outcomes.push(await outcomeOf(ask(undefined, key)))
      const error = outcomes.find((one) => one !== undefined)
      expect(error).toBeInstanceOf(OpenAI.RateLimitError)
      expect(error).toMatchObject({ status: 429, type: 'rate_limit_error' })
      expect((error as InstanceType<typeof OpenAI.APIError>).headers?.get('retry-after')).toMatch(/^[1-9]\d?$/)
    })

    test('a failing engine', async () => {
      const error = await failureOf(ask(berth().broken.name))
      expect(error).toBeInstanceOf(OpenAI.InternalServerError)
      expect(error).toMatchObject({ status: 503, type: 'server_error' })
    })
  })
}
