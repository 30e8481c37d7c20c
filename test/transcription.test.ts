/** Recordings become text over HTTP: by servers with OpenAI's form of it, with the real client of its API. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { silentWav } from '../src/base/sound/wav.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

const fixture = (name: string): Buffer => readFileSync(path.join(import.meta.dirname, 'fixtures/sound', name))
/** With their milliseconds. */
const recordings = [
  ['ship.mp3', fixture('ship.mp3'), 3_600],
  ['ship.flac', fixture('ship.flac'), 3_500],
  ['ship.opus', fixture('ship.opus'), 3_500],
  ['silence.wav', silentWav(2), 2_000],
] as const
const TEXT = 'The ship left the harbor --> early.'

let server: TestServer
let customer: Awaited<ReturnType<TestServer['account']>>
let model: TestModel
let client: OpenAI

beforeAll(async () => {
  server = await testServer()
  customer = await server.account({ usd: '1' })
  const kind = { kind: 'transcription', contextTokens: null, maxOutputTokens: null, soundMsUsdPerMillion: '0.001' }
  model = await serveModel(server, { name: 'whisper-1', model: kind })
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: customer.key, maxRetries: 0 })
})
afterAll(async () => {
  await model.upstream.close()
  await server.close()
})

const wav = (): Promise<File> => toFile(silentWav(2), 'silence.wav')

async function send(fields: Readonly<Record<string, string>>, bytes: Buffer = silentWav(2), signal?: AbortSignal) {
  const form = new FormData()
  for (const [name, value] of Object.entries({ model: 'whisper-1', ...fields })) form.append(name, value)
  form.append('file', new Blob([Uint8Array.from(bytes)]), 'recording')
  return fetch(`${server.url}/v1/audio/transcriptions`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${customer.key}` },
    body: form,
    ...(signal === undefined ? {} : { signal }),
  })
}

async function nanoOf(response: Response): Promise<number> {
  const id = response.headers.get('x-inference-request-id')
  return waitFor(`request ${id} is in the log`, async () => {
    const { status, body } = await customer.call('GET', `/v2/usage/requests/${id}`)
    return status === 200 && { nano: Math.round(Number(body.costUsd) * 1e9) }
  }).then(({ nano }) => nano)
}

async function faultOf(response: Response): Promise<[number, string, number]> {
  const { reason } = (await response.json()) as { reason: string }
  return [response.status, reason, model.upstream.requests.length]
}

describe('P29: the client of OpenAI transcribes', () => {
  test.each(recordings)('%s', async (name, bytes, ms) => {
    const file = await toFile(bytes, name)
    const { text, usage } = await client.audio.transcriptions.create({ file, model: 'whisper-1' })
    expect({ text, usage }).toEqual({ text: TEXT, usage: { type: 'duration', seconds: ms / 1_000 } })
  })

  test('as text, subtitles and segments', async () => {
    const ask = { model: 'whisper-1', language: 'en' } as const
    const plain = await client.audio.transcriptions.create({ ...ask, file: await wav(), response_format: 'text' })
    expect(plain).toBe(`${TEXT}\n`)
    const srt = await client.audio.transcriptions.create({ ...ask, file: await wav(), response_format: 'srt' })
    expect(srt).toBe(
      '1\n00:00:00,500 --> 00:00:01,250\nThe ship left\n\n2\n00:00:01,500 --> 00:00:03,250\nthe harbor -> early.\n\n',
    )
    const vtt = await client.audio.transcriptions.create({ ...ask, file: await wav(), response_format: 'vtt' })
    expect(vtt).toBe(
      'WEBVTT\n\n00:00:00.500 --> 00:00:01.250\nThe ship left\n\n00:00:01.500 --> 00:00:03.250\nthe harbor -> early.\n\n',
    )
    const verbose = await client.audio.transcriptions.create({
      ...ask,
      file: await wav(),
      response_format: 'verbose_json',
      timestamp_granularities: ['segment'],
    })
    expect(verbose).toMatchObject({ task: 'transcribe', language: 'en', duration: 2, text: TEXT })
    expect(verbose.segments).toEqual([
      { id: 0, start: 0.5, end: 1.25, text: 'The ship left' },
      { id: 1, start: 1.5, end: 3.25, text: 'the harbor --> early.' },
    ])
  })

  test('as a stream whose deltas are the text', async () => {
    const events = await client.audio.transcriptions.create({ file: await wav(), model: 'whisper-1', stream: true })
    const all: Array<{ type: string; delta?: string; text?: string }> = []
    for await (const event of events) all.push(event)
    const deltas = all.flatMap((event) => event.delta ?? [])
    expect(deltas.join('')).toBe(TEXT)
    expect(all.at(-1)).toMatchObject({ type: 'transcript.text.done', text: TEXT, usage: { seconds: 2 } })
  })

  test('on a server that gets its own name, the parameters and the same bytes', async () => {
    const bytes = fixture('ship.opus')
    await send({ language: 'de', prompt: 'Kai', temperature: '0.5', response_format: 'srt' }, bytes)
    const {
      path: at,
      body,
      headers,
    } = model.upstream.requests.at(-1) ?? { path: '', body: Buffer.alloc(0), headers: {} }
    expect(at).toBe('/v1/audio/transcriptions')
    const form = await new Response(Uint8Array.from(body), {
      headers: { 'content-type': String((headers as Record<string, unknown>)['content-type']) },
    }).formData()
    const { file, ...fields } = Object.fromEntries(form.entries())
    expect(fields).toEqual({
      model: 'their-name',
      response_format: 'verbose_json',
      language: 'de',
      prompt: 'Kai',
      temperature: '0.5',
    })
    expect((file as File).type).toBe('audio/ogg')
    expect(Buffer.from(await (file as File).arrayBuffer()).equals(bytes)).toBe(true)
  })
})

describe('P31, promise 28:', () => {
  test.each(recordings)('%s costs its milliseconds, streamed or not', async (_, bytes, ms) => {
    expect(await nanoOf(await send({}, bytes))).toBe(ms)
    const streamed = await send({ stream: 'true' }, bytes)
    await streamed.text()
    expect(await nanoOf(streamed)).toBe(ms)
  })

  test('the price is asked for before a server gets the recording', async () => {
    const poor = await server.account({ usd: '0.000001' })
    const form = new FormData()
    form.append('model', 'whisper-1')
    form.append('file', new Blob([Uint8Array.from(silentWav(2))]), 'recording')
    const before = model.upstream.requests.length
    const { status } = await fetch(`${server.url}/v1/audio/transcriptions`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${poor.key}` },
      body: form,
    })
    expect([status, model.upstream.requests.length]).toEqual([402, before])
  })

  test('an answer without a text or times is an error and free', async () => {
    for (const body of ['{}', 'Hello', '{"text":7}', '{"text":"a","segments":[{"start":"0","end":1,"text":"a"}]}']) {
      model.upstream.behaviour.faultsOnce = [{ kind: 'status', status: 200, body }]
      const reply = await send({ response_format: 'srt' })
      expect(reply.status).toBe(503)
      expect(await nanoOf(reply)).toBe(0)
    }
  })
})

describe('P33:', () => {
  test('what cannot be honored is refused by name, and reaches no server', async () => {
    const sent = model.upstream.requests.length
    const flac = fixture('ship.flac')
    const cases: ReadonlyArray<readonly [Readonly<Record<string, string>>, Buffer, number, string]> = [
      [{ 'timestamp_granularities[]': 'word' }, silentWav(1), 400, 'not_supported'],
      [{ stream: 'true', response_format: 'srt' }, silentWav(1), 400, 'not_supported'],
      [{}, Buffer.from('\0\0\0 ftypM4A and more', 'latin1'), 400, 'sound_format'],
      [{}, Buffer.from('not sound'), 400, 'sound_format'],
      [{}, flac.subarray(0, flac.length / 2), 400, 'sound_damaged'],
      [{}, silentWav(0), 400, 'sound_damaged'],
      [{}, silentWav(1).fill(1, 24, 26), 400, 'sound_damaged'],
    ]
    for (const [fields, bytes, status, reason] of cases) {
      expect(await faultOf(await send(fields, bytes)), reason).toEqual([status, reason, sent])
    }
    const wrongKind = await serveModel(server, { name: 'chatter' })
    expect((await send({ model: 'chatter' })).status).toBe(400)
    await wrongKind.upstream.close()
  })

  test('a form without a file, with a wrong field, or over 25 MB is refused', async () => {
    const form = new FormData()
    form.append('model', 'whisper-1')
    const headers = { Authorization: `Bearer ${customer.key}` }
    const url = `${server.url}/v1/audio/transcriptions`
    const noFile = await fetch(url, { method: 'POST', headers, body: form })
    expect(noFile.status).toBeGreaterThanOrEqual(400)
    expect(noFile.status).toBeLessThan(500)
    expect((await send({ response_format: 'pdf' })).status).toBe(400)
    expect((await send({}, Buffer.alloc(25_000_001))).status).toBe(413)
    expect((await fetch(url, { method: 'POST', headers, body: '{}' })).status).toBe(415)
  })
})
