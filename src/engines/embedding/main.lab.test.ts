import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test, inject } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

const folder = mkdtempSync(path.join(os.tmpdir(), 'berth-embedding-'))
let engine: Engine

beforeAll(async () => {
  engine = await startEngine('main.sock')
})

afterAll(() => {
  engine.child.kill('SIGKILL')
  rmSync(folder, { recursive: true })
})

describe('the process', () => {
  test('reports its capabilities when it listens', () => {
    const ready = { event: 'ready', contextTokens: 512, concurrency: 4, supportsTools: false }
    expect(engine.events).toEqual([{ event: 'loading', progress: 0 }, ready])
  })

  test('has a private socket and answers health checks', async () => {
    expect(statSync(engine.socketPath).mode & 0o077).toBe(0)
    expect(await ask(engine, 'GET', '/health')).toMatchObject({ status: 200, body: { status: 'ok' } })
    expect(await ask(engine, 'GET', '/v1/nothing')).toMatchObject({ status: 404, body: { error: { param: null } } })
  })

  test('exits on SIGTERM while working, and the next start removes the stale socket', async () => {
    const first = await startEngine('again.sock')
    const cut = embed(first, { input: Array.from({ length: 100 }, () => 'word '.repeat(500)) })
    cut.catch(() => {})
    await waitFor('work', async () => (await metrics(first)).processing === 1)
    first.child.kill('SIGTERM')
    expect(await once(first.child, 'exit')).toEqual([null, 'SIGTERM'])
    await expect(cut).rejects.toThrow(/hang up|ECONNRESET/)
    expect(existsSync(first.socketPath)).toBe(true)

    const second = await startEngine('again.sock')
    expect(await ask(second, 'GET', '/health')).toMatchObject({ status: 200 })
    second.child.stdin?.end()
    await once(second.child, 'exit')
    expect(existsSync(second.socketPath)).toBe(false)
  })

  test('reports why it cannot start, and never deletes a file that is not a socket', async () => {
    const started = startEngine('.')
    await expect(started).rejects.toThrow('is not a socket')
    expect(existsSync(folder)).toBe(true)
  })

  test('stops working when the client disconnects', async () => {
    const before = (await metrics(engine)).total
    const socket = net.connect(engine.socketPath)
    const body = JSON.stringify({ input: Array.from({ length: 400 }, () => 'word '.repeat(500)) })
    socket.write(`POST /v1/embeddings HTTP/1.1\r\nhost: engine\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
    await waitFor('work', async () => (await metrics(engine)).processing === 1)
    socket.destroy()
    // The whole request would take more than half a minute.
    await waitFor('no work', async () => (await metrics(engine)).processing === 0)
    expect((await metrics(engine)).total).toBe((before ?? NaN) + 1)
  })
})

describe('vectors', () => {
  test.each([
    ['a cat', 'a kitten', 'an invoice'],
    ['How do I reset my password?', 'I forgot my login credentials', 'The weather in Lisbon is mild'],
    ['The stock market fell sharply', 'Shares lost much of their value', 'She baked a chocolate cake'],
    ['a GPU server for machine learning', 'hardware to train neural networks', 'a recipe for tomato soup'],
    ['The film was wonderful', 'I loved this movie', 'The film was terrible and boring'],
  ])('%j is nearer to %j than to %j', async (text, near, far) => {
    const [a = [], b = [], c = []] = await vectors([text, near, far])
    expect(cosine(a, b)).toBeGreaterThan(cosine(a, c))
  })

  test('have 384 dimensions and length 1', async () => {
    for (const vector of await vectors(['x', 'The quick brown fox', 'word '.repeat(510)])) {
      expect(vector.length).toBe(384)
      expect(cosine(vector, vector)).toBeCloseTo(1, 5)
    }
  })

  test('do not depend on the other texts of the request', async () => {
    const texts = [
      'one',
      'a cat sat on the mat',
      'two',
      'a much longer text that has many more words in it than others',
    ]
    const together = await vectors(texts)
    const alone = await Promise.all(texts.map(async (text) => (await vectors(text))[0]))
    expect(together).toEqual(alone)
    expect((await vectors(texts.toReversed())).toReversed()).toEqual(alone)
  })

  test('are the same as base64', async () => {
    const [floats = []] = await vectors('a cat')
    const { body } = await embed(engine, { input: 'a cat', encoding_format: 'base64' })
    const bytes = Buffer.from(String((body as unknown as { data: Base64Row[] }).data[0]?.embedding), 'base64')
    expect(bytes.length).toBe(4 * 384)
    expect(floats.map(Math.fround)).toEqual(floats.map((_, i) => bytes.readFloatLE(4 * i)))
  })
})

test('answers in OpenAI format with the number of tokens', async () => {
  const { status, body } = await embed(engine, { model: 'any', input: ['hello world', 'unaffable'] })
  expect(status).toBe(200)
  expect(body).toMatchObject({
    object: 'list',
    model: 'the-model',
    data: [
      { object: 'embedding', index: 0 },
      { object: 'embedding', index: 1 },
    ],
    usage: { prompt_tokens: 4 + 5, total_tokens: 4 + 5 },
  })
})

test('gives tokens the same vector as their text', async () => {
  // "hello world" in BERT's vocabulary.
  const tokens = [7_592, 2_088]
  const [text, one, several] = await Promise.all(
    ['hello world', tokens, [tokens]].map(async (input) => (await embed(engine, { input })).body as unknown),
  )
  expect(one).toEqual(text)
  expect(several).toEqual(text)
})

describe('names the field of an invalid value', () => {
  const long = 'word '.repeat(511)
  test.each<[object, string, RegExp]>([
    [{ input: long }, 'input', /512 tokens/],
    [{ input: ['fine', long] }, 'input.1', /512 tokens/],
    [{ input: ' '.repeat(200_000) }, 'input', /512 tokens/],
    [{ input: '' }, 'input', /no text/],
    [{ input: ['a', ' \n'] }, 'input.1', /no text/],
    [{ input: [] }, 'input', /list of 1 to 2048/],
    [{ input: Array.from({ length: 2_049 }, () => 'a') }, 'input', /2048/],
    [{ input: [1, 'two'] }, 'input', /string/],
    [{ input: [1, 30_522] }, 'input', /30522 is not a token/],
    [
      { input: [[5], Array.from({ length: 511 }, () => 7)] },
      'input.1',
      /^This model's maximum context length is 512 tokens/,
    ],
    [{}, 'input', /string/],
    [{ input: 'a', dimensions: 256 }, 'dimensions', /384/],
    [{ input: 'a', encoding_format: 'int8' }, 'encoding_format', /float/],
  ])('%#', async (body, param, message) => {
    const answer = await embed(engine, body)
    expect(answer).toMatchObject({ status: 400, body: { error: { type: 'invalid_request_error', param } } })
    expect((answer.body as { error?: { message: string } }).error?.message).toMatch(message)
  })

  test('rejects a body that is not JSON or too large', async () => {
    expect(await ask(engine, 'POST', '/v1/embeddings', '{')).toMatchObject({ status: 400 })
    const huge = JSON.stringify({ input: 'a'.repeat(9_000_000) })
    expect(await ask(engine, 'POST', '/v1/embeddings', huge)).toMatchObject({ status: 413 })
  })

  test('truncates a long text if requested', async () => {
    const cut = await embed(engine, { input: long, truncate: true, dimensions: 384 })
    expect(cut).toMatchObject({ status: 200, body: { usage: { prompt_tokens: 512 } } })
    expect(await vectors('word '.repeat(510))).toEqual(cut.body.data?.map((row) => row.embedding))
  })
})

interface Engine {
  readonly child: ChildProcess
  readonly socketPath: string
  readonly events: object[]
}

interface Base64Row {
  readonly embedding: string
}

interface Answer {
  readonly status: number
  readonly body: { readonly data?: ReadonlyArray<{ readonly embedding: number[] }> }
}

async function startEngine(socket: string): Promise<Engine> {
  const socketPath = path.join(folder, socket)
  const start = JSON.stringify({ model: 'the-model', socketPath, threads: 1, queue: 8 })
  const child = spawn(
    process.execPath,
    [path.join(path.dirname(inject('serverBundle')), 'embedding-engine.mjs'), start],
    {
      stdio: ['pipe', 'pipe', 'ignore'],
    },
  )
  const events: Array<{ event: string; message?: string }> = []
  createInterface(child.stdout).on('line', (line) => events.push(JSON.parse(line) as (typeof events)[number]))
  await waitFor('the engine', () => events.some(({ event }) => event === 'ready' || event === 'failed'))
  const failed = events.find(({ event }) => event === 'failed')
  if (failed !== undefined) throw new Error(failed.message)
  return { child, socketPath, events }
}

async function ask({ socketPath }: Engine, method: string, url: string, body?: string): Promise<Answer> {
  const request = http.request({ socketPath, method, path: url })
  // The engine may answer and close before it has read the whole body.
  request.on('error', () => {}).end(body)
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  const text = Buffer.concat((await response.toArray()) as Buffer[]).toString()
  return { status: response.statusCode ?? 0, body: (text.startsWith('{') ? JSON.parse(text) : { text }) as never }
}

function embed(to: Engine, body: object): Promise<Answer> {
  return ask(to, 'POST', '/v1/embeddings', JSON.stringify(body))
}

async function vectors(input: string | string[]): Promise<number[][]> {
  const { body } = await embed(engine, { input })
  return (body.data ?? []).map((row) => row.embedding)
}

async function metrics(from: Engine): Promise<Record<string, number>> {
  const { text } = (await ask(from, 'GET', '/metrics')).body as { text?: string }
  const lines = (text ?? '').matchAll(/^berth_engine_requests_(\w+) (\d+)$/gm)
  return Object.fromEntries([...lines].map(([, name = '', value]) => [name, Number(value)]))
}

function cosine(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0)
}
