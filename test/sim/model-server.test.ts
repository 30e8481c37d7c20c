/** Checks the behaviour other tests rely on: the format of answers, faults, and recorded requests. */
import http from 'node:http'
import net from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { waitFor } from '../harness/wait.ts'
import type { Fault } from './model-server-fault.ts'
import { startModelServer, type ModelServer } from './model-server.ts'

let server: ModelServer

beforeEach(async () => {
  server = await startModelServer()
})

afterEach(() => server.close())

interface Answer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: Buffer
  readonly error: string | undefined
}

function ask(path: string, body?: unknown): Promise<Answer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    const { host, port } = server
    const method = body === undefined ? 'GET' : 'POST'
    const settle = (response: http.IncomingMessage | undefined, error?: Error): void =>
      resolve({
        status: response?.statusCode ?? 0,
        headers: response?.headers ?? {},
        body: Buffer.concat(chunks),
        error: error?.message,
      })
    const request = http.request({ host, port, path, method, agent: false }, (response) => {
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => settle(response))
      response.on('error', (error) => settle(response, error))
    })
    request.on('error', (error) => settle(undefined, error))
    request.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

const parse = ({ body }: Answer): Record<string, unknown> => JSON.parse(body.toString()) as Record<string, unknown>
const chat = { model: 'm', messages: [{ role: 'user', content: 'hello there' }] }

function eventsOf({ body }: Answer): Array<Record<string, unknown>> {
  const events = body.toString().split('\n\n').slice(0, -1)
  expect(events.at(-1)).toBe('data: [DONE]')
  return events.slice(0, -1).map((event) => JSON.parse(event.slice('data: '.length)) as Record<string, unknown>)
}

describe('it answers', () => {
  test('chat, with the model’s name and the usage', async () => {
    expect(parse(await ask('/v1/chat/completions', chat))).toMatchObject({
      object: 'chat.completion',
      model: 'm',
      choices: [{ message: { role: 'assistant', content: 'word0 word1 word2 word3 word4 ' }, finish_reason: 'stop' }],
      usage: { completion_tokens: 5, prompt_tokens_details: { cached_tokens: 0 } },
    })
    const second = parse(await ask('/v1/chat/completions', { ...chat, max_tokens: 2 }))
    expect(second).toMatchObject({ choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 2 } })
    const { usage } = second as { usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } } }
    expect(usage.prompt_tokens_details.cached_tokens).toBe(usage.prompt_tokens)
  })

  test.each([
    ['always', 1],
    ['continuous', 8],
    ['none', 0],
  ] as const)('streams with usage %s', async (usage, count) => {
    server.behaviour.usage = usage
    const answer = await ask('/v1/chat/completions', { ...chat, stream: true })
    expect(answer.headers['content-type']).toMatch(/^text\/event-stream/)
    const events = eventsOf(answer)
    expect(events.filter((event) => 'usage' in event)).toHaveLength(count)
    expect(answer.body.toString()).toContain('"delta":{"role":"assistant","content":""}')
    expect(server.requests[0]).toMatchObject({ eventsSent: events.length + 1, isAnswered: true })
  })

  test('completions, plain and streamed', async () => {
    expect(parse(await ask('/v1/completions', { model: 'm', prompt: 'p' }))).toMatchObject({
      object: 'text_completion',
      choices: [{ text: 'word0 word1 word2 word3 word4 ' }],
    })
    const events = eventsOf(await ask('/v1/completions', { model: 'm', prompt: 'p', stream: true }))
    expect(events[0]).toMatchObject({ object: 'text_completion', choices: [{ text: 'word0 ' }] })
  })

  test('images of the requested size, in both formats', async () => {
    const images = parse(await ask('/v1/images/generations', { prompt: 'p', size: '300x200', n: 2 })) as {
      data: Array<{ b64_json: string }>
    }
    const painted = parse(await ask('/sdapi/v1/txt2img', { prompt: 'p', width: 300, height: 200, seed: 5 })) as {
      images: string[]
      info: string
    }
    expect([images.data.length, painted.images.length]).toEqual([2, 1])
    expect(JSON.parse(painted.info)).toMatchObject({ seed: 5 })
    for (const base64 of [...images.data.map((one) => one.b64_json), ...painted.images]) {
      const png = Buffer.from(base64, 'base64')
      expect(png.subarray(1, 4).toString()).toBe('PNG')
      expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([300, 200])
    }
  })

  test('speech and embeddings', async () => {
    const speech = await ask('/v1/audio/speech', { input: 'hi' })
    expect(speech.headers['content-type']).toBe('audio/mpeg')
    expect(speech.body.readUInt16BE(0)).toBe(0xfffb)
    const embeddings = parse(await ask('/v1/embeddings', { model: 'm', input: ['a', 'bb'] })) as { data: unknown[] }
    expect(embeddings.data).toHaveLength(2)
  })

  test('health and load requests', async () => {
    server.behaviour.fault = { kind: 'hang' }
    void ask('/v1/chat/completions', chat)
    await waitFor('it works', () => server.inFlight === 1)
    expect((await ask('/metrics')).body.toString()).toMatch(/^vllm:num_requests_running\{.*\} 1\.0$/m)
    expect((await ask('/health')).status).toBe(200)
    server.behaviour.health = 503
    expect((await ask('/health')).status).toBe(503)
    expect([server.probes, server.metricsReads, server.received]).toEqual([2, 1, 1])
  })
})

describe('it fails', () => {
  test.each([
    [
      { kind: 'status', status: 429, headers: { 'retry-after': '7' } },
      { status: 429, error: undefined },
    ],
    [{ kind: 'reset' }, { status: 0, error: expect.stringMatching(/ECONNRESET/) as unknown }],
    [{ kind: 'finish' }, { status: 0, error: expect.stringMatching(/hang up/) as unknown }],
    [{ kind: 'garbage' }, { status: 0, error: expect.stringMatching(/Parse Error/) as unknown }],
    [
      { kind: 'wrong_length', byBytes: 5 },
      { status: 200, error: 'aborted' },
    ],
    [
      { kind: 'reset', afterEvents: 2 },
      { status: 200, error: 'aborted' },
    ],
    [
      { kind: 'finish', afterEvents: 2 },
      { status: 200, error: 'aborted' },
    ],
  ] satisfies Array<[Fault, unknown]>)('as configured: %o', async (fault, seen) => {
    server.behaviour.faultsOnce = [fault]
    const stream = 'afterEvents' in fault
    expect(await ask('/v1/chat/completions', { ...chat, stream })).toMatchObject(seen)
    expect((await ask('/v1/chat/completions', chat)).status).toBe(200)
    expect(server.requests[0]?.abortedAt).toBeUndefined()
  })

  test('with half a character in a packet', async () => {
    server.behaviour.fault = { kind: 'split_character' }
    const reads = await readRaw()
    expect((await ask('/v1/chat/completions', chat)).body.toString()).toContain('€')
    expect(reads.some((read) => read.toString().includes('\ufffd'))).toBe(true)
  })

  test('with a line of ten megabytes', async () => {
    server.behaviour.fault = { kind: 'long_line', bytes: 10_000_000 }
    const { body } = await ask('/v1/chat/completions', { ...chat, stream: true })
    expect(body.indexOf('\n')).toBe(10_000_006)
  })
})

test('records when a client disconnects', async () => {
  server.behaviour.words = 1_000
  server.behaviour.intervalMs = 2
  const { host, port } = server
  const request = http.request({ host, port, path: '/v1/chat/completions', method: 'POST', agent: false })
  request.on('error', () => {})
  request.on('response', (response) => response.once('data', () => request.destroy()))
  request.end(JSON.stringify({ ...chat, stream: true }))
  await waitFor('it sees it', () => server.requests[0]?.abortedAt)
  expect([server.inFlight, server.requests[0]?.isAnswered]).toEqual([0, false])
  expect(server.requests[0]?.eventsSent).toBeLessThan(1_000)
})

/** Each read as a separate chunk. */
function readRaw(): Promise<Buffer[]> {
  return new Promise((resolve, reject) => {
    const reads: Buffer[] = []
    const socket = net.connect(server.port, server.host)
    const body = JSON.stringify({ ...chat, stream: true })
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`)
    socket.write(`Content-Length: ${body.length}\r\n\r\n${body}`)
    socket.on('data', (read) => reads.push(read))
    socket.on('error', reject)
    socket.on('end', () => resolve(reads))
  })
}
