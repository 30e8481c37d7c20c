/**
 * `@huggingface/inference`, pointed at this server by URL, and as the client of a provider with the same interface. For
 * the latter, its fetch is redirected here; paths and bodies stay as the client makes them.
 */
import { InferenceClient, InferenceClientProviderApiError } from '@huggingface/inference'
import { describe, expect, test } from 'vitest'
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

const messages = [{ role: 'user', content: 'Grüß Gott, 🚢' }]
const provider = 'hyperbolic' as const

export function huggingFaceSuite(berth: () => Berth): void {
  const direct = (key = berth().customer.key, by: typeof fetch = fetch) =>
    new InferenceClient(key, { endpointUrl: berth().baseUrl, retry_on_error: false, fetch: by })

  /** A client of the provider: it asks the hub for a model's task, which is answered here. */
  const provided = (task: string): InferenceClient => {
    const redirected: typeof fetch = async (input, init) => {
      const url = new URL(input instanceof Request ? input.url : input)
      if (url.hostname === 'huggingface.co') {
        const providerId = url.pathname.replace('/api/models/', '')
        return Response.json({ inferenceProviderMapping: { [provider]: { providerId, status: 'live', task } } })
      }
      expect(url.hostname).toBe('api.hyperbolic.xyz')
      return fetch(`${berth().server.url}${url.pathname}`, init)
    }
    return new InferenceClient(berth().customer.key, { fetch: redirected, retry_on_error: false })
  }

  const ways: ReadonlyArray<readonly [string, () => InferenceClient, { provider?: typeof provider }]> = [
    ...connections.map(([how, by]) => [how, () => direct(undefined, by), {}] as const),
    ['as a provider', () => provided('conversational'), { provider }],
  ]

  describe('@huggingface/inference', () => {
    test.each(ways)('chats %s', async (_how, make, more) => {
      const { chat } = berth()
      const answer = await make().chatCompletion({ model: chat.name, messages, max_tokens: 100, ...more })
      expect(answer.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: spoken } })
      expect(answer.usage).toMatchObject({ prompt_tokens: promptTokens(messages), completion_tokens: words.length })
      expect(lastAsked(chat)).toEqual({ model: 'their-name', messages, max_tokens: 100 })
    })

    test.each(ways)('streams %s', async (_how, make, more) => {
      const said: string[] = []
      for await (const chunk of make().chatCompletionStream({ model: berth().chat.name, messages, ...more })) {
        said.push(chunk.choices[0]?.delta.content ?? '')
      }
      expect(said.filter((text) => text !== '')).toEqual(words)
    })

    test('gets an error when a stream breaks', async () => {
      await breakNextStream(berth())
      const said: string[] = []
      const read = async (): Promise<void> => {
        const stream = direct().chatCompletionStream({ model: berth().fragile.name, messages })
        for await (const chunk of stream) said.push(chunk.choices[0]?.delta.content ?? '')
      }
      const error = await failureOf(read())
      expect((error as Error).message).toMatch(/engine failed/)
      expect(said.join('')).toBe(words.slice(0, wordsBeforeBreak).join(''))
    })

    test('completes a text, as a provider', async () => {
      const { writer } = berth()
      const answer = await provided('text-generation').textGeneration({
        provider,
        model: writer.name,
        inputs: 'A berth is',
        parameters: { max_new_tokens: 50 },
      })
      expect(answer.generated_text).toBe(spoken)
      expect(lastAsked(writer)).toMatchObject({ messages: [{ role: 'user', content: 'A berth is' }], max_tokens: 50 })
    })

    test('generates an image, as a provider', async () => {
      const { painter } = berth()
      const blob = await provided('text-to-image').textToImage(
        { provider, model: painter.name, inputs: 'a harbour', parameters: { width: 256, height: 128 } },
        { outputType: 'blob' },
      )
      expect(Buffer.from(await blob.arrayBuffer()).equals(grayPng(256, 128))).toBe(true)
      expect(lastAsked(painter)).toMatchObject({ model: 'their-name', prompt: 'a harbour', size: '256x128' })
    })

    test.each([
      ['a wrong key', 401, () => ({ key: 'bk_wrong' })],
      ['an unknown model', 400, () => ({ name: 'nobody/nothing' })],
      ['no money', 402, async () => ({ key: (await berth().server.account()).key })],
      ['an engine that fails', 503, () => ({ name: berth().broken.name })],
    ])('raises its own error for %s', async (_what, status, make) => {
      const { name = berth().chat.name, key }: { name?: string; key?: string } = await make()
      const error = await failureOf(direct(key).chatCompletion({ model: name, messages }))
      expect(error).toBeInstanceOf(InferenceClientProviderApiError)
      expect((error as InferenceClientProviderApiError).httpResponse).toMatchObject({
        status,
        requestId: expect.stringMatching(/^req_/) as string,
        body: { object: 'error', error: { message: expect.any(String) as string } },
      })
    })
  })
}
