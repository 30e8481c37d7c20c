/** Connections against real sockets: what is kept, what is dropped, what is tried again, and when time is up. */
import { mkdtemp, rm } from 'node:fs/promises'
import net, { type AddressInfo, type Socket } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import tls from 'node:tls'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { makeCertificate } from '../../sim/model-server-certificate.ts'
import type { Address } from '../catalog.ts'
import type { AnswerSink, Connection, FaultKind, TimeLimits } from './connection.ts'
import { Pools, type Pool } from './pool.ts'
import type { ResponseHead } from './response-head.ts'
import { Ticker } from './ticker.ts'

const patient: TimeLimits = { connectMs: 20_000, firstByteMs: 20_000, betweenBytesMs: 20_000, totalMs: 20_000 }

class Sink implements AnswerSink {
  connection: Connection | undefined
  head: ResponseHead | undefined
  body = ''
  over: 'end' | FaultKind | undefined
  detail = ''
  onEveryData: (() => void) | undefined

  onHead(head: ResponseHead): void {
    this.head = head
  }
  onData(bytes: Buffer): void {
    this.body += bytes.toString('latin1')
    this.onEveryData?.()
  }
  onEnd(): void {
    this.#finish('end', '')
  }
  onFault(kind: FaultKind, detail: string): void {
    this.#finish(kind, detail)
  }
  #finish(over: 'end' | FaultKind, detail: string): void {
    expect(this.over).toBeUndefined()
    expect(this.connection).toBeUndefined()
    this.over = over
    this.detail = detail
  }
}

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

interface RawServer {
  readonly address: Address
  /** All that was received on each connection. */
  readonly received: string[]
  readonly sockets: Socket[]
}

/** Answers each request (they all end with an empty line, or have the body `{}`) by what `answer` does with it. */
async function startRaw(answer: (socket: Socket, n: number) => void, listenOn?: string): Promise<RawServer> {
  const received: string[] = []
  const sockets: Socket[] = []
  let requests = 0
  const server = net.createServer((socket) => {
    const place = sockets.push(socket) - 1
    received.push('')
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      received[place] += bytes.toString('latin1')
      if (!/(\r\n\r\n|\{\})$/.test(received[place] ?? '')) return
      requests += 1
      answer(socket, requests)
    })
  })
  await new Promise<void>((done) => {
    if (listenOn === undefined) server.listen(0, '127.0.0.1', done)
    else server.listen(listenOn, done)
  })
  closers.push(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise<void>((done) => server.close(() => done()))
  })
  const address: Address =
    listenOn === undefined
      ? { kind: 'tcp', host: '127.0.0.1', port: (server.address() as AddressInfo).port, tls: false }
      : { kind: 'unix', path: listenOn }
  return { address, received, sockets }
}

const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
const fine = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

function send(pool: Pool, limits: Partial<TimeLimits> = {}, body: readonly Uint8Array[] = []): Sink {
  const sink = new Sink()
  pool.send(sink, { head: get, body, limits: { ...patient, ...limits } })
  return sink
}

const ended = (sink: Sink): Promise<string> => waitFor('the end of an answer', () => sink.over)

describe('a connection', () => {
  test('is used again after an answer that ended cleanly', async () => {
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

  test('can be used again from within the end of its answer', async () => {
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

  test('that ends with the body is at its end, not broken', async () => {
    const server = await startRaw((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nuntil the end'))
    const sink = send(pools.of(server.address))
    expect(await ended(sink)).toBe('end')
    expect(sink.body).toBe('until the end')
  })

  test('is left when the server speaks unasked', async () => {
    const server = await startRaw((socket) => socket.write(fine))
    const pool = pools.of(server.address)
    await ended(send(pool))
    server.sockets[0]?.write('HTTP/1.1 408 Request Timeout\r\n\r\n')
    await waitFor('the connection is dropped', () => pool.connections === 0)
    expect(await ended(send(pool))).toBe('end')
    expect(server.received).toEqual([get, get])
  })

  test('is left when the server closes it while it is idle', async () => {
    const server = await startRaw((socket) => socket.write(fine))
    const pool = pools.of(server.address)
    await ended(send(pool))
    server.sockets[0]?.end()
    await waitFor('the connection is dropped', () => pool.connections === 0)
  })

  test('is left before the server would close it', async () => {
    const answer = 'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=2\r\nContent-Length: 2\r\n\r\nok'
    const server = await startRaw((socket) => socket.write(answer))
    const pool = pools.of(server.address)
    await ended(send(pool))
    expect(pool.idle).toBe(1)
    // This server never closes one.
    await waitFor('the idle connection is dropped', () => pool.connections === 0)
    await waitFor('the server is told', () => server.sockets[0]?.destroyed)
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

  test('that is fresh and ends before any byte is broken', async () => {
    const server = await startRaw((socket) => void socket.end())
    const sink = send(pools.of(server.address))
    expect(await ended(sink)).toBe('broken')
    expect(server.received).toEqual([get])
  })

  test('that is replaced is replaced once', async () => {
    const server = await startRaw((socket, n) => (n === 1 ? void socket.write(fine) : void socket.end()))
    const pool = pools.of(server.address)
    await ended(send(pool))
    expect(await ended(send(pool))).toBe('broken')
    expect(server.received).toEqual([get + get, get])
  })

  test('that ends inside an answer is broken, though it was used before', async () => {
    const server = await startRaw((socket, n) => (n === 1 ? void socket.write(fine) : void socket.end('HTTP/1.1 200')))
    const pool = pools.of(server.address)
    await ended(send(pool))
    const sink = send(pool)
    expect(await ended(sink)).toBe('broken')
    expect(sink.detail).toContain('inside the answer')
    expect(server.received).toHaveLength(1)
  })

  test('to nobody fails as such', async () => {
    const server = await startRaw(() => {})
    for (const close of closers.splice(0)) await close()
    const sink = send(pools.of(server.address))
    expect(await ended(sink)).toBe('connect')
    expect(sink.detail).toContain('ECONNREFUSED')
    expect(await ended(send(pools.of({ kind: 'unix', path: '/nowhere/at-all.sock' })))).toBe('connect')
    expect(await ended(send(pools.of({ kind: 'tcp', host: '127.0.0.1', port: 99_999, tls: false })))).toBe('connect')
  })

  test('asks the guard about names, and fails with its refusal', async () => {
    const asked: string[] = []
    const guarded = new Pools(ticker, {
      ca: undefined,
      lookup: (host, _options, callback) => {
        asked.push(host)
        callback(new Error('The host has no public address'), [])
      },
    })
    const sink = send(guarded.of({ kind: 'tcp', host: 'inside.example', port: 80, tls: false }))
    expect(await ended(sink)).toBe('connect')
    expect([asked, sink.detail]).toEqual([['inside.example'], 'The host has no public address'])
  })

  test('goes to a unix socket too', async () => {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-pool-'))
    closers.push(() => rm(folder, { recursive: true }))
    const server = await startRaw((socket) => socket.write(fine), path.join(folder, 'engine.sock'))
    const pool = pools.of(server.address)
    expect(await ended(send(pool))).toBe('end')
    expect(await ended(send(pool))).toBe('end')
    expect(server.received).toEqual([get + get])
  })
})

describe('a request', () => {
  test('goes out as it was given, in pieces of any size', async () => {
    const body = [Buffer.from('{"a":"'), Buffer.alloc(3_000_000, 'x'), Buffer.from('"}'), Buffer.from('{}')]
    const server = await startRaw((socket) => socket.write(fine))
    const sink = send(pools.of(server.address), {}, body)
    expect(await ended(sink)).toBe('end')
    expect(server.received[0]).toBe(get + Buffer.concat(body).toString())
  })

  test('that is answered before it was read in full leaves its connection behind', async () => {
    const server = await startRaw(() => {})
    const pool = pools.of(server.address)
    const sink = send(pool, {}, [Buffer.alloc(20_000_000)])
    const socket = await waitFor('the connection', () => server.sockets[0])
    socket.pause()
    socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n')
    expect(await ended(sink)).toBe('end')
    expect(sink.head?.status).toBe(413)
    expect([pool.connections, pool.idle]).toEqual([0, 0])
  })

  test('that is cancelled ends its connection at once, and hears no more', async () => {
    const server = await startRaw((socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc'))
    const pool = pools.of(server.address)
    const sink = send(pool)
    sink.onEveryData = () => sink.connection?.cancel()
    await waitFor('the first bytes', () => sink.body !== '')
    await waitFor('the server sees the end', () => server.sockets[0]?.destroyed)
    expect([sink.over, sink.body, pool.connections]).toEqual([undefined, 'abc', 0])
  })
})

test('a reader that is full stops the sender, and gets all when it goes on', async () => {
  const bytes = 30_000_000
  let sent = 0
  const server = await startRaw((socket, n) => {
    if (n > 1) return void socket.write(fine)
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes}\r\n\r\n`)
    const chunk = Buffer.alloc(100_000, 'y')
    const pump = (): void => {
      while (sent < bytes) {
        sent += chunk.length
        if (!socket.write(chunk)) return void socket.once('drain', pump)
      }
    }
    pump()
  })
  const pool = pools.of(server.address)
  let taken = 0
  const sink = new Sink()
  sink.onData = (piece) => {
    taken += piece.length
    if (taken === piece.length) sink.connection?.pause()
  }
  pool.send(sink, { head: get, body: [], limits: { ...patient, betweenBytesMs: 50 } })
  const stood = await waitFor('the sender stands still', async () => {
    const before = sent
    await new Promise((resolve) => setImmediate(resolve))
    return sent > 0 && taken > 0 && before === sent && server.sockets[0]?.writableNeedDrain === true ? sent : undefined
  })
  expect(stood).toBeLessThan(bytes)
  // While it is we who wait, the engine is not late.
  let ticks = 0
  ticker.add({ place: -1, tick: () => (ticks += 1) })
  await waitFor('far more time than may lie between bytes', () => ticks > 20)
  expect(sink.over).toBeUndefined()
  sink.connection?.resume()
  expect(await ended(sink)).toBe('end')
  expect(taken).toBe(bytes)
  expect(await ended(send(pool))).toBe('end')
  expect(server.sockets).toHaveLength(1)
})

describe('time is up', () => {
  test('for a connection', async () => {
    const lookups: unknown[] = []
    const slow = new Pools(ticker, { ca: undefined, lookup: (host) => void lookups.push(host) })
    const sink = send(slow.of({ kind: 'tcp', host: 'slow.example', port: 80, tls: false }), { connectMs: 40 })
    expect(await ended(sink)).toBe('connect_timeout')
    expect(lookups).toEqual(['slow.example'])
  })

  test('for the first byte, whether a head came or not', async () => {
    const server = await startRaw((socket, n) => n > 1 && socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n'))
    const pool = pools.of(server.address)
    expect(await ended(send(pool, { firstByteMs: 40 }))).toBe('first_byte_timeout')
    expect(await ended(send(pool, { firstByteMs: 40, betweenBytesMs: 20 }))).toBe('first_byte_timeout')
  })

  test('for the next byte, but not while the first is awaited', async () => {
    let socketOfEngine: Socket | undefined
    const server = await startRaw((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n')
      socketOfEngine = socket
    })
    const sink = send(pools.of(server.address), { betweenBytesMs: 30 })
    await waitFor('the head', () => sink.head)
    let ticks = 0
    ticker.add({ place: -1, tick: () => (ticks += 1) })
    await waitFor('more time than may lie between bytes', () => ticks > 10)
    expect(sink.over).toBeUndefined()
    socketOfEngine?.write('abc')
    expect(await ended(sink)).toBe('quiet')
    expect(sink.body).toBe('abc')
  })

  test('in all, however lively it is', async () => {
    const server = await startRaw((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n')
      const timer = setInterval(() => socket.write('x'), 5)
      socket.on('close', () => clearInterval(timer))
    })
    const sink = send(pools.of(server.address), { totalMs: 60, betweenBytesMs: 5_000 })
    expect(await ended(sink)).toBe('total')
    expect(sink.body).toMatch(/^x+$/)
  })

  test('never too early', async () => {
    const server = await startRaw(() => {})
    const pool = pools.of(server.address)
    for (const firstByteMs of [10, 33, 50, 170]) {
      const since = performance.now()
      expect(await ended(send(pool, { firstByteMs }))).toBe('first_byte_timeout')
      expect(performance.now() - since).toBeGreaterThanOrEqual(firstByteMs)
    }
  })
})

describe('TLS', () => {
  const { key, cert } = makeCertificate('engine.example')
  const toHere: net.LookupFunction = (_host, options, callback) => {
    if (options.all === true) callback(null, [{ address: '127.0.0.1', family: 4 }])
    else callback(null, '127.0.0.1', 4)
  }

  async function startTls(): Promise<{ address: Address; names: unknown[]; resumed: boolean[] }> {
    const names: unknown[] = []
    const resumed: boolean[] = []
    const server = tls.createServer({ key, cert }, (socket) => {
      names.push(socket.servername)
      resumed.push(socket.isSessionReused())
      socket.on('error', () => {})
      socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'))
    })
    server.on('tlsClientError', () => {})
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    closers.push(() => new Promise<void>((done) => server.close(() => done())))
    const { port } = server.address() as AddressInfo
    return { address: { kind: 'tcp', host: 'engine.example', port, tls: true }, names, resumed }
  }

  test('names the server, keeps the connection, and resumes the session on the next one', async () => {
    const { address, names, resumed } = await startTls()
    const trusting = new Pools(ticker, { lookup: toHere, ca: cert })
    const pool = trusting.of(address)
    for (let n = 0; n < 2; n += 1) {
      const sink = send(pool)
      expect(await ended(sink), sink.detail).toBe('end')
      expect(sink.body).toBe('ok')
    }
    expect(names).toEqual(['engine.example'])
    const both = [send(pool), send(pool)]
    for (const sink of both) expect(await ended(sink)).toBe('end')
    expect(resumed).toEqual([false, true])
    await trusting.close()
  })

  test('refuses a certificate that nobody vouches for', async () => {
    const { address } = await startTls()
    const strict = new Pools(ticker, { lookup: toHere, ca: undefined })
    const sink = send(strict.of(address))
    expect(await ended(sink)).toBe('connect')
    expect(sink.detail).toMatch(/self.signed/)
  })

  test('refuses a certificate of another name', async () => {
    const { address } = await startTls()
    const trusting = new Pools(ticker, { lookup: toHere, ca: cert })
    const sink = send(trusting.of({ ...address, host: 'other.example' } as Address))
    expect(await ended(sink)).toBe('connect')
    expect(sink.detail).toContain('other.example')
  })
})

test('a pool that is no longer used lets go of what is idle, and of the rest when it is answered', async () => {
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
