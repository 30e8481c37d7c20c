/** Bytes written to a stream arrive on that stream, complete and in order, independently of the other streams. */
import { once } from 'node:events'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { MuxClosed } from './mux-closed.ts'
import { makeMux, type Mux, type MuxOptions, type MuxStream } from './mux.ts'

const WINDOW = 262_144
const DATA_FRAME = 2

type Accept = NonNullable<MuxOptions['accept']>

interface Pair {
  readonly client: Mux
  readonly server: Mux
  readonly failures: string[]
}

/** Two ends; frames are delivered one at a time, asynchronously. */
function makePair(accept: Accept, clientAccept: Accept = () => {}): Pair {
  const failures: string[] = []
  const wire = (to: () => Mux) => {
    const queue: Buffer[] = []
    let bytes = 0
    const deliver = (): void => {
      const frame = queue.shift()
      if (frame === undefined) return
      bytes -= frame.length
      to().receive(frame)
    }
    return {
      send: (frame: Buffer) => {
        queue.push(frame)
        bytes += frame.length
        setImmediate(deliver)
      },
      backlog: () => bytes,
    }
  }
  const failed = (error: Error): void => void failures.push(error.message)
  const client: Mux = makeMux({ ...wire(() => server), side: 'client', accept: clientAccept, failed })
  const server: Mux = makeMux({ ...wire(() => client), side: 'server', accept, failed })
  return { client, server, failures }
}

/** The bytes of a stream from an offset; different for every stream. */
function bytesOf(seed: number, from: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length)
  for (let i = 0; i < length; i++) bytes[i] = ((from + i) * 31 + ((from + i) >> 8) * 7 + seed * 101) & 255
  return bytes
}

async function writeAll(stream: MuxStream, seed: number, sizes: readonly number[]): Promise<void> {
  let at = 0
  for (const size of sizes) {
    const room = stream.write(bytesOf(seed, at, size))
    at += size
    if (!room) await once(stream, 'drain')
  }
  stream.end()
}

/** Reads to the end, and pauses after each piece whose number is in `pauses`. */
function readAll(stream: MuxStream, pauses: ReadonlySet<number>): Promise<Buffer> {
  const pieces: Buffer[] = []
  const goOnAfter = (turns: number): void => {
    if (turns === 0) stream.resume()
    else setImmediate(() => goOnAfter(turns - 1))
  }
  return new Promise((resolve, reject) => {
    stream.on('data', (piece: Buffer) => {
      pieces.push(piece)
      if (!pauses.has(pieces.length)) return
      stream.pause()
      goOnAfter(20)
    })
    stream.once('end', () => resolve(Buffer.concat(pieces)))
    stream.once('error', reject)
  })
}

const size = fc.oneof(fc.integer({ min: 0, max: 100 }), fc.integer({ min: 1, max: 100_000 }), fc.constant(400_000))
const script = fc.record({
  by: fc.constantFrom('client' as const, 'server' as const),
  there: fc.array(size, { maxLength: 12 }),
  back: fc.array(size, { maxLength: 12 }),
  pauses: fc.uniqueArray(fc.integer({ min: 1, max: 20 }), { maxLength: 4 }),
})

describe('streams over one connection', () => {
  test('delivers the bytes of many streams complete, in order, on the right stream, and each end separately', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(script, { minLength: 1, maxLength: 8 }), async (scripts) => {
        const accepted: Array<Promise<void>> = []
        const accept: Accept = (request, stream) => {
          const at = (request as { at: number }).at
          const { there, back, pauses } = scripts[at] ?? { there: [], back: [], pauses: [] }
          accepted.push(transfer(stream, { write: [at + 100, back], read: [at, there] }, pauses))
        }
        const pair = makePair(accept, accept)
        const opened = scripts.map(({ by, there, back, pauses }, at) =>
          transfer(pair[by].open({ at }), { write: [at, there], read: [at + 100, back] }, pauses),
        )
        await Promise.all(opened)
        await Promise.all(accepted)
        await waitFor('all streams to be over', () => pair.client.streams === 0 && pair.server.streams === 0)
        expect(accepted).toHaveLength(scripts.length)
        expect(pair.failures).toEqual([])
      }),
      { numRuns: 25 },
    )
  })

  async function transfer(
    stream: MuxStream,
    work: { write: readonly [number, readonly number[]]; read: readonly [number, readonly number[]] },
    pauses: readonly number[],
  ): Promise<void> {
    const [, bytes] = await Promise.all([writeAll(stream, ...work.write), readAll(stream, new Set(pauses))])
    const [seed, sizes] = work.read
    const length = sizes.reduce((sum, one) => sum + one, 0)
    if (!bytes.equals(bytesOf(seed, 0, length))) throw new Error(`stream ${seed}: ${bytes.length} of ${length} bytes`)
  }

  test('a stalled reader blocks only its own stream and buffers at most one window', async () => {
    const streams: MuxStream[] = []
    const { client } = makePair((_, stream) => void streams.push(stream))
    const slow = client.open('slow')
    const quick = client.open('quick')
    let [begun, written] = [0, 0]
    const feed = (): void => {
      while (begun < 64) {
        begun += 1
        if (!slow.write(Buffer.alloc(32_768), () => (written += 1))) return
      }
    }
    slow.on('drain', feed)
    feed()
    const [, reader] = await waitFor('both streams', () => (streams.length === 2 ? streams : undefined))
    const bytes = readAll(reader as MuxStream, new Set())
    await writeAll(quick, 1, [100_000, 300_000, 500_000])
    expect((await bytes).equals(bytesOf(1, 0, 900_000))).toBe(true)
    // One window, and one piece that waits.
    expect(written).toBeLessThanOrEqual(WINDOW / 32_768)
    expect(slow.writableLength).toBeLessThanOrEqual(2 * 32_768)
    expect(streams[0]?.readableLength).toBeLessThanOrEqual(32_768 * 2)
    streams[0]?.resume()
    await waitFor('the rest', () => written === 64)
  })

  test('busy streams take turns', async () => {
    let backlog = 1_000_000
    const order: number[] = []
    const send = (frame: Buffer): void => void (frame[0] === DATA_FRAME && order.push(frame.readUInt32BE(1)))
    const mux = makeMux({ send, backlog: () => backlog, side: 'client', accept: () => {} })
    for (const at of [1, 2, 3]) mux.open(at).end(Buffer.alloc(100_000))
    backlog = 0
    mux.flush()
    // Three whole frames each, and the rest of 1,696 bytes.
    expect(order).toEqual([1, 3, 5, 1, 3, 5, 1, 3, 5, 1, 3, 5])
    mux.close()
  })

  test('pauses while the transport is backlogged, and resumes by itself', async () => {
    let backlog = 10_000_000
    const sent: Buffer[] = []
    const mux = makeMux({ send: (frame) => sent.push(frame), backlog: () => backlog, side: 'client', accept: () => {} })
    mux.open('x').write(Buffer.alloc(10))
    expect(sent.filter((frame) => frame[0] === DATA_FRAME)).toEqual([])
    backlog = 0
    await waitFor('the bytes', () => sent.some((frame) => frame[0] === DATA_FRAME))
    mux.close()
  })

  test('sends signals beside the bytes, in both directions', async () => {
    const { client } = makePair((_, stream) => {
      stream.on('signal', (value) => stream.sendSignal({ heard: value }))
    })
    const stream = client.open('x')
    stream.sendSignal({ columns: 80, rows: 24 })
    expect(await once(stream, 'signal')).toEqual([{ heard: { columns: 80, rows: 24 } }])
    stream.sendSignal('a'.repeat(20_000))
    expect(stream.errored).toBeInstanceOf(RangeError)
  })

  test('destroying a stream ends it on the other side with the reason', async () => {
    const streams: MuxStream[] = []
    const { client, server } = makePair((_, stream) => void streams.push(stream))
    const stream = client.open('x')
    stream.write('abc')
    const far = await waitFor('the stream', () => streams[0])
    const why = new Promise<Error>((resolve) => far.once('error', resolve))
    stream.destroy(new Error('the container has ended'))
    expect(await why).not.toBeInstanceOf(MuxClosed)
    expect((await why).message).toBe('the container has ended')
    expect([client.streams, server.streams]).toEqual([0, 0])
  })

  test('a stream that is forwarded from a closed connection ends as one of a closed connection', async () => {
    const lost = new MuxClosed('the host disconnected')
    const { client } = makePair((_, stream) => void stream.destroy(lost))
    const stream = client.open('x')
    const why = await new Promise<Error>((resolve) => stream.once('error', resolve))
    expect(why).toBeInstanceOf(MuxClosed)
    expect(why.message).toBe(lost.message)
  })

  test('survives a reset of a stream without an error listener', async () => {
    const { client, server, failures } = makePair((_, stream) => void stream.destroy(new Error('no')))
    const stream = client.open('x')
    await waitFor('the end', () => stream.destroyed)
    await waitFor('none left', () => client.streams + server.streams === 0)
    expect(failures).toEqual([])
  })

  test('closing a mux ends all its streams with an error, and it opens no more', async () => {
    const { client } = makePair(() => {})
    const stream = client.open('x')
    const why = new Promise<Error>((resolve) => stream.once('error', resolve))
    client.close('the host has gone')
    expect((await why).message).toBe('the host has gone')
    const reopened = client.open('y')
    expect((await new Promise<Error>((resolve) => reopened.once('error', resolve))).message).toContain('closed')
  })

  test('allows at most 4,096 streams per side', async () => {
    const { client, server, failures } = makePair(() => {})
    const streams = Array.from({ length: 4_096 }, (_, at) => client.open(at))
    expect(client.open('one more').destroyed).toBe(true)
    await waitFor('all of them', () => server.streams === 4_096)
    streams[0]?.destroy()
    await waitFor('free memory', () => server.streams === 4_095)
    expect(failures).toEqual([])
  })

  const frame = (type: number, id: number, payload: Buffer | string = ''): Buffer => {
    const head = Buffer.alloc(5)
    head[0] = type
    head.writeUInt32BE(id, 1)
    return Buffer.concat([head, Buffer.from(payload)])
  }
  const credit = (amount: number): Buffer => {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(amount)
    return bytes
  }

  test('resets streams beyond the limit and keeps the others', () => {
    const sent: Buffer[] = []
    const mux = makeMux({ send: (one) => void sent.push(one), side: 'server', maxStreams: 1_024, accept: () => {} })
    for (let at = 0; at < 1_030; at++) mux.receive(frame(1, 2 * at + 1, '{}'))
    expect(mux.streams).toBe(1_024)
    expect(sent.map((one) => [one[0], one.readUInt32BE(1)])).toEqual(
      [2_049, 2_051, 2_053, 2_055, 2_057, 2_059].map((id) => [5, id]),
    )
    mux.close()
  })

  test('closes when the other side sends but does not read, before replies fill the memory', () => {
    const FRAME_BYTES = 1_000
    let [sent, fault] = [0, '']
    const mux = makeMux({
      send: () => (sent += 1),
      backlog: () => sent * FRAME_BYTES,
      side: 'server',
      accept: (_, stream) => void stream.destroy(new Error('no')),
      failed: (error) => (fault = error.message),
    })
    for (let at = 0; at < 50_000; at++) mux.receive(frame(1, 2 * at + 1, '{}'))
    expect(fault).toBe('the other side does not read')
    expect(sent).toBe(Math.ceil((16 * 1_048_576) / FRAME_BYTES))
    expect(mux.open('x').destroyed).toBe(true)
    // Signals count as well.
    let [signals, clogged] = [0, false]
    const other = makeMux({
      send: (one) => (signals += one[0] === 6 ? 1 : 0),
      backlog: () => (clogged ? 16 * 1_048_576 : 0),
      side: 'client',
    })
    const stream = other.open('x')
    stream.sendSignal(1)
    clogged = true
    stream.sendSignal(2)
    expect([signals, stream.destroyed]).toEqual([1, true])
  })

  test('closes when the other side opens a stream that is not accepted', () => {
    const sent: Buffer[] = []
    const failures: string[] = []
    const mux = makeMux({
      send: (one) => void sent.push(one),
      side: 'server',
      failed: (error) => failures.push(error.message),
    })
    for (const id of [1, 3, 5]) mux.receive(frame(1, id, '{}'))
    expect([sent, failures]).toEqual([[], ['this side does not accept streams']])
  })

  test.each([
    ['too short', [Buffer.from([2, 0])]],
    ['of no known type', [frame(9, 1)]],
    ['for a stream that was never opened', [frame(2, 77, 'x')]],
    ['for stream 0', [frame(4, 0)]],
    ['that opens a stream of our own kind', [frame(1, 2, '{}')]],
    ['that opens a stream twice', [frame(1, 1, '{}'), frame(1, 1, '{}')]],
    ['that opens with bad JSON', [frame(1, 1, '{')]],
    ['that opens with too much', [frame(1, 1, JSON.stringify('x'.repeat(70_000)))]],
    ['with too many bytes', [frame(1, 1, '{}'), frame(2, 1, Buffer.alloc(32_769))]],
    ['with no bytes', [frame(1, 1, '{}'), frame(2, 1)]],
    ['with bytes after the end', [frame(1, 1, '{}'), frame(4, 1), frame(2, 1, 'x')]],
    ['that ends twice', [frame(1, 1, '{}'), frame(4, 1), frame(4, 1)]],
    ['that overflows the window', [frame(1, 1, '{}'), ...Array(9).fill(frame(2, 1, Buffer.alloc(32_000)))]],
    ['of very many small pieces', [frame(1, 1, '{}'), ...Array(5_000).fill(frame(2, 1, 'x'))]],
    ['that gives more room than there is', [frame(1, 1, '{}'), frame(3, 1, credit(1))]],
    ['that gives room in another form', [frame(1, 1, '{}'), frame(3, 1, 'xy')]],
    ['with a bad signal', [frame(1, 1, '{}'), frame(6, 1, 'nope')]],
  ])('a frame %s closes the mux, and says why', (_, frames) => {
    const failures: string[] = []
    const streams: MuxStream[] = []
    const mux = makeMux({
      send: () => {},
      side: 'server',
      accept: (_request, stream) => void streams.push(stream),
      failed: (error) => failures.push(error.message),
    })
    for (const one of frames) mux.receive(one)
    expect(failures).toHaveLength(1)
    expect(mux.streams).toBe(0)
    expect(streams.every((stream) => stream.destroyed)).toBe(true)
  })

  test('random bytes never throw, and a closed mux has no streams', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 20 }), (frames) => {
        let failed = 0
        const mux = makeMux({ send: () => {}, side: 'server', accept: () => {}, failed: () => (failed += 1) })
        for (const one of frames) mux.receive(Buffer.from(one))
        expect(failed).toBeLessThanOrEqual(1)
        expect(failed * mux.streams).toBe(0)
        mux.close()
      }),
    )
  })
})
