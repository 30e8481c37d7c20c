/** Only entries appended by trusted proxies count, for requests and upgrades alike. */
import { randomInt } from 'node:crypto'
import http, { type IncomingMessage } from 'node:http'
import Fastify from 'fastify'
import { describe, expect, test } from 'vitest'
import { testServer } from '../../../test/harness/server.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { readSettings } from '../settings.ts'
import { addressOf, hostOf, readTrustedProxy } from './trusted-proxy.ts'

describe('the client of a request', () => {
  interface Row {
    readonly trust: string
    readonly forwardedFor?: string
    readonly from?: string
    readonly client: string
  }
  const rows: Row[] = [
    { trust: '0', forwardedFor: '1.1.1.1', client: '10.0.0.5' },
    { trust: '1', client: '10.0.0.5' },
    { trust: '1', forwardedFor: '1.1.1.1', client: '1.1.1.1' },
    { trust: '1', forwardedFor: '9.9.9.9, 8.8.8.8,1.1.1.1', client: '1.1.1.1' },
    { trust: '2', forwardedFor: '9.9.9.9, 2.2.2.2, 10.0.0.6', client: '2.2.2.2' },
    { trust: '3', forwardedFor: '2.2.2.2', client: '2.2.2.2' },
    { trust: '10.0.0.5', forwardedFor: '9.9.9.9, 1.1.1.1', client: '1.1.1.1' },
    { trust: '10.0.0.0/24', forwardedFor: '9.9.9.9, 1.1.1.1, 10.0.0.9', client: '1.1.1.1' },
    { trust: '192.168.0.1', forwardedFor: '1.1.1.1', client: '10.0.0.5' },
    { trust: '10.0.0.5', forwardedFor: '1.1.1.1', from: '::ffff:10.0.0.5', client: '1.1.1.1' },
    { trust: '127.0.0.1, fd00::/8', forwardedFor: '2001:db8::7', from: 'fd00::1', client: '2001:db8::7' },
    { trust: '10.0.0.5', forwardedFor: 'unknown', client: 'unknown' },
    { trust: '1', forwardedFor: ' ,, 1.1.1.1 , ', client: '1.1.1.1' },
  ]
  test.each(rows)('$trust: $forwardedFor', async ({ trust, forwardedFor, from = '10.0.0.5', client }) => {
    const trusted = readTrustedProxy(trust)
    if (trusted === 'invalid') throw new Error('invalid')
    const isBelieved = trusted?.(from, 0) === true
    const headers = {
      host: 'own.example',
      'x-forwarded-host': 'made-up.example, public.example',
      ...(forwardedFor === undefined ? {} : { 'x-forwarded-for': forwardedFor }),
    }
    const upgrade = { headers, socket: { remoteAddress: from } } as unknown as IncomingMessage
    const host = isBelieved ? 'public.example' : 'own.example'
    expect([addressOf(upgrade, trusted), hostOf(upgrade, trusted)]).toEqual([client, host])
    const server = Fastify({ trustProxy: trusted ?? false })
    server.get('/', async (request) => [request.ip, request.host])
    const answer = await server.inject({ url: '/', remoteAddress: from, headers })
    expect(answer.json()).toEqual([client, host])
    await server.close()
  })
})

test.each(['true', 'yes', '99', 'proxy.example', '10.0.0.0/33', '10.0.0.5,', '1.2.3.4/8/9'])(
  '%s is refused at the start',
  (value) => {
    expect(() => readSettings({ BERTH_TRUST_PROXY: value })).toThrow(/BERTH_TRUST_PROXY: .*such as 1.*10\.0\.0\.5/)
  },
)

test('forged first entries do not bypass the limit on wrong keys', async () => {
  // The limit is one per minute, and this must not take two.
  const clock = manualClock()
  const env = { BERTH_TRUST_PROXY: '1', BERTH_DRIVERS: 'mock,host' }
  const server = await testServer({ env, clock, runLoops: false })
  const headers = (client: string) => ({
    Authorization: 'Bearer wrong',
    'X-Forwarded-For': `10.${randomInt(256)}.${randomInt(256)}.${randomInt(256)}, ${client}`,
  })
  const knock = (client: string) => server.anonymous('GET', '/v2/users/me', undefined, headers(client))
  const statuses: number[] = []
  for (let round = 0; round < 15; round += 1) {
    const replies = await Promise.all(Array.from({ length: 100 }, () => knock('203.0.113.7')))
    statuses.push(...replies.map((reply) => reply.status))
  }
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThanOrEqual(300)
  expect(statuses.at(-1)).toBe(429)
  expect(await statusOfUpgrade(server.url, headers('203.0.113.7'))).toBe(429)
  const metrics = await server.anonymous('GET', '/metrics', undefined, headers('203.0.113.7'))
  expect(metrics.status).toBe(429)
  expect((await knock('203.0.113.8')).status).toBe(401)
  expect(await statusOfUpgrade(server.url, headers('203.0.113.8'))).toBe(401)
  await server.close()
})

function statusOfUpgrade(url: string, headers: Record<string, string>): Promise<number | undefined> {
  const upgrade = {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
  }
  return new Promise((resolve, reject) => {
    const path = '/v2/rentals/1/terminal'
    const request = http.get(`${url}${path}`, { headers: { ...upgrade, ...headers } }, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
    request.on('error', reject)
  })
}
