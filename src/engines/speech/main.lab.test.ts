import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test, inject } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { needs } from '../../../test/needs.ts'

needs('ffmpeg', 'build')

const SENTENCE = 'The harbour was quiet, and only a few boats moved over the water.'
const folder = mkdtempSync(path.join(os.tmpdir(), 'berth-speech-'))
const socketPath = path.join(folder, 'engine.sock')
const events: object[] = []
let child: ChildProcess

beforeAll(async () => {
  const start = JSON.stringify({ model: 'the-model', socketPath, threads: 1, queue: 1 })
  const engine = spawn(
    process.execPath,
    [path.join(path.dirname(inject('serverBundle')), 'speech-engine.mjs'), start],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  )
  child = engine
  createInterface(engine.stdout).on('line', (line) => events.push(JSON.parse(line) as object))
  await waitFor('the engine', () => events.length === 2)
})

afterAll(() => {
  child.kill('SIGKILL')
  rmSync(folder, { recursive: true })
})

/** Loading takes three seconds of CPU time, and much longer on a busy machine. */
const LOADING_MS = 150_000

test(
  'is ready as soon as it listens, and the first request waits for the voice',
  async () => {
    const ready = { event: 'ready', contextTokens: null, concurrency: 4, supportsTools: false }
    expect(events).toEqual([{ event: 'loading', progress: 0 }, ready])
    expect(await speak({ text: 'Hello.' })).toMatchObject({ status: 200, body: { sample_rate: 44_100 } })
  },
  LOADING_MS,
)

describe('speech', () => {
  test.each(['neural', 'EN-US', 'alloy'])('of %s is an MP3 with the reported duration', async (speaker) => {
    const { status, body } = await speak({ text: SENTENCE, speaker, language: 'en_us' })
    expect(status).toBe(200)
    expect(body).toMatchObject({ sample_rate: 44_100, usage: SENTENCE.length })
    expect(body.inference_time).toBeGreaterThan(0)
    const mp3 = walkFrames(Buffer.from(body.audio, 'base64'))
    expect(mp3.sampleRate).toBe(44_100)
    expect(Math.abs(mp3.seconds - body.duration)).toBeLessThan(0.1)
    expect(body.duration).toBeGreaterThan(2.5)
    expect(body.duration).toBeLessThan(9)
  })

  // At the ends of the range the sound is stretched or shortened after synthesis.
  test.each([5, 2, 0.25, 0.1])('at the speed %d takes that much less time', async (speed) => {
    const text = 'Seven boats came in.'
    const plain = await speak({ text })
    const { body } = await speak({ text, speed })
    const factor = plain.body.duration / body.duration / speed
    expect(factor).toBeGreaterThan(0.8)
    expect(factor).toBeLessThan(1.2)
    expect(Math.abs(walkFrames(Buffer.from(body.audio, 'base64')).seconds - body.duration)).toBeLessThan(0.1)
  })

  test('of 3,000 characters is streamed during synthesis as one valid file', async () => {
    const text = `${SENTENCE} Dr. Smith paid $3.50 at 7:45! `.repeat(40).slice(0, 3_000)
    const { body, headers } = await speak({ text, speed: 3 })
    expect(headers['transfer-encoding']).toBe('chunked')
    expect(body.usage).toBe(3_000)
    expect(body.duration).toBeGreaterThan(45)
    expect(Math.abs(walkFrames(Buffer.from(body.audio, 'base64')).seconds - body.duration)).toBeLessThan(0.1)
  })

  test.each(['mp3', 'opus', 'flac', 'wav', 'pcm'])('is sent as %s while it is synthesized', async (format) => {
    const text = `${SENTENCE} Seven boats came in. They left.`
    const request = send('POST', '/v1/audio/generation', JSON.stringify({ text, format, stream: true }))
    const [response] = (await once(request, 'response')) as [http.IncomingMessage]
    expect(response.headers['content-type']).toBe('text/event-stream')
    const body = Buffer.concat((await response.toArray()) as Buffer[]).toString()
    const events = body
      .split('\n')
      .filter((line) => line.startsWith('data: '))
      .map((line) => JSON.parse(line.slice(6)) as Record<string, unknown>)
    const last = events.pop()
    expect(last).toMatchObject({ type: 'result', usage: text.length })
    expect(events.map(({ type }) => type)).toEqual(events.map(() => 'audio'))
    // A part for each sentence, at least.
    expect(events.length).toBeGreaterThanOrEqual(3)
    const counts = events.map(({ characters }) => Number(characters))
    expect(counts).toEqual(counts.toSorted((one, other) => one - other))
    expect(counts.at(-1)).toBe(text.length)
    const file = Buffer.concat(events.map(({ audio }) => Buffer.from(String(audio), 'base64')))
    const input = format === 'pcm' ? ['-f', 's16le', '-ar', '24000', '-ac', '1'] : []
    const output = ['-f', 's16le', '-ar', '44100', '-ac', '1', '-']
    const sound = execFileSync('ffmpeg', ['-v', 'error', ...input, '-i', '-', ...output], { input: file })
    expect(Math.abs(sound.length / 2 / 44_100 - Number(last?.['duration']))).toBeLessThan(0.1)
  })

  test('counts characters, not UTF-16 units', async () => {
    expect((await speak({ text: 'Fine 👍🏽' })).body.usage).toBe(7)
  })
})

describe('names the field of an invalid value', () => {
  test.each<[object, string, RegExp]>([
    [{ text: 'Hallo', language: 'de' }, 'language', /en, en-US/],
    [{ text: 'Hello', speaker: 'nobody' }, 'speaker', /neural/],
    [{ text: 'Hello', speed: 5.1 }, 'speed', /5/],
    [{ text: 'Hello', speed: 0 }, 'speed', /0\.1/],
    [{ text: '' }, 'text', /empty/],
    [{ text: '… ?! 👍' }, 'text', /no word/],
    [{ text: 'Hello 你好' }, 'text', /你 好/],
    [{ text: 'a'.repeat(100_001) }, 'text', /100000/],
    [{ language: 'en' }, 'text', /text/],
  ])('%#', async (request, param, message) => {
    const { status, body } = await speak(request)
    expect(status).toBe(400)
    expect(body.error).toMatchObject({ type: 'invalid_request_error', param })
    expect(body.error?.message).toMatch(message)
  })
})

test('lists the voices', async () => {
  const { body } = await ask('GET', '/v1/voices')
  expect((body as unknown as { voices: object[] }).voices).toContainEqual({
    speaker: 'neural',
    language: 'en-US',
    sampleRate: 44_100,
  })
})

test('rejects requests when the queue is full, and frees the place of a client that disconnects', async () => {
  const long = { text: `${SENTENCE} `.repeat(1_500) }
  const requests = Array.from({ length: 5 }, () => send('POST', '/v1/audio/generation', JSON.stringify(long)))
  await waitFor('work', async () => {
    const { processing, deferred } = await metrics()
    return processing === 4 && deferred === 1
  })
  const full = await speak({ text: 'Hello.' })
  expect(full).toMatchObject({ status: 503, body: { error: { type: 'overloaded_error', code: 'queue_full' } } })
  expect(full.body.error?.message).toContain(`${full.headers['retry-after']} s`)
  expect(Number(full.headers['retry-after'])).toBeGreaterThanOrEqual(1)
  expect(await ask('GET', '/health')).toMatchObject({ status: 200 })
  requests.forEach((request) => request.destroy())
  await waitFor('free places', async () => (await metrics()).processing === 0)
  expect(await speak({ text: 'Hello.' })).toMatchObject({ status: 200 })
})

test('exits when stdin closes, even during synthesis', async () => {
  const cut = speak({ text: `${SENTENCE} `.repeat(100) })
  cut.catch(() => {})
  await waitFor('work', async () => (await metrics()).processing === 1)
  child.stdin?.end()
  await once(child, 'exit')
  // `aborted` if part of the answer was already sent.
  await expect(cut).rejects.toThrow(/aborted|hang up|ECONNRESET/)
})

interface Answer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: {
    readonly audio: string
    readonly inference_time: number
    readonly usage: number
    readonly duration: number
    readonly error?: { readonly message: string }
  }
}

function send(method: string, url: string, body?: string): http.ClientRequest {
  const request = http.request({ socketPath, method, path: url })
  request.on('error', () => {}).end(body)
  return request
}

async function ask(method: string, url: string, body?: string): Promise<Answer> {
  const [response] = (await once(send(method, url, body), 'response')) as [http.IncomingMessage]
  const text = Buffer.concat((await response.toArray()) as Buffer[]).toString()
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: (text.startsWith('{') ? JSON.parse(text) : { text }) as Answer['body'],
  }
}

function speak(request: object): Promise<Answer> {
  return ask('POST', '/v1/audio/generation', JSON.stringify(request))
}

async function metrics(): Promise<Record<string, number>> {
  const { text } = (await ask('GET', '/metrics')).body as { text?: string }
  const lines = (text ?? '').matchAll(/^berth_engine_requests_(\w+) (\d+)$/gm)
  return Object.fromEntries([...lines].map(([, name = '', value]) => [name, Number(value)]))
}

const kbits = {
  mpeg1: [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  mpeg2: [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
}

/** Walks the frames; each must begin where the previous one ended. */
function walkFrames(mp3: Buffer): { readonly sampleRate: number; readonly seconds: number } {
  const rates = new Set<number>()
  let samples = 0
  for (let at = 0; at < mp3.length;) {
    const head = mp3.readUInt32BE(at)
    // Eleven sync bits, then the version (3: MPEG-1, 2: MPEG-2) and layer III.
    if (head >>> 21 !== 0x7ff || ((head >>> 17) & 3) !== 1) throw new Error(`no frame at ${at} of ${mp3.length}`)
    const isFirst = ((head >>> 19) & 3) === 3
    const rate = ([44_100, 48_000, 32_000][(head >>> 10) & 3] ?? Number.NaN) / (isFirst ? 1 : 2)
    const kbps = (isFirst ? kbits.mpeg1 : kbits.mpeg2)[(head >>> 12) & 15] ?? Number.NaN
    rates.add(rate)
    samples += isFirst ? 1_152 : 576
    at += Math.floor(((isFirst ? 144 : 72) * kbps * 1_000) / rate) + ((head >>> 9) & 1)
    if (!(at <= mp3.length)) throw new Error(`the last frame is cut off`)
  }
  const [sampleRate = 0, ...others] = rates
  if (others.length > 0) throw new Error('the rate changes')
  return { sampleRate, seconds: samples / sampleRate }
}
