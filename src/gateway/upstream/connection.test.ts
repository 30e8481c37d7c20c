/** One request on a real socket: writing, cancellation, back-pressure and timeouts, also over TLS. */
import type { AddressInfo, LookupFunction, Socket } from 'node:net'
import tls from 'node:tls'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { makeCertificate } from '../../../test/sim/model-server-certificate.ts'
import { RawSink, startRawServer, type RawServer } from '../../../test/sim/model-server-raw.ts'
import type { Address } from '../catalog.ts'
import type { Connection, FaultKind, TimeLimits } from './connection.ts'
import { Pools, type Pool } from './pool.ts'
import type { ResponseHead } from './response-head.ts'
import { Ticker, type Ticking } from './ticker.ts'

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

describe('a request', () => {
  test('is sent unchanged, in pieces of any size', async () => {
    const body = [Buffer.from('{"a":"'), Buffer.alloc(3_000_000, 'x'), Buffer.from('"}'), Buffer.from('{}')]
    const server = await startRaw((socket) => socket.write(fine))
    const sink = send(pools.of(server.address), {}, body)
    expect(await ended(sink)).toBe('end')
    expect(server.received[0]).toBe(get + Buffer.concat(body).toString())
  })

  test('that is answered before it was read completely gives up its connection', async () => {
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

  test('closes its connection at once when cancelled, and emits nothing more', async () => {
    const server = await startRaw((socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc'))
    const pool = pools.of(server.address)
    const sink = send(pool)
    sink.onEveryData = () => sink.connection?.cancel()
    await waitFor('the first bytes', () => sink.body !== '')
    await waitFor('the server sees the end', () => server.sockets[0]?.destroyed)
    expect([sink.over, sink.body, pool.connections]).toEqual([undefined, 'abc', 0])
  })
})

test('a paused reader stops the sender, and gets everything on resume', async () => {
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
  pool.send(sink, { head: get, body: [], limits: { ...patient, betweenBytesMs: 300 } })
  const stood = await waitFor('the sender to stall', async () => {
    const before = sent
    await new Promise((resolve) => setImmediate(resolve))
    return sent > 0 && taken > 0 && before === sent && server.sockets[0]?.writableNeedDrain === true ? sent : undefined
  })
  expect(stood).toBeLessThan(bytes)
  // While our side is paused, the engine is not late.
  let ticks = 0
  ticker.add({ place: -1, tick: () => (ticks += 1) })
  // Five of them take as long.
  await waitFor('much longer than the limit between bytes', () => ticks > 12)
  expect(sink.over).toBeUndefined()
  sink.connection?.resume()
  expect(await ended(sink)).toBe('end')
  expect(taken).toBe(bytes)
  expect(await ended(send(pool))).toBe('end')
  expect(server.sockets).toHaveLength(1)
})

describe('timeouts', () => {
  test('apply to connecting', async () => {
    const lookups: unknown[] = []
    const slow = new Pools(ticker, { ca: undefined, lookup: (host) => void lookups.push(host) })
    const sink = send(slow.of({ kind: 'tcp', host: 'slow.example', port: 80, tls: false }), { connectMs: 40 })
    expect(await ended(sink)).toBe('connect_timeout')
    expect(lookups).toEqual(['slow.example'])
  })

  test('apply to the first body byte, with or without a head', async () => {
    const server = await startRaw((socket, n) => n > 1 && socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n'))
    const pool = pools.of(server.address)
    expect(await ended(send(pool, { firstByteMs: 40 }))).toBe('first_byte_timeout')
    expect(await ended(send(pool, { firstByteMs: 40, betweenBytesMs: 20 }))).toBe('first_byte_timeout')
  })

  test('apply between bytes, but not before the first', async () => {
    let socketOfEngine: Socket | undefined
    const server = await startRaw((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n')
      socketOfEngine = socket
    })
    const sink = send(pools.of(server.address), { betweenBytesMs: 30 })
    await waitFor('the head', () => sink.head)
    let ticks = 0
    ticker.add({ place: -1, tick: () => (ticks += 1) })
    await waitFor('longer than the limit between bytes', () => ticks > 10)
    expect(sink.over).toBeUndefined()
    socketOfEngine?.write('abc')
    expect(await ended(sink)).toBe('quiet')
    expect(sink.body).toBe('abc')
  })

  test('apply to the whole answer, however active it is', async () => {
    const server = await startRaw((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\nx')
      const timer = setInterval(() => socket.write('x'), 5)
      socket.on('close', () => clearInterval(timer))
    })
    // Long enough for a busy machine to connect and to see the first byte.
    const sink = send(pools.of(server.address), { totalMs: 1_000 })
    expect(await ended(sink)).toBe('total')
    expect(sink.body).toMatch(/^x+$/)
  })

  test('do not fire because this process was blocked while bytes lay unread', async () => {
    let engine: Socket | undefined
    const server = await startRaw((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc')
      engine = socket
    })
    const sink = send(pools.of(server.address), { betweenBytesMs: 100 })
    // In the first tick after the first bytes: no limit has passed yet, and the next tick is late.
    const standstill: Ticking = {
      place: -1,
      tick: () => {
        ticker.remove(standstill)
        engine?.write('def')
        const until = performance.now() + 400
        while (performance.now() < until);
      },
    }
    sink.onEveryData = () => {
      if (sink.body === 'abc') ticker.add(standstill)
    }
    expect(await ended(sink)).toBe('end')
    expect(sink.body).toBe('abcdef')
  })

  test('never fire early', async () => {
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
  const toHere: LookupFunction = (_host, options, callback) => {
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

  test('sends the server name, keeps the connection, and resumes the session on the next one', async () => {
    const { address, names, resumed } = await startTls()
    const trusting = new Pools(ticker, { lookup: toHere, ca: cert })
    const pool = trusting.of(address)
    for (let n = 0; n < 2; n += 1) {
      const sink = send(pool)
      await ended(sink)
      expect([sink.detail, sink.body]).toEqual(['', 'ok'])
    }
    expect(names).toEqual(['engine.example'])
    const both = [send(pool), send(pool)]
    for (const sink of both) expect(await ended(sink)).toBe('end')
    expect(resumed).toEqual([false, true])
    await trusting.close()
  })

  test('refuses an untrusted certificate', async () => {
    const { address } = await startTls()
    const strict = new Pools(ticker, { lookup: toHere, ca: undefined })
    const sink = send(strict.of(address))
    expect(await ended(sink)).toBe('connect')
    expect(sink.detail).toMatch(/self.signed/)
  })

  test('refuses a certificate for another name', async () => {
    const { address } = await startTls()
    const trusting = new Pools(ticker, { lookup: toHere, ca: cert })
    const sink = send(trusting.of({ ...address, host: 'other.example' } as Address))
    expect(await ended(sink)).toBe('connect')
    expect(sink.detail).toContain('other.example')
  })
})
