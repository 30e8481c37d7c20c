/** An answer is read the same however it is split, and with the same result as node's own parser. */
import http from 'node:http'
import { Duplex } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ResponseHead } from './response-head.ts'
import { ResponseReader } from './response-reader.ts'

interface Seen {
  status: number | undefined
  headers: Record<string, string>
  keepAlive: boolean | undefined
  body: string
  ended: boolean
  failed: boolean
  fault: string | undefined
  excess: string
}

/** Reads pieces from a larger buffer that still contains an old answer, like the shared one. */
function read(pieces: readonly Buffer[], closes = true): Seen {
  const heads: ResponseHead[] = []
  const body: Buffer[] = []
  const excess: Buffer[] = []
  const reader = new ResponseReader({
    onHead: (one) => void heads.push(one),
    onData: (bytes) => void body.push(Buffer.from(bytes)),
  })
  for (const piece of pieces) {
    const buffer = Buffer.concat([piece, Buffer.from('\r\n\r\n\n\r\n0\r\n\r\n')])
    const copy = Buffer.from(piece)
    const used = reader.push(buffer, piece.length)
    if (reader.ended) excess.push(copy.subarray(used))
  }
  if (closes) reader.close()
  const head = heads[0]
  return {
    status: head?.status,
    headers: Object.fromEntries(head?.headers ?? []),
    keepAlive: head?.keepAlive,
    body: Buffer.concat(body).toString('latin1'),
    ended: reader.ended,
    failed: reader.fault !== undefined,
    fault: reader.fault,
    excess: Buffer.concat(excess).toString('latin1'),
  }
}

const whole = (text: string, closes = true): Seen => read([Buffer.from(text, 'latin1')], closes)

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [...new Set(places.map((place) => place % (bytes.length + 1)))].toSorted((a, b) => a - b)
  return [0, ...at].map((from, n) => bytes.subarray(from, at[n] ?? bytes.length))
}

const token = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}$/)
const framingNames = /^(content-length|transfer-encoding|connection|keep-alive|upgrade|trailer|set-cookie|__proto__)$/i
const header = fc
  .tuple(
    token.filter((name) => !framingNames.test(name)),
    fc.stringMatching(/^[!-~]([ \t!-~\x80-\xff]{0,20}[!-~])?$/),
    fc.constantFrom('', ' ', '\t ', '  '),
  )
  .map(([name, value, blank]) => ({ name: `x-${name}`, value, blank }))
const body = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes).toString('latin1'))
const chunk = fc.record({
  data: fc.uint8Array({ minLength: 1, maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
  extension: fc.constantFrom('', ';a', ';a=b', ';name="quoted text"'),
  upper: fc.boolean(),
  zeros: fc.constantFrom('', '0', '000'),
})

const framedBody = fc.oneof(
  body.map((text) => ({ header: `Content-Length: ${text.length}\r\n`, wire: text, text })),
  body.map((text) => ({ header: '', wire: text, text })),
  fc.tuple(fc.array(chunk), fc.array(header, { maxLength: 2 })).map(([chunks, trailers]) => ({
    header: 'Transfer-Encoding: chunked\r\n',
    wire: `${chunks
      .map(({ data, extension, upper, zeros }) => {
        const size = zeros + data.length.toString(16)
        return `${upper ? size.toUpperCase() : size}${extension}\r\n${data}\r\n`
      })
      .join('')}0\r\n${trailers.map(({ name, value }) => `${name}: ${value}\r\n`).join('')}\r\n`,
    text: chunks.map(({ data }) => data).join(''),
  })),
)

const answer = fc
  .record({
    interims: fc.array(fc.constantFrom('100 Continue', '103 Early Hints'), { maxLength: 2 }),
    status: fc.constantFrom(200, 201, 204, 302, 304, 400, 404, 429, 500, 503),
    reason: fc.constantFrom(' OK', ' ', '', ' Not so good'),
    headers: fc.array(header, { maxLength: 5 }),
    connection: fc.constantFrom('', 'Connection: close\r\n', 'Connection: keep-alive\r\n', 'connection: Close, x\r\n'),
    framed: framedBody,
  })
  .map(({ interims, status, reason, headers, connection, framed }) => {
    const bare = status === 204 || status === 304
    const lines = headers.map(({ name, value, blank }) => `${name}:${blank}${value}${blank}\r\n`).join('')
    const before = interims.map((line) => `HTTP/1.1 ${line}\r\nx-early: 1\r\n\r\n`).join('')
    const head = `HTTP/1.1 ${status}${reason}\r\n${lines}${connection}${bare ? '' : framed.header}\r\n`
    const last = new Map(headers.map(({ name, value }) => [name.toLowerCase(), value]))
    return {
      wire: Buffer.from(before + head + (bare ? '' : framed.wire), 'latin1'),
      status,
      headers: last,
      text: bare ? '' : framed.text,
      keepAlive: !/close/i.test(connection) && (bare || framed.header !== ''),
    }
  })

describe('a valid answer', () => {
  test('is read completely, however it is cut', () => {
    fc.assert(
      fc.property(answer, fc.array(fc.nat()), (one, places) => {
        const seen = read(cut(one.wire, places))
        expect(seen).toMatchObject({ status: one.status, body: one.text, ended: true, fault: undefined, excess: '' })
        expect(seen.keepAlive).toBe(one.keepAlive)
        for (const [name, value] of one.headers) expect(seen.headers[name]).toBe(value)
      }),
      { numRuns: 400 },
    )
  })

  test('is read byte by byte', () => {
    fc.assert(
      fc.property(answer, (one) => {
        const bytes = Array.from(one.wire, (byte) => Buffer.from([byte]))
        expect(read(bytes)).toMatchObject({ status: one.status, body: one.text, ended: true })
      }),
      { numRuns: 50 },
    )
  })

  test('is the same to the parser of node:http', async () => {
    await fc.assert(
      fc.asyncProperty(answer, async (one) => {
        const theirs = await readByNode(one.wire)
        const ours = read([one.wire])
        expect({ status: ours.status, body: ours.body }).toEqual({ status: theirs.status, body: theirs.body })
        for (const [name, value] of Object.entries(theirs.headers)) {
          // node joins repeated headers, we keep the last.
          expect(value.split(', ').concat(value)).toContain(ours.headers[name]?.split(', ').at(-1))
        }
      }),
      { numRuns: 200 },
    )
  })

  test('leaves the bytes after it unread', () => {
    expect(whole('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 ')).toMatchObject({
      body: 'ok',
      ended: true,
      excess: 'HTTP/1.1 ',
    })
    expect(whole('HTTP/1.1 204 No Content\r\n\r\nx')).toMatchObject({ ended: true, excess: 'x' })
    expect(whole('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nx')).toMatchObject({ excess: 'x' })
  })

  test('passes its chunks on together', () => {
    const calls: string[] = []
    const reader = new ResponseReader({ onHead: () => {}, onData: (bytes) => void calls.push(bytes.toString()) })
    const text = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n1;x=y\r\nf\r\n4\r\ngh'
    reader.push(Buffer.from(text), text.length)
    expect(calls).toEqual(['abcdefgh'])
  })

  test('is followed by the next after a reset', () => {
    const seen: Array<number | string> = []
    const reader = new ResponseReader({
      onHead: ({ status }) => void seen.push(status),
      onData: (bytes) => void seen.push(bytes.toString()),
    })
    for (const text of [
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;e\r\na\r\n0\r\nt: 1\r\n\r\n',
      'HTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nb',
    ]) {
      reader.reset()
      expect(reader.begun).toBe(false)
      reader.push(Buffer.from(text), text.length)
      expect(reader.ended).toBe(true)
    }
    expect(seen).toEqual([200, 'a', 404, 'b'])
  })
})

describe('an invalid answer', () => {
  test('fails without throwing, in the same way however it is cut', () => {
    const pieces = fc.array(
      fc.oneof(
        fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
        fc
          .constantFrom('HTTP/1.1 200 OK\r\n', '\r\n', '\r', '\n', 'Content-Length: 3\r\n', 'a: b\r\n', '5\r\n', ' : ')
          .map((text) => Buffer.from(text)),
        fc
          .constantFrom('Transfer-Encoding: chunked\r\n', 'abc', '0\r\n\r\n', 'HTTP/1.1 ')
          .map((text) => Buffer.from(text)),
      ),
      { maxLength: 12 },
    )
    fc.assert(
      fc.property(pieces, fc.array(fc.nat()), (some, places) => {
        const bytes = Buffer.concat(some)
        const once = read([bytes])
        expect(read(cut(bytes, places))).toEqual(once)
        expect(once.failed).toBe(!once.ended)
      }),
      { numRuns: 1_000 },
    )
  })

  test('a changed byte gives the same result however the answer is cut', () => {
    fc.assert(
      fc.property(answer, fc.nat(), fc.nat(255), fc.array(fc.nat()), (one, place, byte, places) => {
        const bytes = Buffer.from(one.wire)
        bytes[place % bytes.length] = byte
        expect(read(cut(bytes, places))).toEqual(read([bytes]))
      }),
      { numRuns: 400 },
    )
  })

  const ok = 'HTTP/1.1 200 OK\r\n'
  const chunked = `${ok}Transfer-Encoding: chunked\r\n\r\n`
  test.each([
    ['nothing', ''],
    ['another protocol', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['HTTP/2', 'HTTP/2 200 OK\r\n\r\n'],
    ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
    ['a status that is none', 'HTTP/1.1 999 OK\r\n\r\n'],
    ['an empty line before it', '\r\nHTTP/1.1 200 OK\r\n\r\n'],
    ['bare line feeds', 'HTTP/1.1 200 OK\nContent-Length: 0\n\n'],
    ['a bare line feed in a header', `${ok}a: b\nContent-Length: 0\r\n\r\n`],
    ['a bare carriage return', `${ok}a: b\rc\r\n\r\n`],
    ['a NUL in a header', `${ok}a: b\0\r\n\r\n`],
    ['a folded header', `${ok}a: b\r\n c\r\n\r\n`],
    ['a space before the colon', `${ok}a : b\r\n\r\n`],
    ['a header without a colon', `${ok}abc\r\n\r\n`],
    ['a header without a name', `${ok}: b\r\n\r\n`],
    ['two lengths', `${ok}Content-Length: 1\r\nContent-Length: 1\r\n\r\na`],
    ['a list of lengths', `${ok}Content-Length: 1, 1\r\n\r\na`],
    ['a negative length', `${ok}Content-Length: -1\r\n\r\na`],
    ['a length with a sign', `${ok}Content-Length: +1\r\n\r\na`],
    ['an empty length', `${ok}Content-Length:\r\n\r\na`],
    ['a length past all numbers', `${ok}Content-Length: 99999999999999999999\r\n\r\na`],
    ['length and chunks', `${ok}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['another coding', `${ok}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
    ['chunks in HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['a switch of protocols', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
    ['a body that is cut', `${ok}Content-Length: 3\r\n\r\nab`],
    ['a chunk that is cut', `${chunked}3\r\nab`],
    ['no last chunk', `${chunked}2\r\nab\r\n`],
    ['no end of the trailers', `${chunked}0\r\n`],
    ['a chunk size of letters', `${chunked}xyz\r\n`],
    ['an empty chunk size', `${chunked}\r\nab`],
    ['a chunk size with a sign', `${chunked}+2\r\nab\r\n0\r\n\r\n`],
    ['a chunk size with 0x', `${chunked}0x2\r\nab\r\n0\r\n\r\n`],
    ['a blank after the size', `${chunked}2 \r\nab\r\n0\r\n\r\n`],
    ['a chunk that is longer than it says', `${chunked}2\r\nabc\r\n0\r\n\r\n`],
    ['a chunk past all numbers', `${chunked}fffffffffffff\r\n`],
    ['a line feed in an extension', `${chunked}2;a\nb\r\nab\r\n0\r\n\r\n`],
    ['a trailer without a colon', `${chunked}0\r\nabc\r\n\r\n`],
  ])('%s fails', (_, text) => {
    expect(whole(text)).toMatchObject({ failed: true, ended: false })
  })

  test.each([
    ['a head', `${ok}a: ${'x'.repeat(70_000)}`],
    ['a head of many headers', `${ok}${'a: b\r\n'.repeat(200)}\r\n`],
    ['chunk extensions', `${chunked}${`1;${'x'.repeat(1_000)}\r\na\r\n`.repeat(20)}`],
    ['trailers', `${chunked}0\r\n${'a: b\r\n'.repeat(5_000)}`],
    ['interim answers', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(50)],
  ])('%s without end is refused instead of kept', (_, text) => {
    expect(whole(text, false).failed).toBe(true)
    const bytes = Buffer.from(text, 'latin1')
    const seven = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, n) => bytes.subarray(n * 7, n * 7 + 7))
    expect(read(seven, false).failed).toBe(true)
  })

  test('is recognized by its first bytes', () => {
    expect(whole('SSH-2.0-OpenSSH', false).fault).toBe('no status line')
    expect(whole('HTTP/1', false).failed).toBe(false)
  })
})

describe('keep-alive', () => {
  const after = (head: string): boolean | undefined => whole(`${head}\r\nContent-Length: 0\r\n\r\n`).keepAlive
  test.each([
    ['HTTP/1.1 200 OK', true],
    ['HTTP/1.1 200 OK\r\nConnection: close', false],
    ['HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nConnection: close', false],
    ['HTTP/1.1 200 OK\r\nConnection: upgrade , CLOSE', false],
    ['HTTP/1.1 200 OK\r\nConnection: closed', true],
    ['HTTP/1.0 200 OK', false],
    ['HTTP/1.0 200 OK\r\nConnection: Keep-Alive', true],
  ])('%j', (head, lives) => expect(after(head)).toBe(lives))

  test.each([
    ['timeout=5, max=100', 5_000],
    ['max=100,timeout=30', 30_000],
    ['Timeout = 7', 7_000],
    ['max=100', undefined],
    ['xtimeout=5', undefined],
  ])('Keep-Alive: %s is understood', (value, ms) => {
    const heads: ResponseHead[] = []
    const reader = new ResponseReader({ onHead: (head) => void heads.push(head), onData: () => {} })
    const text = `HTTP/1.1 200 OK\r\nKeep-Alive: ${value}\r\nContent-Length: 0\r\n\r\n`
    reader.push(Buffer.from(text), text.length)
    expect(heads[0]?.keepAliveMs).toBe(ms)
  })
})

test('emits nothing after a stop, not even from the current read', () => {
  const data: string[] = []
  const reader: ResponseReader = new ResponseReader({
    onHead: () => reader.stop(),
    onData: (bytes) => void data.push(bytes.toString()),
  })
  const text = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab'
  reader.push(Buffer.from(text), text.length)
  reader.close()
  expect(data).toEqual([])
  expect([reader.ended, reader.fault]).toEqual([false, undefined])
})

async function readByNode(wire: Buffer): Promise<{ status: number; headers: Record<string, string>; body: string }> {
  const socket = new Duplex({
    read: () => {},
    write: (_bytes, _encoding, done) => {
      socket.push(wire)
      socket.push(null)
      done()
    },
  })
  return new Promise((resolve, reject) => {
    const request = http.request({ createConnection: () => socket, insecureHTTPParser: false }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (bytes: Buffer) => chunks.push(bytes))
      response.on('error', reject)
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers as Record<string, string>,
          body: Buffer.concat(chunks).toString('latin1'),
        }),
      )
    })
    request.on('error', reject)
    request.end()
  })
}
