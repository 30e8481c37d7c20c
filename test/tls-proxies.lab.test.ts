/** Everything works behind the proxies configured in docs/operator/servers.md. */
import { randomInt } from 'node:crypto'
import https from 'node:https'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { consoleHeaders } from './harness/console.ts'
import { insertHost, insertHostRental, TestAgent } from './harness/host-sockets.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { PROXY_HOST, startTlsProxy, whyNoProxy, type ProxyName, type TlsProxy } from './lab/tls-proxy.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('proxies')

interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** The local source address to use. */
  readonly from?: string
}

describe.each<ProxyName>(['nginx', 'caddy'])('behind %s', (name) => {
  const why = whyNoProxy(name)
  describe.skipIf(why !== undefined)(`with TLS${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
    let server: TestServer
    let model: TestModel
    let proxy: TlsProxy
    let customer: Awaited<ReturnType<TestServer['account']>>

    beforeAll(async () => {
      server = await testServer({ env: { BERTH_TRUST_PROXY: '1', BERTH_DRIVERS: 'mock,host' }, runLoops: false })
      model = await serveModel(server, { model: { contextTokens: 8_000_000 } })
      customer = await server.account({ usd: '50' })
      proxy = await startTlsProxy(name, Number(new URL(server.url).port))
    })
    afterAll(async () => {
      await proxy?.close()
      await model?.upstream.close()
      await server?.close()
    })

    const address = () => ({ host: '127.0.0.1', servername: PROXY_HOST, port: proxy.port, ca: proxy.certificate })

    function send(path: string, sent: Sent = {}): Promise<IncomingMessage> {
      const body = sent.body === undefined ? undefined : Buffer.from(JSON.stringify(sent.body))
      const headers = {
        Host: `${PROXY_HOST}:${proxy.port}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': body.length }),
        ...sent.headers,
      }
      const from = sent.from === undefined ? {} : { localAddress: sent.from }
      return new Promise((resolve, reject) => {
        const options = { ...address(), ...from, path, method: sent.method ?? 'GET', headers, agent: false as const }
        https.request(options, resolve).once('error', reject).end(body)
      })
    }

    const asCustomer = () => ({ Authorization: `Bearer ${customer.key}` })

    /** Reads the first bytes of an endless stream. */
    async function firstBytes(path: string, sent: Sent): Promise<{ headers: IncomingHttpHeaders; bytes: string }> {
      const response = await send(path, { ...sent, headers: { ...asCustomer(), ...sent.headers } })
      let bytes = ''
      response.on('data', (piece: Buffer) => (bytes += piece.toString()))
      response.on('error', () => {})
      await waitFor('the first bytes', () => bytes !== '')
      expect(response.complete).toBe(false)
      response.destroy()
      return { headers: response.headers, bytes }
    }

    test.each([
      ['chat', '/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello' }] }],
      ['completion', '/v1/completions', { prompt: 'Hello' }],
      ['message (P68)', '/v1/messages', { messages: [{ role: 'user', content: 'Hello' }] }],
      ['response (P68)', '/v1/responses', { input: 'Hello' }],
    ])('passes on a %s stream while its engine is still generating', async (_, path, input) => {
      model.upstream.behaviour.fault = { kind: 'hang', afterEvents: 2 }
      const body = { model: model.name, stream: true, max_tokens: 50, ...input }
      const { bytes } = await firstBytes(path, { method: 'POST', body })
      expect(bytes).toMatch(/^(event: (message_start|response\.created)\n)?data: \{/)
      model.upstream.behaviour.fault = undefined
    })

    test('P68: takes a key in x-api-key, and stores, reads and deletes a response', async () => {
      const headers = { 'x-api-key': customer.key }
      const read = async (path: string, sent: Sent): Promise<{ id: string; object: string; deleted?: boolean }> =>
        JSON.parse(await text(await send(path, { headers, ...sent })))
      const made = await read('/v1/responses', { method: 'POST', body: { model: model.name, input: 'Hello' } })
      const path = `/v1/responses/${made.id}`
      expect((await read(path, {})).id).toBe(made.id)
      expect(await read(path, { method: 'DELETE' })).toMatchObject({ id: made.id, deleted: true })
      expect((await send(path, { headers })).statusCode).toBe(404)
    })

    test('passes on an event stream immediately', async () => {
      const { headers } = await firstBytes('/v2/events/stream', {})
      expect(headers['content-type']).toBe('text/event-stream')
    })

    test('accepts a body of the maximum size', async () => {
      const content = 'x'.repeat(16_777_216 - 200)
      const body = { model: model.name, max_tokens: 1, messages: [{ role: 'user', content }] }
      const answers = { '/v1/chat/completions': { object: 'chat.completion' }, '/v1/messages': { type: 'message' } }
      for (const [path, answer] of Object.entries(answers)) {
        const response = await send(path, { method: 'POST', headers: asCustomer(), body })
        expect([response.statusCode, JSON.parse(await text(response))]).toMatchObject([200, answer])
      }
    })

    test('signs in to the console under the public name, with a secure cookie', async () => {
      const signIn = (origin: string) =>
        send('/console/session', {
          method: 'POST',
          headers: { ...consoleHeaders, Origin: origin },
          body: { key: customer.key },
        })
      const own = await signIn(`https://${PROXY_HOST}:${proxy.port}`)
      expect([own.statusCode, own.headers['set-cookie']]).toEqual([200, [expect.stringMatching(/; Secure$/)]])
      expect((await signIn('https://elsewhere.example')).statusCode).toBe(403)
    })

    test('carries a terminal over WebSocket in both directions', async () => {
      const host = await insertHost(server.app, `host-${name}`)
      const agent = await new TestAgent(server.url, host, (_, stream) => stream.pipe(stream)).enter()
      const key = await server.app.database.db
        .selectFrom('api_key')
        .where('account_id', '=', customer.id)
        .select(['public_id', 'person_id'])
        .executeTakeFirstOrThrow()
      const owner = { accountId: customer.id, personId: key.person_id, keyId: key.public_id }
      const id = await insertHostRental(server.app, owner, { hostId: host.id })
      const path = `/v2/rentals/${id}/terminal`
      const headers = { ...asCustomer(), Host: `${PROXY_HOST}:${proxy.port}` }
      const socket = new WebSocket(`wss://127.0.0.1:${proxy.port}${path}`, { ...address(), headers })
      const heard: string[] = []
      socket.on('message', (data) => heard.push((data as Buffer).toString()))
      await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
      socket.send(Buffer.from('echo'))
      await waitFor('the echo', () => heard.length > 0)
      expect(heard.join('')).toBe('echo')
      socket.terminate()
      await agent.end()
    })

    test('rate-limits wrong keys by the client address the proxy forwards', async () => {
      const knock = async (from: string) => {
        const made = `10.${randomInt(256)}.${randomInt(256)}.${randomInt(256)}`
        const headers = { Authorization: 'Bearer wrong', 'X-Forwarded-For': made }
        const response = await send('/v2/users/me', { headers, from })
        response.resume()
        return response.statusCode
      }
      await waitFor('the limit', async () => {
        const statuses = await Promise.all(Array.from({ length: 50 }, () => knock('127.0.0.1')))
        return statuses.includes(429)
      })
      expect(await knock('127.0.0.2')).toBe(401)
    })
  })
})
