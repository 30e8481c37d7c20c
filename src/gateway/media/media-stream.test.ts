/** Over real connections of node:http. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { NodeReply } from '../../server/http/node-reply.ts'
import type { Reply } from '../call.ts'
import type { MediaProgress } from '../upstream/event-body.ts'
import { streamMedia, type MediaStreamOptions } from './media-stream.ts'

const closers: Array<() => void> = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

/** A server that answers each request with `run`. Returns its address. */
async function serveRun(run: MediaStreamOptions['run'], keepAliveMs?: number): Promise<string> {
  const server = http.createServer((_, response) => {
    const reply = new NodeReply(response, ({ message }) => ({ status: 503, body: JSON.stringify({ message }) }))
    void streamMedia(reply, {
      run,
      errorOf: ({ message, reason }) => ({ message, code: reason }),
      ...(keepAliveMs === undefined ? {} : { keepAliveMs }),
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  closers.push(
    () => server.closeAllConnections(),
    () => server.close(),
  )
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const step = (n: number): MediaProgress => ({ type: 'progress', step: n, steps: 2 })
const answer = { images: [{ index: 0, image: 'iVBOR', random_seed: 7 }], notes: ['größer'] }

test('sends progress as it comes, and the complete answer last', async () => {
  const url = await serveRun(async (tell) => {
    tell({ type: 'queued', ahead: 1 })
    tell(step(1))
    tell(step(2))
    return ok(answer)
  })
  const response = await fetch(url)
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  const events = (await response.text()).split('\n\n')
  expect(events.map((event) => event.replace(/^data: /, ''))).toEqual([
    '{"type":"queued","ahead":1}',
    JSON.stringify(step(1)),
    JSON.stringify(step(2)),
    JSON.stringify({ type: 'result', ...answer }),
    '[DONE]',
    '',
  ])
})

test('sends the answer of an engine that reports no progress', async () => {
  const response = await fetch(await serveRun(async () => ok(answer)))
  expect(await response.text()).toBe(`data: ${JSON.stringify({ type: 'result', ...answer })}\n\ndata: [DONE]\n\n`)
})

test('a refusal before the first byte is a normal error', async () => {
  const busy = fail('overloaded', { model: 'm', retryAfterMs: 2_000 })
  const response = await fetch(await serveRun(async () => busy))
  expect([response.status, response.headers.get('retry-after')]).toEqual([503, '2'])
  expect(await response.json()).toEqual({ message: busy.message })
})

test('a later failure is an event, without a normal end', async () => {
  const failure = fail('engine_failed', { model: 'm' })
  const url = await serveRun(async (tell) => {
    tell(step(1))
    return failure
  })
  const response = await fetch(url)
  expect(response.status).toBe(200)
  expect((await response.text()).split('\n\n').slice(1)).toEqual([
    `data: {"type":"error","error":{"message":"${failure.message}","code":"engine_failed"}}`,
    '',
  ])
})

test('comments keep a quiet connection open', async () => {
  let end: (result: Result<unknown>) => void = () => {}
  const url = await serveRun(() => new Promise((resolve) => (end = resolve)), 5)
  const response = await fetch(url)
  let text = ''
  for await (const piece of response.body ?? []) {
    text += Buffer.from(piece as Uint8Array).toString()
    if (text.split(':').length > 3) end(ok(answer))
  }
  expect(text).toMatch(/^(: still here\n\n){2,}data: \{"type":"result".*\n\ndata: \[DONE\]\n\n$/)
})

test('notices at once when the client goes away', async () => {
  let isDone = false
  const url = await serveRun(
    (tell, signal) =>
      new Promise((resolve) => {
        tell(step(1))
        signal.addEventListener('abort', () => {
          resolve(ok(answer))
          isDone = true
        })
      }),
  )
  const leaving = new AbortController()
  const response = await fetch(url, { signal: leaving.signal })
  expect(response.status).toBe(200)
  leaving.abort()
  await waitFor('it is known', () => isDone)
})

/** A client that reads one event and then stops reading until `resume` or `leave`. */
class SlowClient implements Reply {
  readonly heard: string[] = []
  leave: () => void = () => {}
  readOn: () => void = () => {}

  startStream = (first: string): boolean => this.write(first)
  write = (text: string): boolean => this.heard.push(text) < 0
  endStream = (last: string): void => void this.heard.push(last)
  onGone = (listener: () => void): void => void (this.leave = listener)
  onDrain = (listener: () => void): void => void (this.readOn = listener)
  send = (): void => expect.unreachable()
  refuse = (): void => expect.unreachable()
  abort = (): void => expect.unreachable()
}

const errorOf = (): unknown => expect.unreachable()
const line = (event: object): string => `data: ${JSON.stringify(event)}\n\n`

test('sends nothing to a client that has gone', async () => {
  const client = new SlowClient()
  const run: MediaStreamOptions['run'] = async (tell) => {
    tell(step(1))
    client.readOn()
    client.leave()
    tell(step(2))
    return ok(answer)
  }
  await streamMedia(client, { run, errorOf })
  expect(client.heard).toEqual([line(step(1))])
})

test('skips progress for a client that does not read, but not the answer', async () => {
  const client = new SlowClient()
  const steps = (n: number): MediaProgress => ({ type: 'progress', step: n, steps: 100 })
  const run: MediaStreamOptions['run'] = async (tell) => {
    for (let n = 1; n <= 99; n++) tell(steps(n))
    client.readOn()
    tell(steps(100))
    return ok(answer)
  }
  await streamMedia(client, { run, errorOf })
  expect(client.heard.slice(0, 2)).toEqual([line(steps(1)), line(steps(100))])
  expect(client.heard).toHaveLength(3)
  expect(client.heard[2]).toMatch(/^data: \{"type":"result".*\n\ndata: \[DONE\]\n\n$/)
})
