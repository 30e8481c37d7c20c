/** Nothing that a tenant, a host, a browser, another server or an engine sends can end a server. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import net from 'node:net'
import tls from 'node:tls'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { MINUTE_MS, toDate } from '../src/base/instant.ts'
import type { MuxStream } from '../src/base/net/mux.ts'
import { AGENT_PATH } from '../src/contract/agent.ts'
import { makeHostLinks } from '../src/server/hosts/host-links.ts'
import { openPeers, type Peers } from '../src/server/hosts/peers.ts'
import { openRelay, type Relay } from '../src/server/hosts/relay.ts'
import { openPortHealth } from '../src/server/ports/port-health.ts'
import { pino } from 'pino'
import { testOffer } from './harness/host-sockets.ts'
import { atMost, fuzzingServer, fuzzOf, sendFuzzed, type Fuzzed } from './harness/listener-fuzz.ts'
import { PRIVATE, PUBLIC, startPortLab, type PortLab } from './harness/port-lab.ts'
import { testServer } from './harness/server.ts'
import { testPrices } from './harness/inference.ts'
import { waitFor } from './harness/wait.ts'

const log = pino({ level: 'silent' })
const listen = { host: '127.0.0.1', port: 0, publicHost: '127.0.0.1' }
const FUZZ_MS = 1_800_000
const ATTEMPT_EVERY_MS = 10_000

const answers = [
  'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nSet-Cookie: a=b\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n',
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n\x81\x05hello',
  'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\nServer: busybox\n\nnothing here',
  'HTTP/1.1 099 x\r\nContent-Length: 0\r\n\r\n',
  'HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n',
].map((text) => Buffer.from(text, 'latin1'))

/** Frames of the multiplexer: the type, the stream, the payload. */
function frame(type: number, stream: number, payload: string | Buffer = ''): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt8(type, 0)
  head.writeUInt32BE(stream, 1)
  return Buffer.concat([head, Buffer.from(payload)])
}
const frames = [
  frame(2, 2, answers[0]),
  frame(2, 2, 'some bytes'),
  frame(3, 2, Buffer.from([0, 0, 1, 0])),
  frame(4, 2),
  frame(5, 2, 'Nothing is listening on port 8000.'),
  frame(6, 2, '{"exitCode":0}'),
  frame(6, 2, `[${'1e20,'.repeat(3_000)}1]`),
  frame(1, 1, '{"kind":"port"}'),
]
const report = { type: 'report', generation: 1, offer: testOffer, notes: ['a'], workloads: [], volumes: [] }
const messages = [
  JSON.stringify(report),
  JSON.stringify({ type: 'move', to: 'draining' }),
  JSON.stringify({ type: 'hello', hostId: 'host-1', signature: 'x'.repeat(86), version: '1' }),
  JSON.stringify({ type: 'metrics', workloads: [], lastLogs: [] }),
]

describe('a server with hosts', () => {
  let lab: PortLab
  let port: number
  let other: { readonly links: ReturnType<typeof makeHostLinks>; readonly peers: Peers }
  let relay: Relay

  beforeAll(async () => {
    lab = await startPortLab({ hasPeers: true, ports: { firstByteMs: 400 } })
    port = Number(new URL(lab.httpUrl).port)
    const links = makeHostLinks()
    other = { links, peers: await openPeers({ app: lab.app, links, log, listen }) }
    relay = openRelay({ app: lab.app, links: lab.links, host: '127.0.0.1', log })
    await waitFor('the other server to know the host', () => links.reachableIds().includes('host-1'))
  })
  afterAll(async () => {
    await relay.close()
    await other.peers.close()
    await lab.close()
  })

  /** Each attempt comes later than the one before, so that limits per minute let it in. */
  const later = (attempt: () => Promise<unknown>) => (): Promise<unknown> => {
    lab.clock.advance(ATTEMPT_EVERY_MS)
    return attempt()
  }
  /** The host and the proxy work as before. On a busy machine an answer may take longer than the proxy waits. */
  const works = async (): Promise<void> => {
    lab.connect = undefined
    lab.clock.advance(MINUTE_MS)
    if (lab.agent.closed !== undefined) await lab.connectAgent()
    await waitFor('an answer', async () => (await lab.send({}, PUBLIC)).body === 'hello')
  }
  const upgrade = (path: string, more = ''): string =>
    `GET ${path} HTTP/1.1\r\nHost: ${lab.host(PUBLIC)}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${more}\r\n`

  test('outlasts every answer of an application behind an HTTP port (issue 31, 1)', { timeout: FUZZ_MS }, async () => {
    const fuzzed = fuzzOf('an application', answers)
    expect(
      await fuzzed.run(
        later(async () => {
          lab.connect = (stream) => void stream.once('data', () => void fuzzed.feed(stream))
          const socket = net.connect({ port, host: '127.0.0.1' })
          socket.on('error', () => {}).resume()
          socket.write(fuzzed.random() < 0.5 ? upgrade('/') : `GET / HTTP/1.1\r\nHost: ${lab.host(PUBLIC)}\r\n\r\n`)
          await atMost(500, once(socket, 'close'))
          socket.destroy()
        }),
      ),
    ).toEqual([])
    await works()
    await waitFor('all places to be free', () => lab.agent.mux.streams === 0)
  })

  test('outlasts every request of a browser (issue 31, 1)', { timeout: FUZZ_MS }, async () => {
    const requests = [
      `GET / HTTP/1.1\r\nHost: ${lab.host(PUBLIC)}\r\nCookie: a=b; berth_port=x.y.z\r\n\r\n`,
      `POST /x HTTP/1.1\r\nHost: ${lab.host(PUBLIC)}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`,
      `GET /.berth/open?code=x&path=%2F HTTP/1.1\r\nHost: ${lab.host(PRIVATE)}\r\n\r\n`,
      'POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\nContent-Length: 2\r\n\r\n{}',
      'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n',
      upgrade('/socket'),
      upgrade(AGENT_PATH).replace(lab.host(PUBLIC), 'a'),
      upgrade('/v2/rentals/1/terminal?columns=80').replace(lab.host(PUBLIC), 'a'),
      'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n',
    ]
    const fuzzed = fuzzOf('a browser', requests)
    expect(await fuzzed.run(later(() => sendFuzzed(fuzzed, port)))).toEqual([])
    await works()
  })

  test('outlasts every frame of an agent before its hello (issue 31, 1)', { timeout: FUZZ_MS }, async () => {
    const before = upgrade(AGENT_PATH).replace(lab.host(PUBLIC), 'a')
    const text = messages.map((one) => clientFrame(0x81, Buffer.from(one)))
    const fuzzed = fuzzOf('an unknown agent', [...text, clientFrame(0x82, Buffer.from('abc')), clientFrame(0x88)])
    expect(await fuzzed.run(later(() => sendFuzzed(fuzzed, port, before)))).toEqual([])
    await works()
  })

  test(
    'outlasts every message and frame of an agent, here and at another server (issue 31, 1)',
    { timeout: FUZZ_MS },
    async () => {
      const ask = (from: { open: typeof lab.links.open }, kind: 'port' | 'terminal'): MuxStream | undefined => {
        const request =
          kind === 'port'
            ? ({ kind, workloadId: 'w1', port: PUBLIC } as const)
            : ({ kind, workloadId: 'w1', columns: 80, rows: 24, command: null } as const)
        return from.open('host-1', request)?.on('error', () => {})
      }
      // One after the other: the host has one connection.
      let last: Promise<void> = Promise.resolve()
      const one = async (fuzzed: Fuzzed, isBinary: boolean): Promise<void> => {
        if (lab.agent.closed !== undefined) await lab.connectAgent()
        const [from, kind] = [
          fuzzed.random() < 0.5 ? lab.links : other.links,
          fuzzed.random() < 0.5 ? 'port' : 'terminal',
        ] as const
        lab.connect = () => {}
        const opened = ask(from, kind)
        const asked = lab.request({}, PUBLIC).on('error', () => {})
        asked.end()
        await waitFor(
          'the streams',
          () => lab.agent.mux.streams > 0 || opened === undefined || lab.agent.closed !== undefined,
        )
        for (let n = 0; n < 4; n += 1) {
          const bytes = isBinary ? fuzzed.next() : Buffer.from(fuzzed.next().toString())
          if (isBinary && bytes.length >= 5 && fuzzed.random() < 0.8)
            bytes.writeUInt32BE(2 * (1 + Math.floor(fuzzed.random() * 4)), 1)
          if (lab.agent.socket.readyState === WebSocket.OPEN) lab.agent.socket.send(bytes, { binary: isBinary })
        }
        const alive = once(lab.agent.socket, 'pong').catch(() => {})
        if (lab.agent.socket.readyState === WebSocket.OPEN) lab.agent.socket.ping()
        await Promise.race([alive, waitFor('the end', () => lab.agent.closed !== undefined)])
        asked.destroy()
        opened?.destroy()
        await lab.agent.end()
      }
      for (const isBinary of [true, false]) {
        const fuzzed = fuzzOf('an agent', isBinary ? frames : messages)
        expect(await fuzzed.run(later(() => (last = last.then(() => one(fuzzed, isBinary)))))).toEqual([])
      }
      await works()
    },
  )

  test('outlasts a value that is longer when another server passes it on (issue 31, 1)', async () => {
    await works()
    await waitFor('the other server to know the host', () => other.links.reachableIds().includes('host-1'))
    let opened: MuxStream | undefined
    lab.connect = (stream) => void (opened = stream as MuxStream)
    const stream = other.links.open('host-1', { kind: 'port', workloadId: 'w1', port: PUBLIC })
    const ended = new Promise((resolve) => stream?.once('error', resolve))
    await waitFor('the stream', () => opened)
    lab.agent.socket.send(frame(6, idOf(opened), `[${'1e20,'.repeat(3_000)}1]`))
    expect(String(await ended)).toContain('does not fit')
    await works()
  })

  test('outlasts every message of a terminal (issue 31, 1)', { timeout: FUZZ_MS }, async () => {
    await works()
    lab.connect = (stream) => void stream.resume()
    const dialogs = ['{"columns":80,"rows":24}', 'ls -l\r', '\x1b[A\x03']
    const url = `${lab.httpUrl.replace('http', 'ws')}/v2/rentals/${lab.rentalId}/terminal`
    const fuzzed = fuzzOf('a terminal', dialogs)
    expect(
      await fuzzed.run(
        later(async () => {
          const socket = new WebSocket(url, { headers: { Authorization: `Bearer ${lab.owner.keyText}` } })
          socket.on('error', () => {})
          await Promise.race([once(socket, 'open'), once(socket, 'close')])
          for (let n = 0; n < 4 && socket.readyState === WebSocket.OPEN; n += 1) {
            const bytes = fuzzed.next()
            const isText = fuzzed.random() < 0.5
            socket.send(isText ? bytes.toString() : bytes, { binary: !isText })
          }
          socket.terminate()
        }),
      ),
    ).toEqual([])
    await works()
  })

  test('outlasts every byte through a relayed port, both ways (issue 31, 1)', { timeout: FUZZ_MS }, async () => {
    const { db } = lab.database
    const [id, relayed] = ['w9', await freePort()]
    const created_at = toDate(lab.clock.now())
    await db.insertInto('workload').values({ id, driver: 'host', tag: 'tag-w9', spec: null, created_at }).execute()
    const node = { workload_id: id, host_id: 'host-1', node_index: 0, gpu_indexes: [], generation: 1n }
    await db.insertInto('workload_node').values(node).execute()
    await db.insertInto('relay_port').values({ port: relayed, workload_id: id, target: 0 }).execute()
    await relay.refresh()
    await waitFor('the port', () => relay.ports().includes(relayed))
    const fuzzed = fuzzOf('a relayed port', ['SSH-2.0-x\r\n', 'GET / HTTP/1.1\r\n\r\n'])
    lab.connect = (stream) => void fuzzed.feed(stream)
    expect(await fuzzed.run(later(() => sendFuzzed(fuzzed, relayed)))).toEqual([])
    await works()
  })

  test('outlasts every byte between servers (issue 31, 1)', { timeout: FUZZ_MS }, async () => {
    const { address } = await lab.database.db.selectFrom('server').select('address').executeTakeFirstOrThrow()
    const hello = Buffer.from('160301004a010000460303', 'hex')
    const fuzzed = fuzzOf('a peer', [Buffer.concat([hello, Buffer.alloc(64, 7)])])
    expect(await fuzzed.run(later(() => sendFuzzed(fuzzed, Number(address.split(':')[1]))))).toEqual([])
    await works()
  })

  test('outlasts every frame of a peer that knows the key (issue 31, 1)', { timeout: FUZZ_MS }, async () => {
    const { address } = await lab.database.db.selectFrom('server').select('address').executeTakeFirstOrThrow()
    const request = { kind: 'port', workloadId: 'w1', port: PUBLIC }
    const opening = frame(1, 1, JSON.stringify({ hostId: 'host-1', request }))
    const onStream = (one: Buffer) => Buffer.concat([one.subarray(0, 1), Buffer.from([0, 0, 0, 1]), one.subarray(5)])
    const fuzzed = fuzzOf('a peer with the key', [opening, ...frames.map(onStream)])
    let streams = 0
    lab.connect = (stream) => {
      streams += 1
      stream.on('error', () => {}).pipe(stream)
    }
    const attempt = async (): Promise<void> => {
      const socket = connectPeer(address)
      socket.on('error', () => {})
      await atMost(5_000, Promise.race([once(socket, 'open'), once(socket, 'close')]))
      if (fuzzed.random() < 0.8 && socket.readyState === WebSocket.OPEN) socket.send(opening)
      for (let n = 0; n < 4 && socket.readyState === WebSocket.OPEN; n += 1) socket.send(fuzzed.next())
      await atMost(100, once(socket, 'close'))
      socket.terminate()
    }
    expect(await fuzzed.run(later(attempt))).toEqual([])
    expect(streams).toBeGreaterThan(0)
    await works()
  })

  test('outlasts every answer to a health check (issue 31, 1)', { timeout: FUZZ_MS }, async () => {
    await works()
    const health = openPortHealth({ app: lab.app, links: lab.links, log, everyMs: FUZZ_MS })
    const fuzzed = fuzzOf('a health check', answers)
    let checks = 0
    lab.connect = (stream) => {
      checks += 1
      stream.once('data', () => void fuzzed.feed(stream))
    }
    expect(await fuzzed.run(later(() => health.check()))).toEqual([])
    expect(checks).toBeGreaterThan(0)
    await health.close()
    await works()
  })

  /** As another server of the same installation. */
  const connectPeer = (address: string): WebSocket => {
    const [psk = Buffer.alloc(0)] = lab.app.vault.deriveAll('peers')
    const name = createHash('sha256').update(psk).digest('hex').slice(0, 16)
    const pskCallback = () => ({ psk, identity: `${lab.app.installationId}.${name}` })
    const [host = '', port] = address.split(':')
    const options = { ciphers: 'ECDHE-PSK-CHACHA20-POLY1305', maxVersion: 'TLSv1.2' } as const
    return new WebSocket(`wss://${address}/peer`, {
      perMessageDeflate: false,
      createConnection: () =>
        tls.connect({ ...options, host, port: Number(port), pskCallback, checkServerIdentity: () => undefined }),
    })
  }
})

/** A WebSocket frame of a client, masked with zeros. */
function clientFrame(type: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const length =
    payload.length < 126 ? [0x80 | payload.length] : [0x80 | 126, payload.length >> 8, payload.length & 0xff]
  return Buffer.concat([Buffer.from([type, ...length, 0, 0, 0, 0]), payload])
}

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as net.AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

function idOf(stream: MuxStream | undefined): number {
  return (stream as unknown as { readonly id: number }).id
}

test('a gateway outlasts every answer of an engine (issue 31, 1)', { timeout: FUZZ_MS }, async () => {
  const chat = { id: 'x', created: 1, model: 'm', object: 'chat.completion' }
  const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
  const whole = JSON.stringify({
    ...chat,
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' } }],
    usage,
  })
  const piece = JSON.stringify({
    ...chat,
    choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }],
    usage,
  })
  const sse = `data: ${piece}\n\n`.repeat(3) + 'data: [DONE]\n\n'
  const dialogs = [
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${whole.length}\r\n\r\n${whole}`,
    `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n${sse}`,
    `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n${sse.length.toString(16)}\r\n${sse}\r\n0\r\n\r\n`,
    'HTTP/1.1 429 Too Many\r\nRetry-After: 1\r\nContent-Length: 17\r\n\r\n{"error":"later"}',
  ]
  const fuzzed = fuzzOf('an engine', dialogs)
  const engine = await fuzzingServer(fuzzed)
  const server = await testServer({ runLoops: false })
  try {
    const { key } = await server.account({ usd: '100' })
    const limits = { contextTokens: 8_192, maxOutputTokens: 4_096 }
    const url = `http://127.0.0.1:${engine.port}`
    const deployment = { model: 'test/fuzz', url, upstreamModel: 'm', firstByteMs: 1_000, betweenBytesMs: 1_000 }
    await server.operator('POST', '/v2/operator/models', { name: 'test/fuzz', kind: 'chat', ...limits, ...testPrices })
    await server.operator('POST', '/v2/operator/deployments', deployment)
    const messages = [{ role: 'user', content: 'Hi' }]
    const ask = () => ({ model: 'test/fuzz', stream: fuzzed.random() < 0.5, messages })
    // One that waits for an engine which has failed too often is let go.
    const attempt = () => atMost(5_000, server.as(key)('POST', '/v1/chat/completions', ask()))
    expect(await fuzzed.run(attempt)).toEqual([])
  } finally {
    await server.close()
    await engine.close()
  }
})
