/** Parts of the OpenAI API besides chats: single model, audio, several images, tokens, overflow. */
import OpenAI from 'openai'
import { Stream } from 'openai/streaming'
import { describe, expect, test } from 'vitest'
import { grayPng, silentMp3 } from '../sim/model-server-answer.ts'
import { lastAsked, type Berth } from './berth.ts'
import { failureOf } from './outcome.ts'

export function openaiConventionSuite(berth: () => Berth): void {
  const client = (apiKey = berth().customer.key): OpenAI =>
    new OpenAI({ baseURL: berth().baseUrl, apiKey, maxRetries: 0 })
  const costOf = async (response: Response): Promise<number> => {
    const requestIds = [response.headers.get('x-inference-request-id') ?? '']
    const { body } = await berth().customer.call('POST', '/v2/usage/request-cost', { requestIds })
    return body.requests[0].costNanoUsd
  }

  describe('openai', () => {
    test('retrieves one model whose id has a slash', async () => {
      const { chat } = berth()
      const model = await client().models.retrieve(chat.name)
      expect(model).toMatchObject({ id: chat.name, object: 'model', context_length: 8_192 })
      const bare = await fetch(`${berth().baseUrl}/models/${chat.name}`, {
        headers: { Authorization: `Bearer ${berth().customer.key}` },
      })
      expect([bare.status, ((await bare.json()) as { id: string }).id]).toEqual([200, chat.name])
      const missing = await failureOf(client().models.retrieve('nobody/nothing'))
      expect(missing).toBeInstanceOf(OpenAI.NotFoundError)
      const { key } = (
        await berth().customer.call('POST', '/v2/api-keys', {
          name: 'one model',
          scopes: ['inference'],
          allowedModels: ['test/writer'],
        })
      ).body as { key: string }
      expect(await failureOf(client(key).models.retrieve(chat.name))).toBeInstanceOf(OpenAI.NotFoundError)
    })

    test('generates speech and gets the raw audio', async () => {
      const { voice } = berth()
      const input = 'Welcome aboard 🚢'
      const response = await client().audio.speech.create({ model: voice.name, voice: 'alloy', input, speed: 1.5 })
      expect(response.headers.get('content-type')).toBe('audio/mpeg')
      const audio = Buffer.from(await response.arrayBuffer())
      const ours = await berth().customer.call('POST', '/v1/audio/generation', { model: voice.name, text: input })
      expect(audio.toString('base64')).toBe(ours.body.audio)
      expect(response.headers.get('x-inference-request-id')).toMatch(/^req_[0-9a-f]{32}$/)
      const { model } = lastAsked(voice)
      expect(model).toBe('their-name')
    })

    test.each([
      ['mp3', 'audio/mpeg'],
      ['opus', 'audio/ogg'],
      ['aac', 'audio/aac'],
      ['flac', 'audio/flac'],
      ['wav', 'audio/wav'],
      ['pcm', 'audio/pcm'],
    ] as const)('gets speech as %s at the same price', async (format, type) => {
      const { voice } = berth()
      const asked = { model: voice.name, voice: 'alloy', input: 'Welcome', response_format: format }
      const response = await client().audio.speech.create(asked)
      expect(response.headers.get('content-type')).toBe(type)
      const audio = Buffer.from(await response.arrayBuffer())
      expect(lastAsked(voice)).toMatchObject({ response_format: format })
      expect(audio).toEqual(format === 'mp3' ? silentMp3('Welcome') : Buffer.from(`${format} Welcome`))
      // Ten nano-dollars per character.
      expect(await costOf(response)).toBe('Welcome'.length * 10)
    })

    test('gets speech as events, with the billed characters', async () => {
      const { voice } = berth()
      const asked = { model: voice.name, voice: 'alloy', input: 'Ahoy', response_format: 'wav' as const }
      const response = await client().audio.speech.create({ ...asked, stream_format: 'sse' })
      expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/)
      const events: unknown[] = []
      for await (const event of Stream.fromSSEResponse(response, new AbortController())) events.push(event)
      const audio = Buffer.from('wav Ahoy').toString('base64')
      const usage = { input_tokens: 4, output_tokens: 0, total_tokens: 4 }
      expect(events).toEqual([
        { type: 'speech.audio.delta', audio },
        { type: 'speech.audio.done', usage },
      ])
      expect(await costOf(response)).toBe(40)
    })

    test('generates several images in one request and pays for each', async () => {
      const { painter, diffuser } = berth()
      const size = { size: '256x256' as const, prompt: 'a harbour' }
      for (const { name, upstream } of [painter, diffuser]) {
        const before = upstream.received
        const one = await client()
          .images.generate({ model: name, ...size })
          .withResponse()
        const three = await client()
          .images.generate({ model: name, ...size, n: 3 })
          .withResponse()
        expect(three.data.data?.map((picture) => picture.b64_json)).toEqual(
          Array.from({ length: 3 }, () => grayPng(256, 256).toString('base64')),
        )
        expect(upstream.received - before).toBe(4)
        // One nano-dollar per pixel and step.
        const cost = await costOf(one.response)
        expect(cost).toBe(256 * 256 * 30)
        expect(await costOf(three.response)).toBe(3 * cost)
      }
    })

    test('gets images as data URLs', async () => {
      const { data } = await client().images.generate({
        model: berth().painter.name,
        prompt: 'a harbour',
        size: '256x256',
        n: 2,
        response_format: 'url',
      })
      const url = `data:image/png;base64,${grayPng(256, 256).toString('base64')}`
      expect(data).toEqual([{ url }, { url }])
      const fetched = await fetch(data?.[0]?.url ?? '')
      expect(Buffer.from(await fetched.arrayBuffer())).toEqual(grayPng(256, 256))
    })

    test('streams images as the events of its own types', async () => {
      const { painter } = berth()
      const b64_json = grayPng(256, 128).toString('base64')
      const completed = { type: 'image_generation.completed', b64_json, output_format: 'png', size: '256x128' }
      const forms = [
        [{ width: 256, height: 128 }, {}],
        [{ size: '256x128' as '256x256' }, { partial_images: 2 }],
      ] as const
      // This server has no unfinished images, which clients must expect.
      for (const [sides, partials] of forms) {
        const asked = { model: painter.name, prompt: 'a harbour', n: 2, ...sides }
        const { data, response } = await client()
          .images.generate({ ...asked, ...partials, stream: true })
          .withResponse()
        const events: OpenAI.ImageGenStreamEvent[] = []
        for await (const event of data) events.push(event)
        expect(events).toMatchObject([completed, completed])
        expect(await costOf(response)).toBe(2 * 256 * 128 * 30)
      }
    })

    test('pays nothing when one of several images fails', async () => {
      const { painter } = berth()
      // The first is generated; the second is rejected.
      const refusal = { kind: 'status' as const, status: 400, body: '{"error":{"message":"no such thing"}}' }
      const picture = JSON.stringify({ data: [{ b64_json: grayPng(128, 128).toString('base64') }] })
      painter.upstream.behaviour.faultsOnce.push({ kind: 'status', status: 200, body: picture }, refusal)
      const response = await fetch(`${berth().baseUrl}/images/generations`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${berth().customer.key}`, 'Content-Type': 'application/json' },
        body: JSON.stringify({ model: painter.name, prompt: 'a', size: '128x128', n: 2 }),
      })
      expect(response.status).toBe(400)
      expect(await costOf(response)).toBe(0)
    })

    test('embeds token ids instead of texts', async () => {
      const { embedding, chat } = berth()
      for (const input of [
        [1, 2, 3],
        [[1, 2], [3]],
      ]) {
        await client().embeddings.create({ model: embedding.name, input })
        expect(lastAsked(embedding)).toMatchObject({ input })
      }
      for (const prompt of [
        [1, 2, 3],
        [[1, 2], [3]],
      ]) {
        await client().completions.create({ model: chat.name, prompt, max_tokens: 5 })
        expect(lastAsked(chat)).toMatchObject({ prompt })
      }
      const wrong = client().completions.create({ model: chat.name, prompt: [1, 'two'] as never })
      expect(await failureOf(wrong)).toBeInstanceOf(OpenAI.UnprocessableEntityError)
    })

    test('names errors by texts that agents branch on, beside our numbers', async () => {
      const { chat, embedding, broken, server } = berth()
      const poor = await server.account()
      const cases = [
        [client().models.retrieve('nobody/nothing'), 404, 'model_not_found'],
        [client().embeddings.create({ model: 'nobody/nothing', input: 'a' }), 400, 'model_not_found'],
        [client(poor.key).embeddings.create({ model: embedding.name, input: 'a' }), 402, 'insufficient_quota'],
        [client(poor.key.slice(0, -1)).embeddings.create({ model: 'a', input: 'a' }), 401, 'invalid_api_key'],
        [client().completions.create({ model: broken.name, prompt: 'a' }), 503, 'server_error'],
        [client().completions.create({ model: chat.name, prompt: 7 as never }), 422, null],
      ] as const
      await Promise.all(
        cases.map(async ([work, status, code]) => expect(await failureOf(work)).toMatchObject({ status, code })),
      )
      const { status, body } = await poor.call('POST', '/v1/completions', { model: chat.name, prompt: 'a' })
      expect([status, body.code, body.error_code, body.error.code]).toEqual([402, 402, 402, 'insufficient_quota'])
    })

    const overflows = [
      { message: "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens." },
      { message: 'the request exceeds the available context size', type: 'exceed_context_size_error' },
      { message: 'too long', code: 'context_length_exceeded' },
    ]
    test.each(overflows)(
      'reports a context overflow by its code and message, whatever the engine sends: $message',
      async (error) => {
        const { chat } = berth()
        chat.upstream.behaviour.faultsOnce.push({ kind: 'status', status: 400, body: JSON.stringify({ error }) })
        const messages = [{ role: 'user' as const, content: 'hello' }]
        const failure = await failureOf(client().chat.completions.create({ model: chat.name, messages }))
        expect(failure).toBeInstanceOf(OpenAI.BadRequestError)
        expect(failure).toMatchObject({ status: 400, code: 'context_length_exceeded', type: 'invalid_request_error' })
        const { message } = (failure as InstanceType<typeof OpenAI.APIError>).error as { message: string }
        expect(message).toMatch(/^This model's maximum context length is 8192 tokens/)
      },
    )
  })
}
