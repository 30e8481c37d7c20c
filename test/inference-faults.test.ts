/** Faults of engines and clients: the expected outcome and cost of each. */
import net from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Fault } from './sim/model-server-fault.ts'
import { addDeployment, NANO_PER_INPUT, NANO_PER_OUTPUT, serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { startModelServer, type ModelServer } from './sim/model-server.ts'

let server: TestServer
let model: TestModel
/** The same engine behind a gateway with short timeouts, for an engine that stalls before or during an answer. */
let impatient: { readonly atFirst: TestModel; readonly within: TestModel }
let ada: { id: string; key: string; call: Call }
const messages = [{ role: 'user', content: 'Say some words' }]

beforeAll(async () => {
  server = await testServer({ runLoops: false })
  const serve = (name: string, limits: object = {}): Promise<TestModel> =>
    serveModel(server, { name, deployment: { readsMetrics: true, ...limits }, behaviour: { usage: 'continuous' } })
  model = await serve('test/model')
  // Short enough for a test; a healthy engine on a busy machine may take longer.
  impatient = {
    atFirst: await serve('test/hurried', { firstByteMs: 1_500 }),
    within: await serve('test/hasty', { betweenBytesMs: 1_500 }),
  }
  ada = await server.account({ usd: '1' })
  for (const one of [model, impatient.atFirst, impatient.within]) await recovered(one)
})
beforeEach(() => {
  for (const { upstream } of [model, impatient.atFirst, impatient.within]) {
    Object.assign(upstream.behaviour, { fault: undefined, faultsOnce: [], words: 5, intervalMs: 0 })
  }
})
afterAll(async () => {
  await server.close()
  for (const { upstream } of [model, impatient.atFirst, impatient.within]) await upstream.close()
})

async function chat(
  { contentType = 'application/json', ...more }: { contentType?: string } & Record<string, unknown>,
  signal?: AbortSignal,
): Promise<Response> {
  return fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': contentType, authorization: `Bearer ${ada.key}` },
    body: JSON.stringify({ model: model.name, messages, ...more }),
    ...(signal === undefined ? {} : { signal }),
  })
}

interface Chunk {
  choices: Array<{ delta: { content?: string } }>
}

interface Logged {
  outcome: string
  status: number
  reason: string | null
  costUsd: string
  inputUnits: number
  outputUnits: number
}

/** The numbers in these tests are small enough for a double. */
function nanoOf(usd: string): number {
  return Math.round(Number.parseFloat(usd) * 1e9)
}

async function logOf(response: Response): Promise<Logged> {
  const id = response.headers.get('x-inference-request-id') ?? ''
  return waitFor(`request ${id} is in the log`, async () => {
    const one = await ada.call('GET', `/v2/usage/requests/${id}`)
    return one.status === 200 && (one.body as Logged)
  })
}

/** The fast path accepts only the usual spelling of this content type. */
const paths = [
  ['the fast path', {}],
  ['the full path', { contentType: 'application/json;charset=utf-8' }],
] as const

describe.each(paths)('by %s', (_path, path) => {
  test.each<[string, Fault, string]>([
    ['hangs', { kind: 'hang' }, 'engine_timeout'],
    ['resets the connection', { kind: 'reset' }, 'engine_failed'],
    ['closes the connection', { kind: 'finish' }, 'engine_failed'],
    ['sends garbage', { kind: 'garbage' }, 'engine_failed'],
    ['answers 500', { kind: 'status', status: 500 }, 'engine_failed'],
    ['answers 404', { kind: 'status', status: 404 }, 'engine_failed'],
    ['answers 401', { kind: 'status', status: 401 }, 'engine_failed'],
    ['sends less than it says', { kind: 'wrong_length', byBytes: 50 }, 'engine_failed'],
    ['answers something that is no chat', { kind: 'status', status: 200, body: '{"hello":1}' }, 'engine_failed'],
  ])('an engine that %s before the first byte: 503, no charge, and the reason', async (_what, fault, reason) => {
    const asked = fault.kind === 'hang' ? impatient.atFirst : model
    asked.upstream.behaviour.fault = fault
    const response = await chat({ model: asked.name, ...path })
    const body = (await response.json()) as { reason: string }
    expect([response.status, body.reason]).toEqual([503, reason])
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await logOf(response)).toMatchObject({ outcome: 'failed', costUsd: '0.000000000' })
    asked.upstream.behaviour.fault = undefined
    await recovered(asked)
  })

  test('an engine that returns 429 is not used until its Retry-After, and the client gets a retryable error', async () => {
    model.upstream.behaviour.faultsOnce = [{ kind: 'status', status: 429, headers: { 'retry-after': '1' } }]
    const response = await chat(path)
    expect([response.status, ((await response.json()) as { reason: string }).reason]).toEqual([503, 'overloaded'])
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    await recovered()
  })

  test.each<[string, Fault]>([
    ['hangs', { kind: 'hang', afterEvents: 3 }],
    ['resets the connection', { kind: 'reset', afterEvents: 3 }],
    ['closes the connection', { kind: 'finish', afterEvents: 3 }],
  ])('an engine that %s mid-stream: an error event, and a charge for the tokens sent', async (_what, fault) => {
    const asked = fault.kind === 'hang' ? impatient.within : model
    Object.assign(asked.upstream.behaviour, { fault, words: 20, intervalMs: 5 })
    const response = await chat({ model: asked.name, stream: true, ...path })
    const events = (await response.text()).split('\n\n').filter(Boolean)
    expect(response.status).toBe(200)
    expect(JSON.parse(events.at(-1)?.slice(6) ?? '')).toMatchObject({ error: { type: 'server_error' } })
    const given = events.slice(0, -1).filter((event) => event.includes('word')).length
    const log = await logOf(response)
    expect(log).toMatchObject({ outcome: 'broken', outputUnits: given })
    expect(nanoOf(log.costUsd)).toBe(log.inputUnits * NANO_PER_INPUT + given * NANO_PER_OUTPUT)
    asked.upstream.behaviour.fault = undefined
    await recovered(asked)
  })

  test('aborts a stream with a 10 MB line instead of buffering it', async () => {
    model.upstream.behaviour.fault = { kind: 'long_line', bytes: 10_000_000 }
    const response = await chat({ stream: true, ...path })
    expect(response.status).toBe(503)
    expect(await logOf(response)).toMatchObject({ outcome: 'failed', costUsd: '0.000000000' })
    model.upstream.behaviour.fault = undefined
    await recovered()
  })

  test('passes on a character split across two chunks intact', async () => {
    model.upstream.behaviour.wordOf = (n) => (n % 2 === 0 ? 'wörd 漢字 🛳 ' : 'word ')
    model.upstream.behaviour.intervalMs = 1
    const response = await chat({ stream: true, ...path })
    const text = (await response.text())
      .split('\n\n')
      .filter((event) => event.startsWith('data: {'))
      .map((event) => (JSON.parse(event.slice(6)) as Chunk).choices[0]?.delta.content ?? '')
      .join('')
    expect(text).toContain('wörd 漢字 🛳 ')
    model.upstream.behaviour.wordOf = (n) => `word${n} `
  })

  test('stops the engine as soon as a client disconnects and charges for the tokens generated', async () => {
    Object.assign(model.upstream.behaviour, { words: 500, intervalMs: 10 })
    const gone = new AbortController()
    const response = await chat({ stream: true, ...path }, gone.signal)
    const reader = response.body?.getReader()
    await reader?.read()
    await reader?.read()
    const asked = model.upstream.requests.at(-1)
    gone.abort()
    await waitFor('the engine sees it', () => asked?.abortedAt)
    expect(asked?.isAnswered).toBe(false)
    expect(asked?.eventsSent).toBeLessThan(250)
    const log = await logOf(response)
    expect(log.outcome).toBe('cut')
    expect(log.outputUnits).toBeGreaterThan(0)
    expect(log.outputUnits).toBeLessThanOrEqual((asked?.eventsSent ?? 0) + 1)
    expect(nanoOf(log.costUsd)).toBe(log.inputUnits * NANO_PER_INPUT + log.outputUnits * NANO_PER_OUTPUT)
  })
})

/** Circuit breakers close again on their own once the engine recovers. */
async function recovered(of = model): Promise<void> {
  await waitFor('the engine is used', async () => (await chat({ model: of.name })).status === 200)
}

test('retries a failure before the first byte on a second engine, invisible to the client', async () => {
  const second: ModelServer = await startModelServer({})
  const id = await addDeployment(server, model.name, second)
  try {
    await waitFor('both are used', async () => {
      const fresh = [{ role: 'user', content: `A conversation of its own, ${performance.now()}` }]
      await Promise.all([chat({ messages: fresh }), chat({})])
      return second.received > 0
    })
    model.upstream.behaviour.fault = { kind: 'reset' }
    for (let n = 0; n < 20; n++) expect((await chat({})).status).toBe(200)
  } finally {
    model.upstream.behaviour.fault = undefined
    await server.operator('DELETE', `/v2/operator/deployments/${id}`)
    await waitFor('it is gone', async () => {
      const before = second.received
      for (let n = 0; n < 4; n++) await (await chat({})).text()
      return second.received === before
    })
    await second.close()
  }
})

describe('on a raw socket', () => {
  const request = (body: object, head = ''): string => {
    const text = JSON.stringify({ model: model.name, messages, ...body })
    return `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ada.key}\r\nContent-Type: application/json\r\n${head}Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
  }
  const connect = async (): Promise<{ socket: net.Socket; text: () => string }> => {
    const { hostname, port } = new URL(server.url)
    const socket = net.connect(Number.parseInt(port, 10), hostname)
    await new Promise((resolve) => socket.once('connect', resolve))
    let text = ''
    socket.on('data', (bytes: Buffer) => (text += bytes.toString())).on('error', () => {})
    return { socket, text: () => text }
  }
  const answers = (text: string): string[] => text.match(/HTTP\/1\.1 \d{3}/g) ?? []

  test('answers pipelined requests in order, the last one on the full path', async () => {
    const { socket, text } = await connect()
    socket.write(
      request({ max_tokens: 1 }) +
        request({ max_tokens: 2 }) +
        `GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ada.key}\r\n\r\n` +
        request({ max_tokens: 3 }),
    )
    await waitFor('four answers', () => answers(text()).length === 4 && text().trimEnd().endsWith('}'))
    expect(answers(text())).toEqual(Array.from({ length: 4 }, () => 'HTTP/1.1 200'))
    const used = [...text().matchAll(/"completion_tokens":(\d+)/g)].map(([, n]) => n)
    expect(used).toEqual(['1', '2', '3'])
    socket.destroy()
  })

  test('answers a request that arrives byte by byte', async () => {
    const { socket, text } = await connect()
    socket.setNoDelay(true)
    for (const byte of request({ max_tokens: 2 })) await new Promise((resolve) => socket.write(byte, resolve))
    await waitFor('an answer', () => text().endsWith('}'))
    expect(text()).toContain('"completion_tokens":2')
    socket.destroy()
  })

  test('joins a body that arrives in two chunks', async () => {
    const { socket, text } = await connect()
    const all = request({ max_tokens: 2, user: 'x'.repeat(200_000) })
    await new Promise((resolve) => socket.write(all.slice(0, 100_000), resolve))
    await new Promise((resolve) => setImmediate(resolve))
    socket.write(all.slice(100_000))
    await waitFor('an answer', () => text().endsWith('}'))
    expect(text()).toContain('"completion_tokens":2')
    socket.destroy()
  })

  test('closes the connection after the answer when the client sends Connection: close', async () => {
    const { socket, text } = await connect()
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.write(request({ max_tokens: 2 }, 'Connection: close\r\n'))
    await closed
    expect(text()).toContain('"completion_tokens":2')
  })
})
