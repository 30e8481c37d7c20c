/**
 * A first start as in the README, with the local models: chat on a real engine with a real (tiny) model, speech,
 * embeddings and an image. Only the download of the default chat model is skipped.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { inject, afterAll, beforeAll, expect, test } from 'vitest'
import { writeTinyGguf } from '../sim/tiny-gguf.ts'
import { removeFolder } from '../harness/leftover.ts'
import { startServerProcess, type ServerProcess } from '../lab/process.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('build')

const run = promisify(execFile)
const STARTUP_MS = 120_000

let folder: string
let server: ServerProcess
let key: string
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-local-'))
  server = await startServerProcess({
    BERTH_DATA_DIR: path.join(folder, 'data'),
    BERTH_LOCAL_ENGINES: 'true',
    BERTH_DEFAULT_MODELS: 'embedded',
  })
  key = (await readFile(path.join(folder, 'data', 'demo.key'), 'utf8')).trim()
}, STARTUP_MS)
afterAll(async () => {
  await server.stop()
  await removeFolder(folder)
}, STARTUP_MS)

async function post(pathname: string, body: object): Promise<Response> {
  return fetch(`${server.url}${pathname}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  })
}

/** Engines start in the background: until one is ready, its model returns 503 with Retry-After. */
async function whenReady(pathname: string, body: object): Promise<Response> {
  return waitFor(
    `${pathname} is answered`,
    async () => {
      const response = await post(pathname, body)
      if (response.status !== 503) return response
      expect(response.headers.get('retry-after')).toMatch(/^\d+$/)
      await response.text()
      return false
    },
    STARTUP_MS,
  )
}

async function costOf(response: Response): Promise<number> {
  const requestId = response.headers.get('x-inference-request-id') ?? ''
  const reply = await post('/v2/usage/request-cost', { requestIds: [requestId] })
  const { requests } = (await reply.json()) as { requests: Array<{ costNanoUsd: number }> }
  expect(requests).toHaveLength(1)
  return requests[0]?.costNanoUsd ?? -1
}

async function berth(...args: string[]): Promise<string> {
  const cli = path.join(path.dirname(inject('serverBundle')), 'cli.mjs')
  const env = { BERTH_URL: server.url, BERTH_DATA_DIR: path.join(folder, 'data') }
  return (await run(process.execPath, [cli, ...args], { env })).stdout
}

test('speech is a playable MP3 of the reported length and costs per character', { timeout: STARTUP_MS }, async () => {
  const text = 'Hello from Berth. The ship is in the harbour.'
  const response = await whenReady('/v1/audio/generation', { text })
  expect(response.status).toBe(200)
  const spoken = (await response.json()) as { audio: string; duration: number; sample_rate: number; usage: number }
  const file = path.join(folder, 'spoken.mp3')
  await writeFile(file, Buffer.from(spoken.audio, 'base64'))
  const entries = ['-show_entries', 'stream=codec_name,sample_rate:format=duration', '-of', 'json']
  const probe = JSON.parse((await run('ffprobe', ['-v', 'error', ...entries, file])).stdout) as {
    streams: Array<{ codec_name: string; sample_rate: string }>
    format: { duration: string }
  }
  expect(probe.streams).toEqual([{ codec_name: 'mp3', sample_rate: String(spoken.sample_rate) }])
  expect(Math.abs(Number.parseFloat(probe.format.duration) - spoken.duration)).toBeLessThan(0.15)
  expect(spoken.duration).toBeGreaterThan(1.5)
  expect(spoken.usage).toBe(text.length)
  expect(await costOf(response)).toBeGreaterThan(0)
})

test('embeddings of similar texts are close, and cost per token', { timeout: STARTUP_MS }, async () => {
  const input = ['a cat sleeps on the sofa', 'a kitten naps on the couch', 'the invoice is due on Friday']
  const response = await whenReady('/v1/embeddings', { model: 'all-minilm-l6-v2', input })
  const { data, usage } = (await response.json()) as {
    data: Array<{ embedding: number[] }>
    usage: { prompt_tokens: number }
  }
  const [cat = [], kitten = [], invoice = []] = data.map((one) => one.embedding)
  const cosine = (a: readonly number[], b: readonly number[]): number =>
    a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0)
  expect(cat).toHaveLength(384)
  expect(cosine(cat, kitten)).toBeGreaterThan(cosine(cat, invoice) + 0.3)
  // $0.01 per million tokens: ten nano-dollars each.
  expect(await costOf(response)).toBe(usage.prompt_tokens * 10)
})

test(
  'P34: the built-in model of embeddings ranks by meaning, and costs per token',
  { timeout: STARTUP_MS },
  async () => {
    const documents = [
      'Bread is baked from flour and water.',
      'A berth is a place for a ship in a harbor.',
      'Invoices are due.',
    ]
    const response = await whenReady('/v1/rerank', {
      model: 'all-minilm-l6-v2',
      query: 'Where do ships moor?',
      documents,
      top_n: 2,
    })
    const { results, usage, meta } = (await response.json()) as {
      results: Array<{ index: number; relevance_score: number }>
      usage: { prompt_tokens: number }
      meta: { billed_units: { input_tokens: number } }
    }
    expect(results).toHaveLength(2)
    expect(results[0]?.index).toBe(1)
    expect(results[0]?.relevance_score).toBeGreaterThan(results[1]?.relevance_score ?? 1)
    expect(meta.billed_units.input_tokens).toBe(usage.prompt_tokens)
    expect(await costOf(response)).toBe(usage.prompt_tokens * 10)
  },
)

test('an image needs no other server and costs per pixel and step', { timeout: STARTUP_MS }, async () => {
  const body = { model_name: 'pictogram', prompt: 'a red apple', width: 128, height: 192, steps: 1 }
  const response = await whenReady('/v1/image/generation', body)
  const { images } = (await response.json()) as { images: Array<{ image: string }> }
  const png = Buffer.from(images[0]?.image ?? '', 'base64')
  expect([png.toString('latin1', 1, 4), png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual(['PNG', 128, 192])
  // $0.0001 per million: a tenth of a nano-dollar each, rounded to a whole one.
  expect(await costOf(response)).toBe(Math.floor((128 * 192) / 10))
})

test('one command puts a GGUF file on sale, and it answers chats', { timeout: STARTUP_MS }, async () => {
  const file = path.join(folder, 'tiny.gguf')
  await writeTinyGguf(file)
  await berth('models', 'create', 'house/tiny', '--gguf', file, '--input-price', '1', '--output-price', '2')
  await berth('models', 'pull', 'house/tiny')
  expect(await berth('models', 'ls')).toMatch(/house\/tiny +chat +ready/)

  const messages = [{ role: 'user', content: 'Hello' }]
  const body = { model: 'house/tiny', messages, max_tokens: 12, seed: 7, temperature: 1 }
  const plain = await post('/v1/chat/completions', body)
  const answer = (await plain.json()) as {
    choices: Array<{ message: { content: string } }>
    usage: { prompt_tokens: number; completion_tokens: number }
  }
  expect(plain.status).toBe(200)
  expect(answer.usage.completion_tokens).toBeLessThanOrEqual(12)
  expect(await costOf(plain)).toBe(answer.usage.prompt_tokens * 1_000 + answer.usage.completion_tokens * 2_000)

  const streamed = await post('/v1/chat/completions', { ...body, stream: true })
  const text = (await streamed.text())
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => (JSON.parse(event.slice(6)) as { choices: Array<{ delta: { content?: string } }> }).choices[0])
    .map((choice) => choice?.delta.content ?? '')
    .join('')
  expect(text).toBe(answer.choices[0]?.message.content)
})

test(
  'a client that disconnects mid-stream stops the engine, which is free for the next request',
  { timeout: STARTUP_MS },
  async () => {
    const messages = [{ role: 'user', content: 'Speak for ever' }]
    const body = { model: 'house/tiny', messages, stream: true, max_tokens: 1_500, logit_bias: { '257': -100 } }
    for (let n = 0; n < 12; n++) {
      const gone = new AbortController()
      const response = await fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        signal: gone.signal,
        headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
        body: JSON.stringify(body),
      })
      await response.body?.getReader().read()
      gone.abort()
    }
    const last = await post('/v1/chat/completions', { ...body, stream: false, max_tokens: 2 })
    expect(last.status).toBe(200)
  },
)
