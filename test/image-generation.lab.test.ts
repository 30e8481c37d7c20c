/**
 * Image generation with the built-in engine from the customer's side: a built server, its engine, both request paths
 * and common clients. Images have few steps and are small, because their content does not matter here.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { createHyperbolic } from '@hyperbolic/ai-sdk-provider'
import { generateImage } from 'ai'
import OpenAI from 'openai'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { mediaEndpoints } from '../src/contract/media.ts'
import { grayPng } from './sim/model-server-answer.ts'
import { startModelServer } from './sim/model-server.ts'
import { testDatabase, type TestDatabase } from './harness/database.ts'
import { removeFolder } from './harness/leftover.ts'
import { startServerProcess, type ServerProcess } from './lab/process.ts'
import { caller, type Call } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('build')

const STARTUP_MS = 120_000
/** More steps than any machine completes during a test. */
const LONG = 1_000
const model = 'pictogram'
/** One nano-dollar per pixel and step. */
const pixelStepUsdPerMillion = '0.001'

interface Customer {
  readonly key: string
  readonly call: Call
}

let folder: string
let database: TestDatabase
let server: ServerProcess
let operator: Call
let ada: Customer
let ben: Customer

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-pictures-'))
  database = await testDatabase()
  server = await startServerProcess({
    BERTH_DATA_DIR: folder,
    DATABASE_URL: database.url,
    BERTH_SECRET_KEY: 'the secret key of every test server',
    BERTH_LOCAL_ENGINES: 'true',
  })
  operator = caller(server.url, (await readFile(path.join(folder, 'operator.key'), 'utf8')).trim())
  const offered = { name: model, kind: 'image', engine: 'picture', pixelStepUsdPerMillion }
  const made = await operator('POST', '/v2/operator/models', offered)
  if (made.status !== 200) throw new Error(JSON.stringify(made.body))
  ada = await openAccount('Ada', '1')
  ben = await openAccount('Ben', '1')
  await waitFor('the engine is ready', async () => (await statusOf()) === 'ready', STARTUP_MS)
}, STARTUP_MS)

afterAll(async () => {
  await server.stop()
  await database.drop()
  await removeFolder(folder)
}, STARTUP_MS)

async function openAccount(name: string, amountUsd: string): Promise<Customer> {
  const made = await operator('POST', '/v2/operator/accounts', { name, ownerEmail: `${name}@example.test` })
  const credit = { amountUsd, reason: 'for the test' }
  await operator('POST', `/v2/operator/accounts/${made.body.account.id}/credit`, credit)
  const key = made.body.key as string
  return { key, call: caller(server.url, key) }
}

async function statusOf(): Promise<string> {
  const { body } = await ada.call('GET', '/v1/models')
  return (body.data as Array<{ id: string; status: string }>).find(({ id }) => id === model)?.status ?? 'unknown'
}

const small = { model_name: model, prompt: 'a red apple', width: 128, height: 128, steps: 1, cfg_scale: 1 }
const firstPath = '/v1/image/generation'
const secondPath = '/v1/images/generations'

function ask(body: object, { pathname = firstPath, by = ada, signal }: Asking = {}): Promise<Response> {
  return fetch(`${server.url}${pathname}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${by.key}` },
    body: JSON.stringify({ ...small, ...body }),
    ...(signal === undefined ? {} : { signal }),
  })
}

interface Asking {
  readonly pathname?: string
  readonly by?: Customer
  readonly signal?: AbortSignal
}

interface Answer {
  readonly images: Array<{ index: number; image: string; random_seed: number }>
  readonly inference_time: number
  readonly notes?: string[]
}

async function paint(body: object, asking?: Asking): Promise<{ response: Response; answer: Answer; png: Buffer }> {
  const response = await ask(body, asking)
  const answer = (await response.json()) as Answer
  expect([response.status, answer]).toMatchObject([200, { images: [{ index: 0 }] }])
  return { response, answer, png: Buffer.from(answer.images[0]?.image ?? '', 'base64') }
}

/** Width and height from the PNG header. */
function sizeOf(png: Uint8Array): [number, number] {
  const bytes = Buffer.from(png)
  expect(bytes.toString('latin1', 1, 4)).toBe('PNG')
  return [bytes.readUInt32BE(16), bytes.readUInt32BE(20)]
}

const idOf = (response: Response): string => response.headers.get('x-inference-request-id') ?? ''

/** From request-cost, as soon as the response has ended. */
async function nanoOf(response: Response, { call }: Customer = ada): Promise<number> {
  const { body } = await call('POST', '/v2/usage/request-cost', { requestIds: [idOf(response)] })
  expect(body.requests).toHaveLength(1)
  return body.requests[0].costNanoUsd as number
}

async function logOf(response: Response): Promise<{ outcome: string; costUsd: string; streamed: boolean }> {
  return waitFor('the request is in the log', async () => {
    const one = await ada.call('GET', `/v2/usage/requests/${idOf(response)}`)
    return one.status === 200 && one.body
  })
}

type Event =
  | { type: 'queued'; ahead: number }
  | { type: 'progress'; step: number; steps: number }
  | ({ type: 'result' } & Answer)
  | { type: 'error'; error: { message: string; code: string } }

/** Yields each event as it arrives; the last one is the end marker. */
async function* eventsOf(response: Response): AsyncGenerator<Event | '[DONE]'> {
  let rest = ''
  for await (const piece of response.body ?? []) {
    const parts = (rest + Buffer.from(piece as Uint8Array).toString()).split('\n\n')
    rest = parts.pop() ?? ''
    for (const part of parts.filter((one) => one.startsWith('data: '))) {
      yield part === 'data: [DONE]' ? '[DONE]' : (JSON.parse(part.slice(6)) as Event)
    }
  }
}

interface LongImage {
  readonly response: Response
  /** The last step reported. */
  readonly step: () => number
  /** Resolves when the stream has ended. */
  readonly leave: () => Promise<void>
  /** The last event, once the stream has ended. */
  readonly ended: () => Promise<Event | '[DONE]' | undefined>
}

/** Starts an image that runs until its client disconnects, and waits until the engine works on it. */
async function startLongImage(by = ada): Promise<LongImage> {
  const leaving = new AbortController()
  const response = await ask({ steps: LONG, stream: true }, { by, signal: leaving.signal })
  let step = 0
  let last: Event | '[DONE]' | undefined
  const reading = (async () => {
    for await (const event of eventsOf(response)) {
      last = event
      if (event !== '[DONE]' && event.type === 'progress') step = event.step
    }
  })().catch(() => {})
  await waitFor('its first step', () => step > 0, STARTUP_MS)
  const leave = async (): Promise<void> => {
    leaving.abort()
    await reading
  }
  const ended = async (): Promise<typeof last> => {
    await reading
    return last
  }
  return { response, step: () => step, leave, ended }
}

describe('an image', () => {
  test('is a PNG of the requested size and costs pixels times steps', async () => {
    const [width, height, steps] = [192, 128, 2]
    const { response, answer, png } = await paint({ width, height, steps })
    expect(sizeOf(png)).toEqual([width, height])
    expect(answer.inference_time).toBeGreaterThan(0)
    expect(answer).not.toHaveProperty('notes')
    expect(idOf(response)).toMatch(/^req_[0-9a-f]{32}$/)
    expect(await nanoOf(response)).toBe(width * height * steps)
    expect(await logOf(response)).toMatchObject({ outcome: 'answered', streamed: false })
  })

  test('is the same for the same seed and different for another', async () => {
    const first = await paint({ seed: 7 })
    const again = await paint({ seed: first.answer.images[0]?.random_seed }, { pathname: secondPath })
    // The interface allows any integer as a seed.
    const other = await paint({ seed: -7 })
    expect(again.png.equals(first.png)).toBe(true)
    expect(other.png.equals(first.png)).toBe(false)
    expect(other.answer.images[0]?.random_seed).toBe(-7)
    expect(again.answer).toMatchObject({ data: [{ b64_json: first.answer.images[0]?.image }] })
  })

  test('comes with a warning when the prompt was truncated', async () => {
    const { answer } = await paint({ prompt: 'a cat '.repeat(40) })
    expect(answer.notes).toEqual([expect.stringMatching(/^prompt: .+ had no effect$/)])
  })

  test('has a model in the list with its price', async () => {
    const { body } = await ada.call('GET', '/v1/models')
    expect(body.data).toMatchObject([
      { id: model, kind: 'image', input_price: null, output_price: null, pixel_step_price: 0.001, status: 'ready' },
    ])
  })
})

describe('third-party clients', () => {
  test('openai', async () => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: ada.key, maxRetries: 0 })
    const { prompt } = small
    const { data, response } = await client.images
      .generate({ model, prompt, size: '128x256', response_format: 'b64_json', steps: 1 } as never)
      .withResponse()
    const [image] = data.data ?? []
    expect(sizeOf(Buffer.from(image?.b64_json ?? '', 'base64'))).toEqual([128, 256])
    expect(await nanoOf(response)).toBe(128 * 256)
  })

  test.each([
    { steps: 4, n: 1, partial_images: 2, partials: 2 },
    { steps: 1, n: 1, partial_images: 3, partials: 0 },
    { steps: 3, n: 1, partial_images: null, partials: 0 },
    { steps: 3, n: 2, partial_images: 2, partials: 0 },
  ])('openai streams $n image(s) of $steps step(s) with $partials unfinished ones', async (asked) => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: ada.key, maxRetries: 0 })
    const { partials, ...fields } = asked
    const request = { ...fields, model, prompt: small.prompt, size: '256x128' as '256x256', cfg_scale: 1, seed: 5 }
    const { data, response } = await client.images.generate({ ...request, stream: true }).withResponse()
    const events: OpenAI.ImageGenStreamEvent[] = []
    for await (const event of data) events.push(event)
    // Strictly by the contract: an unknown field is an error.
    const { chunk } = mediaEndpoints.generateImageBySecondPath
    expect(events.map((event) => chunk?.parse(event))).toEqual(events)
    const pictures = events.map(({ b64_json }) => b64_json)
    expect(new Set(pictures).size).toBe(partials + asked.n)
    for (const picture of pictures) expect(sizeOf(Buffer.from(picture, 'base64'))).toEqual([256, 128])
    const unfinished = events.filter((event) => event.type === 'image_generation.partial_image')
    expect(unfinished.map((event) => event.partial_image_index)).toEqual([0, 1, 2].slice(0, partials))
    const plain = await client.images.generate(request)
    expect(pictures.slice(partials)).toEqual(plain.data?.map(({ b64_json }) => b64_json))
    // Unfinished images are free.
    expect(await nanoOf(response)).toBe(256 * 128 * asked.steps * asked.n)
  })

  test('@hyperbolic/ai-sdk-provider', async () => {
    const provider = createHyperbolic({ baseURL: `${server.url}/v1`, apiKey: ada.key })
    const { image } = await generateImage({
      model: provider.imageModel(model),
      prompt: small.prompt,
      size: '256x128',
      providerOptions: { hyperbolic: { steps: 1, cfgScale: 2, negativePrompt: 'fog' } },
      maxRetries: 0,
    })
    expect(sizeOf(image.uint8Array)).toEqual([256, 128])
    expect(image.mediaType).toBe('image/png')
  })

  test('openai streams unfinished images, each closer to the image', async () => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: ada.key, maxRetries: 0 })
    const request = { model, prompt: small.prompt, size: '256x256', steps: 12, cfg_scale: 5, seed: 3 } as const
    const stream = await client.images.generate({ ...request, stream: true, partial_images: 3 })
    const pictures: Buffer[] = []
    for await (const event of stream) pictures.push(await sharp(Buffer.from(event.b64_json, 'base64')).raw().toBuffer())
    const last = pictures.at(-1) ?? Buffer.alloc(0)
    // The mean difference of the colors, of 255.
    const distances = pictures.map(
      (picture) => picture.reduce((sum, value, i) => sum + Math.abs(value - (last[i] ?? 0)), 0) / last.length,
    )
    expect(distances).toHaveLength(4)
    expect(distances).toEqual(distances.toSorted((one, other) => other - one))
    const [first = 0, , third = 0] = distances
    expect(third).toBeGreaterThan(0)
    // Noise would be about 85 away.
    expect(first).toBeLessThan(60)
  })
})

describe('a streamed image', () => {
  test('reports its steps, then the plain answer, at the same cost', async () => {
    const body = { steps: 2, seed: 11 }
    const { answer } = await paint(body)
    // Unfinished images are events of the OpenAI API only.
    const response = await ask({ ...body, stream: true, partial_images: 1 })
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/)
    const events: Array<Event | '[DONE]'> = []
    for await (const event of eventsOf(response)) events.push(event)
    expect(events.pop()).toBe('[DONE]')
    // Strictly by the contract: an unknown field is an error.
    expect(events.map((event) => mediaEndpoints.generateImage.chunk?.parse(event))).toEqual(events)
    const result = events.pop()
    expect(result).toMatchObject({ type: 'result', images: answer.images })
    expect(result).toHaveProperty('inference_time')
    expect(events.at(-1)).toEqual({ type: 'progress', step: 2, steps: 2 })
    expect(await nanoOf(response)).toBe(128 * 128 * 2)
    expect(await logOf(response)).toMatchObject({ outcome: 'answered', streamed: true })
  })

  test('stops the engine when its client disconnects, and charges for the reported steps', async () => {
    const { response, step, leave } = await startLongImage()
    await leave()
    const { outcome, costUsd } = await logOf(response)
    expect(outcome).toBe('cut')
    const pixelSteps = Math.round(Number.parseFloat(costUsd) * 1e9)
    expect(pixelSteps % (128 * 128)).toBe(0)
    expect(pixelSteps / (128 * 128)).toBeGreaterThanOrEqual(step())
    expect(pixelSteps / (128 * 128)).toBeLessThan(LONG)
    expect(await nanoOf(response)).toBe(pixelSteps)
    // The engine has one slot, which this request now holds.
    await paint({})
  })

  test('is refused before any output when the balance is too low', async () => {
    const poor = await openAccount('Cyd', '0.00001')
    const response = await ask({ stream: true }, { by: poor })
    expect([response.status, ((await response.json()) as { error: { type: string } }).error.type]).toEqual([
      402,
      'insufficient_balance',
    ])
  })
})

test('a plain request stops the engine when its client disconnects, and is free', async () => {
  const leaving = new AbortController()
  const gone = ask({ steps: LONG }, { signal: leaving.signal }).catch((error: Error) => error.name)
  const inFlight = async (): Promise<boolean> => {
    const { body } = await operator('GET', '/metrics')
    return /berth_deployment_in_flight\{[^}]*deployment="local:pictogram"[^}]*\} 1/.test(body as string)
  }
  await waitFor('the engine has it', inFlight)
  leaving.abort()
  expect(await gone).toBe('AbortError')
  await paint({})
  const left = await waitFor('it is in the log', async () => {
    const { body } = await ada.call('GET', '/v2/usage/requests?limit=5')
    const requests = body.requests as Array<{ outcome: string; streamed: boolean; costUsd: string }>
    return requests.find(({ outcome, streamed }) => outcome === 'cut' && !streamed)
  })
  expect(left.costUsd).toBe('0.000000000')
})

test('of six simultaneous requests, both of a second account are among the first four served', async () => {
  const { leave } = await startLongImage()
  const order: string[] = []
  const waiting: Array<Promise<void>> = []
  const queued: number[] = []
  const join = async (by: Customer, name: string): Promise<void> => {
    const response = await ask({ stream: true }, { by })
    const events = eventsOf(response)
    const first = await events.next()
    queued.push((first.value as { ahead: number }).ahead)
    waiting.push(
      (async () => {
        let last: Event | undefined
        for await (const event of events) if (event !== '[DONE]') last = event
        expect(last?.type).toBe('result')
        order.push(name)
        expect(await nanoOf(response, by)).toBe(128 * 128)
      })(),
    )
  }
  for (let n = 0; n < 4; n++) await join(ada, 'ada')
  for (let n = 0; n < 2; n++) await join(ben, 'ben')
  expect(queued.slice(0, 4)).toEqual([1, 2, 3, 4])
  await leave()
  await Promise.all(waiting)
  expect(order).toHaveLength(6)
  expect(order.lastIndexOf('ben')).toBeLessThan(4)
})

test.each([
  ['width', { width: 127 }, 400],
  ['height', { height: 2_497 }, 400],
  ['width', { width: 'wide' }, 422],
  ['steps', { steps: 0 }, 400],
  ['steps', { steps: 1_001 }, 400],
  ['cfg_scale', { cfg_scale: 51 }, 400],
  ['seed', { seed: 2 ** 53 }, 400],
  ['stream', { stream: 'yes' }, 422],
])('rejects a %s of %j, naming the field, without a charge', async (field, more, status) => {
  for (const stream of [false, true]) {
    const response = await ask({ stream, ...more })
    const body = (await response.json()) as { error: { param: string } }
    expect([response.status, body.error.param]).toEqual([status, field])
    const cost = await ada.call('POST', '/v2/usage/request-cost', { requestIds: [idOf(response)] })
    const charged = (cost.body.requests as Array<{ costNanoUsd: number }>).map(({ costNanoUsd }) => costNanoUsd)
    expect(charged.reduce((sum, nano) => sum + nano, 0)).toBe(0)
  }
})

test('a deployment that an operator adds for the model replaces the built-in engine until it is drained', async () => {
  const upstream = await startModelServer()
  try {
    const url = `http://${upstream.host}:${upstream.port}`
    const added = await operator('POST', '/v2/operator/deployments', { model, url, protocol: 'txt2img' })
    const theirs = grayPng(128, 128)
    const isTheirs = async (): Promise<boolean> => (await paint({ seed: 5 })).png.equals(theirs)
    await waitFor('the server has taken over', isTheirs)
    for (let n = 0; n < 3; n++) expect(await isTheirs()).toBe(true)
    const response = await ask({ stream: true, seed: 5 })
    const events: unknown[] = []
    for await (const event of eventsOf(response)) events.push(event)
    // It cannot report its progress.
    expect(events).toMatchObject([
      { type: 'result', images: [{ image: theirs.toString('base64'), random_seed: 5 }] },
      '[DONE]',
    ])
    expect(await nanoOf(response)).toBe(128 * 128)
    await operator('PATCH', `/v2/operator/deployments/${added.body.id}`, { drained: true })
    await waitFor('the engine is back', async () => !(await isTheirs()))
    await operator('DELETE', `/v2/operator/deployments/${added.body.id}`)
  } finally {
    await upstream.close()
  }
})

test(
  'a request whose painter or engine dies ends in an error and is free',
  async () => {
    const { chunk } = mediaEndpoints.generateImage
    const engine = await childOf(server.pid, 'image-engine')
    for (const victim of [() => childOf(engine, 'painter'), async () => engine]) {
      // The second one starts with a painter that must be restarted.
      const { response, ended } = await startLongImage()
      process.kill(await victim(), 'SIGKILL')
      const last = await ended()
      expect(last).toMatchObject({ type: 'error', error: { message: expect.stringContaining('not charged') } })
      expect(chunk?.parse(last)).toEqual(last)
      expect(await nanoOf(response)).toBe(0)
      expect(await logOf(response)).toMatchObject({ outcome: 'failed', costUsd: '0.000000000', streamed: true })
    }
    await waitFor('the engine is back', async () => (await statusOf()) === 'ready', STARTUP_MS)
  },
  STARTUP_MS,
)

/** Finds a process by part of its command line. */
async function childOf(parent: number, word: string): Promise<number> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=,args='])
  const [pid] = stdout
    .split('\n')
    .map((line) => /^ *(\d+) +(\d+) (.*)$/.exec(line) ?? [])
    .flatMap(([, pid, ppid, args = '']) => (Number(ppid) === parent && args.includes(word) ? [Number(pid)] : []))
  if (pid === undefined) throw new Error(`${parent} has no child ${word}:\n${stdout}`)
  return pid
}
