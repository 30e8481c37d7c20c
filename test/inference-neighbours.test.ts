/** One account's use of an engine, malicious or not, must not take the engine away from other accounts. */
import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { serveModel, testPrices, type TestModel } from './harness/inference.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

let server: TestServer
let mallory: { id: string; key: string; call: Call }
let ada: { id: string; key: string; call: Call }

beforeAll(async () => {
  server = await testServer({ runLoops: false })
  mallory = await server.account({ usd: '10' })
  ada = await server.account({ usd: '10' })
})
afterAll(() => server.close())

/** An engine that fails for requests containing `poison`, or for all of them. */
async function startFragile(name: string, isBroken: () => boolean): Promise<{ received: () => number }> {
  let received = 0
  const engine = http.createServer((request, response) => {
    let text = ''
    request.on('data', (bytes: Buffer) => (text += bytes.toString()))
    request.on('end', () => {
      if (request.method === 'GET') return void response.end('{}')
      received += 1
      if (isBroken() || text.includes('poison')) return void response.writeHead(500).end('{}')
      const choices = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }]
      const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model: 'm', choices, usage }))
    })
  })
  await new Promise<void>((done) => engine.listen(0, '127.0.0.1', done))
  onTestFinished(() => {
    engine.closeAllConnections()
    engine.close()
  })
  const url = `http://127.0.0.1:${(engine.address() as AddressInfo).port}`
  await server.operator('POST', '/v2/operator/models', { name, kind: 'chat', contextTokens: 8_192, ...testPrices })
  const made = await server.operator('POST', '/v2/operator/deployments', { model: name, url, upstreamModel: 'm' })
  expect(made.status).toBe(200)
  await waitFor('the model is served', async () => (await breakerOf(name)) === 'closed')
  return { received: () => received }
}

async function breakerOf(name: string): Promise<string | undefined> {
  const { body } = await server.operator('GET', '/v2/operator/models')
  const models = body.models as Array<{ name: string; deployments: Array<{ health: { breaker: string } | null }> }>
  return models.find((one) => one.name === name)?.deployments[0]?.health?.breaker
}

const chat = (call: Call, model: string, content: string) =>
  call('POST', '/v1/chat/completions', { model, messages: [{ role: 'user', content }], max_tokens: 5 })

describe('a failing engine', () => {
  test('stays available to others when it fails only for one account’s requests', async () => {
    await startFragile('test/fragile', () => false)
    let isOver = false
    let failed = 0
    const attack = async (): Promise<void> => {
      while (!isOver) {
        const { status } = await chat(mallory.call, 'test/fragile', 'poison')
        expect(status).toBe(503)
        failed += 1
      }
    }
    const attackers = Array.from({ length: 4 }, attack)
    await waitFor('more failures than a breaker takes', () => failed > 50)
    const statuses: number[] = []
    for (let n = 0; n < 150; n += 1) statuses.push((await chat(ada.call, 'test/fragile', 'Hi')).status)
    isOver = true
    await Promise.all(attackers)
    expect(statuses.filter((status) => status !== 200)).toEqual([])
    expect(await breakerOf('test/fragile')).toBe('closed')
  })

  test('is taken out when it fails for everything, even with a single account, and returns once it works', async () => {
    let isBroken = true
    const engine = await startFragile('test/broken', () => isBroken)
    await waitFor('the breaker opens', async () => {
      expect((await chat(ada.call, 'test/broken', 'Hi')).status).toBe(503)
      return (await breakerOf('test/broken')) !== 'closed'
    })
    const before = engine.received()
    const statuses = await Promise.all(Array.from({ length: 50 }, () => chat(ada.call, 'test/broken', 'Hi')))
    expect(new Set(statuses.map(({ status }) => status))).toEqual(new Set([503]))
    // An occasional trial request and a health check get through; not two attempts per request.
    expect(engine.received() - before).toBeLessThan(50)
    isBroken = false
    await waitFor('the breaker closes', async () => (await breakerOf('test/broken')) === 'closed')
    expect((await chat(ada.call, 'test/broken', 'Hi')).status).toBe(200)
  })
})

describe('a client that does not read its stream', () => {
  /** Far more than the socket buffers on both sides hold. */
  const LONG = { words: 4_000, wordOf: () => 'x'.repeat(8_000) }
  let model: TestModel
  let seen = 0

  beforeAll(async () => {
    const limits = { contextTokens: 100_000, maxOutputTokens: 10_000 }
    const deployment = { concurrency: 2, readsMetrics: true }
    model = await serveModel(server, { name: 'test/long', model: limits, deployment, behaviour: LONG })
  })
  afterAll(() => model.upstream.close())

  test.each([
    ['the fast path', 'application/json'],
    ['the full path', 'application/json;charset=utf-8'],
  ])('by %s loses its slot to waiting requests, and pays for the tokens generated', async (_path, contentType) => {
    const unread = [askUnread(contentType), askUnread(contentType)]
    await waitFor('the places are taken', () => model.upstream.inFlight === 2)
    // A request that waits 30 s for a slot is refused, so an answer proves that it got one sooner.
    const answer = await chat(ada.call, model.name, 'Hi')
    expect(answer.status).toBe(200)
    const cut = await waitFor('the cut requests to be in the log', async () => {
      const found = await cutUnread()
      return found.length > seen && found
    })
    seen = cut.length
    expect(cut[0]).toMatchObject({ outcome: 'cut', status: 499, model: model.name })
    expect(Number(cut[0]?.['costUsd'])).toBeGreaterThan(0)
    for (const socket of unread) socket.destroy()
    await waitFor('the places are free', () => model.upstream.inFlight === 0)
  })

  async function cutUnread(): Promise<Array<Record<string, unknown>>> {
    const { body } = await mallory.call('GET', '/v2/usage/requests?limit=100')
    return (body.requests as Array<Record<string, unknown>>).filter((one) => one['reason'] === 'answer_unread')
  }

  /** Opens a stream and never reads it. */
  function askUnread(contentType: string): net.Socket {
    const body = JSON.stringify({ model: model.name, messages: [{ role: 'user', content: 'x' }], stream: true })
    const { hostname, port } = new URL(server.url)
    const socket = net.connect(Number.parseInt(port, 10), hostname).pause()
    socket.on('error', () => {})
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${mallory.key}\r\n` +
        `Content-Type: ${contentType}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    return socket
  }
})
