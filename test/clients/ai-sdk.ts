/** Chat providers of the `ai` package: first the cases they share, then those of a single provider. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { createOpenRouter } from '@openrouter/ai-sdk-provider'
import {
  APICallError,
  embedMany,
  generateImage,
  generateText,
  Output,
  stepCountIs,
  streamText,
  tool,
  type EmbeddingModel,
  type LanguageModel,
} from 'ai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { grayPng } from '../sim/model-server-answer.ts'
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
import { failureOf } from './outcome.ts'
import { schemaAnswer, toolCalls, toolPlaces, toolUsage, type ToolShape } from './tool-server.ts'

const prompt = 'Grüß Gott, 🚢'
const asked = [{ role: 'user', content: prompt }]
const shapes: ToolShape[] = ['vllm', 'llama']

const weather = tool({
  description: 'The weather at a place',
  inputSchema: z.object({ place: z.string() }),
  execute: ({ place }) => `rain at ${place}`,
})
const toldByTools = toolCalls.map(({ id }, n) => `${id}: rain at ${toolPlaces[n]}`).join('; ')

interface Access {
  readonly apiKey?: string
  readonly fetch?: typeof fetch
}

function compatible(berth: Berth, access: Access = {}) {
  return createOpenAICompatible({
    name: 'berth',
    baseURL: berth.baseUrl,
    apiKey: berth.customer.key,
    ...access,
    includeUsage: true,
    supportsStructuredOutputs: true,
  })
}

function openRouter(berth: Berth, access: Access = {}) {
  return createOpenRouter({
    baseURL: berth.baseUrl,
    apiKey: berth.customer.key,
    compatibility: 'strict',
    ...access,
  })
}

interface Provider {
  readonly package: string
  readonly chat: (berth: Berth, name: string, access?: Access) => Exclude<LanguageModel, string>
  readonly completion: (berth: Berth, name: string) => Exclude<LanguageModel, string>
  readonly embedding: (berth: Berth, name: string) => Exclude<EmbeddingModel, string>
}
const providers: readonly Provider[] = [
  {
    package: '@ai-sdk/openai-compatible',
    chat: (berth, name, access) => compatible(berth, access).chatModel(name),
    completion: (berth, name) => compatible(berth).completionModel(name),
    embedding: (berth, name) => compatible(berth).embeddingModel(name),
  },
  {
    package: '@openrouter/ai-sdk-provider',
    chat: (berth, name, access) => openRouter(berth, access).chat(name),
    completion: (berth, name) => openRouter(berth).completion(name),
    embedding: (berth, name) => openRouter(berth).textEmbeddingModel(name),
  },
]

export function aiSdkSuite(berth: () => Berth): void {
  describe.each(providers)('$package', ({ chat: make, completion, embedding: embed }) => {
    const model = (name: string, access?: Access) => make(berth(), name, access)

    test.each(connections)('chats %s', async (_how, by) => {
      const { chat } = berth()
      const answer = await generateText({
        model: model(chat.name, { fetch: by }),
        system: 'Be brief.',
        prompt,
        temperature: 0.5,
        maxOutputTokens: 100,
        maxRetries: 0,
      })
      expect([answer.text, answer.finishReason]).toEqual([spoken, 'stop'])
      const messages = lastAsked(chat)['messages'] as object[]
      expect(messages).toMatchObject([{ role: 'system' }, ...asked])
      expect(JSON.stringify(messages[0])).toContain('Be brief.')
      expect(lastAsked(chat)).toMatchObject({ model: 'their-name', temperature: 0.5, max_tokens: 100 })
      expect(answer.usage).toMatchObject({ inputTokens: promptTokens(messages), outputTokens: words.length })
      expect(answer.response.modelId).toBe(chat.name)
      expect(answer.response.id).toMatch(/^chatcmpl-[0-9a-f]{32}$/)
    })

    test.each(connections)('streams %s', async (_how, by) => {
      const { chat } = berth()
      const stream = streamText({ model: model(chat.name, { fetch: by }), prompt, maxOutputTokens: 4, maxRetries: 0 })
      const said: string[] = []
      for await (const text of stream.textStream) said.push(text)
      expect(said).toEqual(words.slice(0, 4))
      expect(await stream.finishReason).toBe('length')
      expect(await stream.usage).toMatchObject({ inputTokens: promptTokens(asked), outputTokens: 4 })
      expect((await stream.response).id).toMatch(/^chatcmpl-[0-9a-f]{32}$/)
    })

    test.each(shapes)('calls tools for an engine like %s and returns their results', async (shape) => {
      const { name, upstream } = berth().tools[shape]
      const run = { model: model(name), prompt, tools: { weather }, stopWhen: stepCountIs(2), maxRetries: 0 }
      const answer = await generateText(run)
      const called = toolPlaces.map((place, n) => ({ toolCallId: toolCalls[n]?.id, input: { place } }))
      expect(answer.steps[0]?.toolCalls).toMatchObject(called)
      expect(answer.steps[0]?.usage).toMatchObject({ inputTokens: toolUsage.prompt_tokens, outputTokens: 17 })
      expect(answer.text).toBe(toldByTools)
      const stream = streamText(run)
      expect(await stream.text).toBe(toldByTools)
      expect((await stream.steps)[0]?.toolCalls).toMatchObject(called)
      expect(upstream.bodies.at(-1)?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool'])
    })

    test.each(connections)('gets an error when a stream breaks %s', async (_how, by) => {
      const { fragile } = berth()
      await breakNextStream(berth())
      const errors: unknown[] = []
      const stream = streamText({
        model: model(fragile.name, { fetch: by }),
        prompt,
        maxRetries: 0,
        onError: ({ error }) => void errors.push(error),
      })
      const said: string[] = []
      for await (const text of stream.textStream) said.push(text)
      expect(said).toEqual(words.slice(0, wordsBeforeBreak))
      expect(JSON.stringify(errors)).toContain('engine_failed')
      expect(await stream.finishReason).toBe('error')
    })

    test.each([
      ['a wrong key', 401, false, () => ({ apiKey: 'bk_wrong' })],
      ['an unknown model', 400, false, () => ({ name: 'nobody/nothing' })],
      ['no money', 402, false, async () => ({ apiKey: (await berth().server.account()).key })],
      ['an engine that fails', 503, true, () => ({ name: berth().broken.name })],
    ])('raises its own error for %s', async (_what, statusCode, isRetryable, make) => {
      const { name = berth().chat.name, ...access }: Access & { name?: string } = await make()
      const error = await failureOf(generateText({ model: model(name, access), prompt, maxRetries: 0 }))
      expect(APICallError.isInstance(error)).toBe(true)
      expect(error).toMatchObject({ statusCode, isRetryable })
      const { responseBody, message } = error as APICallError
      // It uses the message of the response body, not one of its own.
      expect(message).toBe((JSON.parse(responseBody ?? '') as { error: { message: string } }).error.message)
    })

    test('embeds texts', async () => {
      const values = ['a ship', 'a harbour']
      const made = await embedMany({ model: embed(berth(), berth().embedding.name), values, maxRetries: 0 })
      expect(made.embeddings).toEqual(
        values.map((text) => Array.from({ length: 8 }, (_, n) => ((text.length + n * 7) % 13) / 13)),
      )
      expect(made.usage).toMatchObject({ tokens: 5 })
    })

    test('completes a text', async () => {
      const { chat } = berth()
      const answer = await generateText({ model: completion(berth(), chat.name), prompt: 'A berth is', maxRetries: 0 })
      expect([answer.text, answer.finishReason]).toEqual([spoken, 'stop'])
      expect(answer.usage.outputTokens).toBe(words.length)
      expect(lastAsked(chat)['prompt']).toContain('A berth is')
    })
  })

  describe('@ai-sdk/openai-compatible', () => {
    test.each(shapes)('gets structured output from an engine like %s', async (shape) => {
      const { name, upstream } = berth().tools[shape]
      const schema = z.object({ name: z.string(), berths: z.array(z.int()) })
      const answer = await generateText({
        model: compatible(berth()).chatModel(name),
        prompt,
        output: Output.object({ schema }),
        maxRetries: 0,
      })
      expect(answer.output).toEqual(schemaAnswer)
      expect(upstream.bodies.at(-1)?.response_format).toMatchObject({
        type: 'json_schema',
        json_schema: { strict: true, schema: { type: 'object', required: ['name', 'berths'] } },
      })
    })

    // The other provider sends no text-start event, which `ai` rejects; that is between those two.
    test('completes a text as a stream', async () => {
      const model = compatible(berth()).completionModel(berth().chat.name)
      const stream = streamText({ model, prompt: 'A berth is', maxRetries: 0 })
      expect(await stream.text).toBe(spoken)
      expect(await stream.usage).toMatchObject({ outputTokens: words.length })
    })

    test('generates an image', async () => {
      const { painter } = berth()
      const model = compatible(berth()).imageModel(painter.name)
      const { image } = await generateImage({ model, prompt: 'a harbour', size: '512x256', maxRetries: 0 })
      expect(Buffer.from(image.uint8Array).equals(grayPng(512, 256))).toBe(true)
      expect(lastAsked(painter)).toMatchObject({ model: 'their-name', prompt: 'a harbour', size: '512x256', n: 1 })
    })
  })
}
