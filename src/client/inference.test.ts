/** Inference requests by the client, against a complete server with a simulated engine. */
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest'
import { NANO_PER_INPUT, NANO_PER_OUTPUT, serveModel, type TestModel } from '../../test/harness/inference.ts'
import { startReceiver } from '../../test/harness/receiver.ts'
import { testServer, type TestServer } from '../../test/harness/server.ts'
import { waitFor } from '../../test/harness/wait.ts'
import { makeClient, type Client } from './client.ts'
import { ApiError, TransportError } from './error.ts'
import type { Chunk } from './inference.ts'
import { fetchCost } from './request-cost.ts'

let server: TestServer
let model: TestModel
let client: Client

beforeAll(async () => {
  server = await testServer()
  model = await serveModel(server)
  client = makeClient({ url: server.url, key: server.demoKey })
})
afterAll(async () => {
  await model.upstream.close()
  await server.close()
})

const body = { model: 'test/model', messages: [{ role: 'user' as const, content: 'Hello there' }] }

test('returns the request ID, which gives the exact cost', async () => {
  const { requestId, answer } = await client.infer('createChatCompletion', { body })
  expect(answer.choices[0]?.message.content).toBe('word0 word1 word2 word3 word4 ')
  const { prompt_tokens: input, completion_tokens: output } = answer.usage
  expect(await fetchCost(client, requestId)).toBe(BigInt(input * NANO_PER_INPUT + output * NANO_PER_OUTPUT))
  const refused = client.infer('createChatCompletion', { body: { ...body, model: 'no/model' } })
  await expect(refused).rejects.toMatchObject({ kind: 'api', reason: 'model_not_found' })
})

test('sends the conversation name, so that its prefix is found in the same cache', async () => {
  const sent: Array<string | null> = []
  const spy: typeof fetch = (input, init) => {
    sent.push(new Headers(init?.headers).get('x-session-id'))
    return fetch(input, init)
  }
  const spied = makeClient({ url: server.url, key: server.demoKey, fetch: spy })
  await spied.infer('createChatCompletion', { body, sessionId: 'one' })
  for await (const _ of await spied.stream('createChatCompletion', { body, sessionId: 'two' })) continue
  await spied.infer('createChatCompletion', { body })
  expect(sent).toEqual(['one', 'two', null])
})

describe('a stream', () => {
  test('yields chunks as they arrive, and has the request ID', async () => {
    const stream = await client.stream('createChatCompletion', {
      body: { ...body, stream_options: { include_usage: true } },
    })
    const chunks: Array<Chunk<'createChatCompletion'>> = []
    for await (const chunk of stream) chunks.push(chunk)
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe('word0 word1 word2 word3 word4 ')
    const usage = chunks.at(-1)?.usage
    expect(usage).toMatchObject({ completion_tokens: 5 })
    const nano = (usage?.prompt_tokens ?? 0) * NANO_PER_INPUT + 5 * NANO_PER_OUTPUT
    expect(await fetchCost(client, stream.requestId)).toBe(BigInt(nano))
  })

  test('is canceled at the engine when the reader stops or aborts', async () => {
    const { behaviour, requests } = model.upstream
    behaviour.intervalMs = 5
    behaviour.words = 4_000
    try {
      for await (const _ of await client.stream('createChatCompletion', { body })) break
      await waitFor('the engine is left', () => requests.at(-1)?.abortedAt)
      const controller = new AbortController()
      const { signal } = controller
      const reading = (async () => {
        for await (const _ of await client.stream('createChatCompletion', { body, signal })) controller.abort()
      })()
      await expect(reading).rejects.toMatchObject({ kind: 'aborted' })
      await waitFor('the engine is left again', () => requests.at(-1)?.abortedAt)
      await expect(client.stream('createChatCompletion', { body, signal })).rejects.toMatchObject({ kind: 'aborted' })
    } finally {
      behaviour.intervalMs = 0
      behaviour.words = 5
    }
  })

  test('throws the error that it contains', async () => {
    model.upstream.behaviour.faultsOnce.push({ kind: 'reset', afterEvents: 3 })
    const stream = await client.stream('createChatCompletion', { body })
    let text = ''
    const reading = (async () => {
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? ''
    })()
    const error = await reading.then(
      () => undefined,
      (problem: unknown) => problem,
    )
    expect(error).toBeInstanceOf(ApiError)
    expect(error).toMatchObject({ status: 502, requestId: stream.requestId })
    expect(text).toBe('word0 word1 ')
  })

  test('fails without an end marker, after a silence, and if the response is not a stream', async () => {
    const receiver = await startReceiver()
    const other = makeClient({ url: receiver.url })
    const readAll = async (timeoutMs?: number): Promise<void> => {
      for await (const _ of await other.stream('createChatCompletion', { body, timeoutMs })) continue
    }
    const head = { 'content-type': 'text/event-stream' }
    receiver.answer = (_, response) => void response.writeHead(200, head).end('data: {"choices":[]}\n\n')
    await expect(readAll()).rejects.toThrow(new TransportError('unreachable', 'The response was interrupted'))
    receiver.answer = (_, response) => void response.writeHead(200, head).write('data: {"choices":[]}\n\n')
    await expect(readAll(50)).rejects.toMatchObject({ kind: 'timeout' })
    receiver.answer = () => {}
    await expect(readAll(50)).rejects.toMatchObject({ kind: 'timeout' })
    receiver.answer = (_, response) => void response.writeHead(200, head).end('data: <html>\n\n')
    await expect(readAll()).rejects.toMatchObject({ kind: 'garbled' })
    receiver.answer = (_, response) => void response.end('{}')
    await expect(readAll()).rejects.toMatchObject({ kind: 'garbled' })
    await receiver.close()
  })

  test('exists only for operations that can stream, with typed chunks', () => {
    expectTypeOf<Chunk<'generateImage'>['type']>().toEqualTypeOf<'queued' | 'progress' | 'result'>()
    const wrong = [
      // @ts-expect-error speech cannot be streamed
      () => client.stream('generateAudio', { body: { text: 'Hello' } }),
      // @ts-expect-error the messages are missing
      () => client.infer('createChatCompletion', { body: { model: 'm' } }),
      // @ts-expect-error not an inference operation
      () => client.infer('getMe', {}),
    ]
    expect(wrong).toHaveLength(3)
  })
})
