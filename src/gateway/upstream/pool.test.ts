/** Connections on real sockets: which are reused, dropped or replaced. */
import { mkdtemp, rm } from 'node:fs/promises'
import type { Socket } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'

import { RawSink, startRawServer, type RawServer } from '../../../test/sim/model-server-raw.ts'
import type { Connection, FaultKind, TimeLimits } from './connection.ts'
import { Pools, type Pool } from './pool.ts'
import type { ResponseHead } from './response-head.ts'
import { Ticker } from './ticker.ts'

const patient: TimeLimits = { connectMs: 20_000, firstByteMs: 20_000, betweenBytesMs: 20_000, totalMs: 20_000 }

let ticker: Ticker
let pools: Pools
let closers: Array<() => Promise<void>>

beforeEach(() => {
  ticker = new Ticker()
  pools = new Pools(ticker, { lookup: undefined, ca: undefined })
  closers = []
})

afterEach(async () => {
  await pools.close()
  ticker.close()
  for (const close of closers) await close()
})

async function startRaw(...how: Parameters<typeof startRawServer>): Promise<RawServer> {
  const server = await startRawServer(...how)
  closers.push(() => server.close())
  return server
}

const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
const fine = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

class Sink extends RawSink<Connection, ResponseHead, FaultKind> {}

function send(pool: Pool, limits: Partial<TimeLimits> = {}, body: readonly Uint8Array[] = []): Sink {
  const sink = new Sink()
  pool.send(sink, { head: get, body, limits: { ...patient, ...limits } })
  return sink
}

const ended = (sink: Sink): Promise<string> => waitFor('the end of an answer', () => sink.over)

describe('a connection', () => {
  test('is reused after an answer that ended cleanly', async () => {
    const server = await startRaw((socket) => socket.write(fine))
    const pool = pools.of(server.address)
    for (let n = 0; n < 3; n += 1) {
      const sink = send(pool)
      expect(await ended(sink)).toBe('end')
      expect(sink.body).toBe('ok')
    }
    expect(server.received).toEqual([get.repeat(3)])
    expect([pool.connections, pool.idle]).toEqual([1, 1])
  })

  test('can be reused from within the end of its answer', async () => {
    const server = await startRaw((socket) => socket.write(fine))
    const pool = pools.of(server.address)
    const second = new Sink()
    const first = new Sink()
    first.onEnd = () => pool.send(second, { head: get, body: [], limits: patient })
    pool.send(first, { head: get, body: [], limits: patient })
    expect(await ended(second)).toBe('end')
    expect(server.received).toEqual([get.repeat(2)])
  })

  test.each([
    ['said to close', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok'],
    ['is of HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok'],
    ['was followed by more', `${fine}HTTP/1.1 200 OK\r\n`],
    ['keeps connections for too short', 'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok'],
  ])('is not used again where the answer %s', async (_, answer) => {
    const server = await startRaw((socket) => socket.write(answer))
    const pool = pools.of(server.address)
    const sink = send(pool)
    expect(await ended(sink)).toBe('end')
    expect([sink.body, pool.connections]).toEqual(['ok', 0])
    expect(await ended(send(pool))).toBe('end')
    expect(server.received).toEqual([get, get])
  })

  test('that closes at the end of the body is not broken', async () => {
    const server = await startRaw((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nuntil the end'))
    const sink = send(pools.of(server.address))
    expect(await ended(sink)).toBe('end')
    expect(sink.body).toBe('until the end')
  })

  test('is dropped when the server sends unexpected bytes', async () => {
    const server = await startRaw((socket) => socket.write(fine))
    const pool = pools.of(server.address)
    await ended(send(pool))
    server.sockets[0]?.write('HTTP/1.1 408 Request Timeout\r\n\r\n')
    await waitFor('the connection is dropped', () => pool.connections === 0)
    expect(await ended(send(pool))).toBe('end')
    expect(server.received).toEqual([get, get])
  })

  test('is dropped when the server closes it while idle', async () => {
    const server = await startRaw((socket) => socket.write(fine))
    const pool = pools.of(server.address)
    await ended(send(pool))
    server.sockets[0]?.end()
    await waitFor('the connection is dropped', () => pool.connections === 0)
    expect(pool.idle).toBe(0)
  })

  test('is dropped before the server would close it', async () => {
    const answer = 'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=2\r\nContent-Length: 2\r\n\r\nok'
    const server = await startRaw((socket) => socket.write(answer))
    const pool = pools.of(server.address)
    await ended(send(pool))
    expect(pool.idle).toBe(1)
    // This server never closes one.
    await waitFor('the idle connection is dropped', () => pool.connections === 0)
    await waitFor('the server to see it', () => server.sockets[0]?.destroyed)
  })

  test.each([
    ['ends', (socket: Socket) => void socket.end()],
    ['is reset', (socket: Socket) => void socket.resetAndDestroy()],
  ])('that %s before any byte of an answer, having been used, is replaced by a fresh one', async (_, die) => {
    const server = await startRaw((socket, n) => (n === 2 ? die(socket) : void socket.write(fine)))
    const pool = pools.of(server.address)
    await ended(send(pool, {}, [Buffer.from('{}')]))
    const sink = send(pool, {}, [Buffer.from('{'), Buffer.from('}')])
    expect(await ended(sink)).toBe('end')
    expect(sink.body).toBe('ok')
    expect(server.received).toEqual([`${get}{}${get}{}`, `${get}{}`])
  })

  test('that is new and closes before any byte is broken', async () => {
    const server = await startRaw((socket) => void socket.end())
    const sink = send(pools.of(server.address))
    expect(await ended(sink)).toBe('broken')
    expect(server.received).toEqual([get])
  })

  test('is replaced only once', async () => {
    const server = await startRaw((socket, n) => (n === 1 ? void socket.write(fine) : void socket.end()))
    const pool = pools.of(server.address)
    await ended(send(pool))
    expect(await ended(send(pool))).toBe('broken')
    expect(server.received).toEqual([get + get, get])
  })

  test('that closes during an answer is broken, even if reused', async () => {
    const server = await startRaw((socket, n) => (n === 1 ? void socket.write(fine) : void socket.end('HTTP/1.1 200')))
    const pool = pools.of(server.address)
    await ended(send(pool))
    const sink = send(pool)
    expect(await ended(sink)).toBe('broken')
    expect(sink.detail).toContain('during the answer')
    expect(server.received).toHaveLength(1)
  })

  test('to a closed port fails as such', async () => {
    // Port 9 is reserved for the discard service; nothing listens there.
    const sink = send(pools.of({ kind: 'tcp', host: '127.0.0.1', port: 9, tls: false }))
    expect(await ended(sink)).toBe('connect')
    expect(sink.detail).toContain('ECONNREFUSED')
    expect(await ended(send(pools.of({ kind: 'unix', path: '/nowhere/at-all.sock' })))).toBe('connect')
    expect(await ended(send(pools.of({ kind: 'tcp', host: '127.0.0.1', port: 99_999, tls: false })))).toBe('connect')
  })

  test('resolves names through the guard, and fails with its refusal', async () => {
    const hosts: string[] = []
    const guarded = new Pools(ticker, {
      ca: undefined,
      lookup: (host, _options, callback) => {
        hosts.push(host)
        callback(new Error('The host has no public address'), [])
      },
    })
    const sink = send(guarded.of({ kind: 'tcp', host: 'inside.example', port: 80, tls: false }))
    expect(await ended(sink)).toBe('connect')
    expect([hosts, sink.detail]).toEqual([['inside.example'], 'The host has no public address'])
  })

  test('can use a unix socket', async () => {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-pool-'))
    closers.push(() => rm(folder, { recursive: true }))
    const server = await startRaw((socket) => socket.write(fine), path.join(folder, 'engine.sock'))
    const pool = pools.of(server.address)
    expect(await ended(send(pool))).toBe('end')
    expect(await ended(send(pool))).toBe('end')
    expect(server.received).toEqual([get + get])
  })
})

test('a retired pool closes idle connections at once and busy ones after their answer', async () => {
  let answerNow = (): void => {}
  const server = await startRaw((socket, n) => {
    answerNow = () => void socket.write(fine)
    if (n === 1) answerNow()
  })
  const pool = pools.of(server.address)
  await ended(send(pool))
  const second = send(pool)
  const third = send(pool)
  await waitFor('both are there', () => server.received.join('').length === get.length * 3)
  pools.keepOnly(new Set())
  expect([second.over, third.over]).toEqual([undefined, undefined])
  for (const socket of server.sockets) socket.write(fine)
  expect([await ended(second), await ended(third)]).toEqual(['end', 'end'])
  expect(pool.connections).toBe(0)
  expect(pools.of(server.address)).not.toBe(pool)
})
