import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { loadJudge, mainColour, rank } from '../../../models/pictogram/judge.ts'
import { pictogramFolder } from '../../../test/harness/pictogram.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { loadMiniLm } from '../embedding/mini-lm.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

/** Loading takes a second or two on two CPUs, and much longer on a busy machine. */
const LOADING_MS = 150_000
const MB = 1_048_576

const folder = mkdtempSync(path.join(os.tmpdir(), 'berth-image-'))
let engine: Engine

beforeAll(async () => {
  engine = await startEngine('main.sock', 16)
})

afterAll(() => {
  engine.child.kill('SIGKILL')
  rmSync(folder, { recursive: true })
})

describe('the process', () => {
  test('is ready at once, before loading the model', async () => {
    const ready = { event: 'ready', contextTokens: null, concurrency: 1, supportsTools: false }
    expect(engine.events).toEqual([{ event: 'loading', progress: 0 }, ready])
    expect(statSync(engine.socketPath).mode & 0o077).toBe(0)
    expect(await ask(engine, 'GET', '/health')).toMatchObject({ status: 200, body: { status: 'ok' } })
    expect(await painterOf(engine)).toBeUndefined()
  })

  test('names a missing model file at the start', async () => {
    const empty = path.join(folder, 'empty')
    mkdirSync(empty)
    await expect(startEngine('none.sock', 1, empty)).rejects.toThrow(/painter\.onnx is missing/)
  })
})

describe(
  'an image',
  () => {
    test('is a PNG of the native size, and identical for the same seed, also when streamed', async () => {
      const request = { width: 512, height: 512, cfg_scale: 3, seed: 7 }
      const [first, again] = [await paint(engine, request), await paintStream(engine, request)]
      expect(first.status).toBe(200)
      expect(Object.keys(first.body)).toEqual(['images'])
      expect(first.body.images).toEqual([{ index: 0, image: expect.any(String) as string, random_seed: 7 }])
      expect(again.at(-1)).toEqual({ type: 'result', ...first.body })
    })

    test('changes with seed, steps, guidance, prompt and negative prompt', async () => {
      const request = { steps: 1, cfg_scale: 4, seed: 7 }
      const all = [
        request,
        { ...request, seed: 8 },
        { ...request, steps: 2 },
        { ...request, cfg_scale: 8 },
        { ...request, prompt: 'a blue cup' },
        { ...request, negative_prompt: 'a blue cup' },
      ]
      const images = await Promise.all(all.map(async (one) => imageOf(await paint(engine, one))))
      expect(new Set(images).size).toBe(all.length)
    })

    test('depends on the prompt only at guidance 1, and on the negative prompt only at 0', async () => {
      const [cup, cupWithout, nothing, negative] = await Promise.all([
        paint(engine, { cfg_scale: 1, prompt: 'a cup' }),
        paint(engine, { cfg_scale: 1, prompt: 'a cup', negative_prompt: 'a dog' }),
        paint(engine, { cfg_scale: 0, prompt: 'a cup' }),
        paint(engine, { cfg_scale: 0, prompt: 'a dog', negative_prompt: 'a cup' }),
      ])
      expect(imageOf(cupWithout)).toBe(imageOf(cup))
      expect(imageOf(negative)).toBe(imageOf(cup))
      expect(imageOf(nothing)).not.toBe(imageOf(cup))
    })

    // image-file.test.ts has more sizes.
    test.each([
      [128, 2_496],
      [333, 129],
    ])('has exactly %d by %d pixels if requested', async (width, height) => {
      const png = Buffer.from(imageOf(await paint(engine, { width, height })), 'base64')
      expect(await sharp(png).metadata()).toMatchObject({ format: 'png', width, height, hasAlpha: false })
    })

    test('has a random seed by default, which the answer reports', async () => {
      const drawn = await paint(engine, { seed: undefined })
      const seed = drawn.body.images?.[0]?.random_seed
      expect(seed).toBeGreaterThanOrEqual(0)
      expect(imageOf(await paint(engine, { seed }))).toBe(imageOf(drawn))
    })

    test('of a prompt longer than the model reads comes with a note', async () => {
      const words = Array.from({ length: 30 }, () => 'red').join(' ')
      const [whole, long] = [
        await paint(engine, { prompt: words }),
        await paint(engine, { prompt: `${words} and blue` }),
      ]
      expect(whole.body.notes).toBeUndefined()
      expect(imageOf(long)).toBe(imageOf(whole))
      expect(long.body.notes).toEqual([expect.stringMatching(/^prompt: this model reads only 30 .*red red". The rest/)])
    })
  },
  LOADING_MS,
)

describe('the content of an image', () => {
  const names = [
    'red apple',
    'house',
    'sailboat',
    'guitar',
    'automobile',
    'dog face',
    'star',
    'umbrella',
    'key',
    'fish',
  ]

  const labels = new Map<string, Float32Array>()
  let judge: Awaited<ReturnType<typeof loadJudge>>
  beforeAll(async () => {
    judge = await loadJudge(path.join(pictogramFolder, 'judge.onnx'))
    const miniLm = await loadMiniLm(1)
    for (const one of names) labels.set(one, await miniLm.embed(miniLm.tokenize(one).ids))
  })

  // Few steps, so this image is rough. The model card has the general quality.
  test('for "a purple car" is purple and, of ten names, closest to "automobile" for a judge that does not see the prompt', async () => {
    const prompt = 'a purple car'
    const answer = await paint(engine, { prompt, steps: 6, cfg_scale: 5, seed: 1, width: 256, height: 256 })
    const png = Buffer.from(imageOf(answer), 'base64')
    expect(rank(await judge.see(png), labels, names)[0]).toBe('automobile')
    expect(await mainColour(png)).toBe('purple')
  })
})

describe('names the field of an invalid value', () => {
  test.each<[object, string]>([
    [{ width: 100 }, 'width'],
    [{ height: 2_500 }, 'height'],
    [{ height: 256.5, stream: true }, 'height'],
    [{ prompt: ' ' }, 'prompt'],
    [{ steps: 0 }, 'steps'],
  ])('%j', async (fields, param) => {
    const { status, body } = await paint(engine, fields)
    expect(status).toBe(400)
    expect(body.error).toMatchObject({ type: 'invalid_request_error', param })
    expect(body.error?.message).toContain(`${param}: `)
  })

  test('rejects a body that is not JSON or too large', async () => {
    expect(await ask(engine, 'POST', '/v1/image/generation', '{')).toMatchObject({ status: 400 })
    expect(await ask(engine, 'POST', '/v1/image/generation', ' '.repeat(300_000))).toMatchObject({ status: 413 })
  })
})

test('answers six concurrent requests in order without keeping memory', async () => {
  const before = await memoryOf(engine)
  const seeds = Array.from({ length: 6 }, (_, i) => i)
  const answers = await Promise.all(seeds.map((seed) => paint(engine, { seed })))
  expect(answers.map(({ status }) => status)).toEqual(seeds.map(() => 200))
  expect(answers.map(({ body }) => body.images?.[0]?.random_seed)).toEqual(seeds)
  expect(new Set(answers.map(imageOf)).size).toBe(seeds.length)
  // Lasting memory is allocated by now. The decoder returns 3 MB per image, so a leak would be 18 MB.
  expect((await memoryOf(engine)) - before).toBeLessThan(15 * MB)
})

test('streams progress and then the image', async () => {
  const events = await paintStream(engine, { steps: 3 })
  const progress = events.filter(({ type }) => type === 'progress')
  expect(events.map(({ type }) => type)).toEqual([...progress.map(({ type }) => type), 'result'])
  expect(progress.at(-1)).toEqual({ type: 'progress', step: 3, steps: 3 })
  const steps = progress.map(({ step }) => step ?? NaN)
  expect(steps).toEqual([...new Set(steps)].toSorted((a, b) => a - b))
})

test('cancels running and queued requests of clients that disconnect', async () => {
  const before = (await metrics(engine)).total ?? NaN
  const [plain, stream] = [send(engine, { steps: 1_000 }), send(engine, { steps: 1_000, stream: true })]
  // The second client was told that it is queued.
  await once(stream, 'response')
  await waitFor('work', async () => (await metrics(engine)).processing === 1)
  stream.destroy()
  await waitFor('no waiting requests', async () => (await metrics(engine)).deferred === 0)
  plain.destroy()
  // The whole work would take minutes.
  await waitFor('no work', async () => (await metrics(engine)).processing === 0)
  const streaming = send(engine, { steps: 1_000, stream: true })
  const [response] = (await once(streaming, 'response')) as [http.IncomingMessage]
  await once(response, 'data')
  streaming.destroy()
  await waitFor('no work', async () => (await metrics(engine)).processing === 0)
  expect(await metrics(engine)).toEqual({ processing: 0, deferred: 0, total: before + 3 })
})

test(
  'rejects requests when the queue is full, loses one image per painter crash, and exits on SIGTERM with its painter',
  async () => {
    const own = await startEngine('own.sock', 1)
    const first = paintStream(own, { steps: 1_000 })
    await waitFor('work', async () => (await metrics(own)).processing === 1)
    const reported: ImageEvent[] = []
    const second = paintStream(own, { steps: 1_000 }, (event) => reported.push(event))
    second.catch(() => {})
    await waitFor('one that waits', () => reported.length > 0)
    expect(reported).toEqual([{ type: 'queued', ahead: 1 }])

    for (const stream of [false, true]) {
      const full = await paint(own, { stream })
      expect(full).toMatchObject({ status: 503, body: { error: { type: 'overloaded_error', code: 'queue_full' } } })
      expect(Number(full.retryAfter)).toBeGreaterThanOrEqual(1)
    }

    process.kill((await painterOf(own))?.pid ?? NaN, 'SIGKILL')
    expect((await first).at(-1)).toMatchObject({ type: 'error', error: { type: 'server_error' } })
    await waitFor('the second', () => reported.some(({ type }) => type === 'progress'), LOADING_MS)

    const painter = (await painterOf(own))?.pid
    expect(painter).toBeDefined()
    own.child.kill('SIGTERM')
    expect(await once(own.child, 'exit')).toEqual([null, 'SIGTERM'])
    await expect(second).rejects.toThrow(/aborted|hang up|ECONNRESET/)
    await waitFor('the end of the painter', async () => !(await listProcesses()).some(({ pid }) => pid === painter))
  },
  LOADING_MS,
)

interface Engine {
  readonly child: ChildProcess
  readonly socketPath: string
  readonly events: object[]
}

interface Answer {
  readonly status: number
  readonly retryAfter: string | undefined
  readonly body: {
    readonly images?: ReadonlyArray<{ readonly image: string; readonly random_seed: number }>
    readonly notes?: readonly string[]
    readonly error?: { readonly message: string }
  }
}

interface ImageEvent {
  readonly type: string
  readonly step?: number
}

async function startEngine(socket: string, queue: number, model = pictogramFolder): Promise<Engine> {
  const socketPath = path.join(folder, socket)
  const start = JSON.stringify({ model: 'the-model', socketPath, threads: null, queue })
  const entry = path.join(path.dirname(inject('serverBundle')), 'image-engine.mjs')
  const child = spawn(process.execPath, [entry, start, model], { stdio: ['pipe', 'pipe', 'ignore'] })
  const events: Array<{ event: string; message?: string }> = []
  createInterface(child.stdout).on('line', (line) => events.push(JSON.parse(line) as (typeof events)[number]))
  await waitFor('the engine', () => events.some(({ event }) => event === 'ready' || event === 'failed'))
  const failed = events.find(({ event }) => event === 'failed')
  if (failed !== undefined) throw new Error(failed.message)
  return { child, socketPath, events }
}

function request({ socketPath }: Engine, method: string, url: string, body?: string): http.ClientRequest {
  const asking = http.request({ socketPath, method, path: url })
  // The engine may answer and close before it has read the whole body.
  asking.on('error', () => {}).end(body)
  return asking
}

async function ask(to: Engine, method: string, url: string, body?: string): Promise<Answer> {
  const [response] = (await once(request(to, method, url, body), 'response')) as [http.IncomingMessage]
  const text = Buffer.concat((await response.toArray()) as Buffer[]).toString()
  return {
    status: response.statusCode ?? 0,
    retryAfter: response.headers['retry-after'],
    body: (text.startsWith('{') ? JSON.parse(text) : { text }) as Answer['body'],
  }
}

/** Requests a small image unless `fields` say otherwise. */
function bodyOf(fields: object): string {
  const small = { prompt: 'a red apple', width: 128, height: 128, steps: 1, cfg_scale: 1, seed: 1 }
  return JSON.stringify({ ...small, ...fields })
}

function send(to: Engine, fields: object): http.ClientRequest {
  return request(to, 'POST', '/v1/image/generation', bodyOf(fields))
}

function paint(to: Engine, fields: object): Promise<Answer> {
  return ask(to, 'POST', '/v1/image/generation', bodyOf(fields))
}

/** All events. The stream must end with `[DONE]` or an error. */
async function paintStream(
  to: Engine,
  fields: object,
  onEvent: (event: ImageEvent) => void = () => {},
): Promise<ImageEvent[]> {
  const [response] = (await once(send(to, { ...fields, stream: true }), 'response')) as [http.IncomingMessage]
  expect(response.headers['content-type']).toBe('text/event-stream')
  const events: ImageEvent[] = []
  let isDone = false
  for await (const line of createInterface(response)) {
    if (line === '') continue
    expect(line.startsWith('data: ')).toBe(true)
    expect(isDone).toBe(false)
    if (line === 'data: [DONE]') {
      isDone = true
      continue
    }
    const event = JSON.parse(line.slice(6)) as ImageEvent
    events.push(event)
    onEvent(event)
  }
  if (response.errored !== null) throw response.errored
  expect(isDone).toBe(events.at(-1)?.type === 'result')
  return events
}

function imageOf({ status, body }: Answer): string {
  expect(status).toBe(200)
  return body.images?.[0]?.image ?? ''
}

async function metrics(from: Engine): Promise<Record<string, number>> {
  const { text } = (await ask(from, 'GET', '/metrics')).body as { text?: string }
  const lines = (text ?? '').matchAll(/^berth_engine_requests_(\w+) (\d+)$/gm)
  return Object.fromEntries([...lines].map(([, name = '', value]) => [name, Number(value)]))
}

interface Process {
  readonly pid: number
  readonly parent: number
  readonly bytes: number
}

async function listProcesses(): Promise<Process[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=,rss='])
  return stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .map(([pid = NaN, parent = NaN, kb = NaN]) => ({ pid, parent, bytes: 1_024 * kb }))
}

async function painterOf({ child }: Engine): Promise<Process | undefined> {
  return (await listProcesses()).find(({ parent }) => parent === child.pid)
}

/** Memory of the engine and its painter. */
async function memoryOf({ child }: Engine): Promise<number> {
  const own = (await listProcesses()).filter(({ pid, parent }) => pid === child.pid || parent === child.pid)
  expect(own.length).toBe(2)
  return own.reduce((sum, { bytes }) => sum + bytes, 0)
}
