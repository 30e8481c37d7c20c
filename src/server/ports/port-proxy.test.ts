/** The promises: what the application sends and receives through its HTTP port is what it would without a proxy. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import net from 'node:net'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { PRIVATE, PUBLIC, RAW, startPortLab, type PortLab } from '../../../test/harness/port-lab.ts'
import { waitFor } from '../../../test/harness/wait.ts'

/** Short enough to wait for. */
const FIRST_BYTE_MS = 700
const REQUEST_MS = 500

let lab: PortLab

beforeAll(async () => {
  lab = await startPortLab({ ports: { firstByteMs: FIRST_BYTE_MS }, requestTimeoutMs: REQUEST_MS })
})
afterAll(() => lab.close())
afterEach(() => {
  lab.serve = (_, response) => void response.end('hello')
  lab.connect = undefined
  lab.heads.length = 0
})

const reasonOf = (body: string): unknown => (JSON.parse(body) as { reason: unknown }).reason

describe('a request', () => {
  test('arrives with its method, path, query and body, and the answer with its status and headers', async () => {
    lab.serve = (request, response) => {
      response.writeHead(418, 'Short and stout', ['X-Two', 'a', 'X-Two', 'b', 'Set-Cookie', 'app=1; Path=/'])
      void text(request).then((body) => response.end(`${request.method} ${request.url} ${body}`))
    }
    const answer = await lab.send({ method: 'PUT', path: '/a%20b?c=d&e', body: 'some text' }, PUBLIC)
    expect([answer.status, answer.body]).toEqual([418, 'PUT /a%20b?c=d&e some text'])
    expect(answer.headers).toMatchObject({ 'x-two': 'a, b', 'set-cookie': ['app=1; Path=/'] })
  })

  test('keeps Host and Origin, names the client, and leaves out claims that the client makes up', async () => {
    const host = lab.host(PUBLIC)
    await lab.send(
      {
        headers: {
          Origin: `http://${host}`,
          'X-Forwarded-For': '1.2.3.4',
          'X-Forwarded-Proto': 'https',
          'X-Real-IP': '1.2.3.4',
          Forwarded: 'for=1.2.3.4',
          Connection: 'close, X-Secret-Hop',
          'X-Secret-Hop': 'a',
          TE: 'trailers',
        },
      },
      PUBLIC,
    )
    const headers = lab.heads[0]?.headers ?? {}
    expect(headers).toMatchObject({
      host,
      origin: `http://${host}`,
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-proto': 'http',
      'x-forwarded-host': host,
      connection: 'close',
    })
    for (const name of ['x-real-ip', 'forwarded', 'x-secret-hop', 'te']) expect(headers).not.toHaveProperty(name)
  })

  test('that is still being sent arrives piece by piece, and so does its answer', async () => {
    let received = ''
    let answering: ServerResponse | undefined
    lab.serve = (request, response) => {
      request.on('data', (piece: Buffer) => (received += piece.toString()))
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      response.flushHeaders()
      answering = response
    }
    const request = lab.request({ method: 'POST' }, PUBLIC)
    request.write('first;')
    // The head of the answer comes before any of its body, in the middle of the request.
    const [answer] = (await once(request, 'response')) as [IncomingMessage]
    await waitFor('the first piece', () => received === 'first;')
    request.write('second;')
    await waitFor('the second piece', () => received === 'first;second;')
    let seen = ''
    answer.on('data', (piece: Buffer) => (seen += piece.toString()))
    answering?.write('data: 1\n\n')
    await waitFor('the first event', () => seen === 'data: 1\n\n')
    request.end()
    answering?.end('data: 2\n\n')
    await once(answer, 'end')
    expect(seen).toBe('data: 1\n\ndata: 2\n\n')
  })

  test('may take longer than a request to the API, and its answer may be silent for longer than the first byte', async () => {
    let answering: ServerResponse | undefined
    lab.serve = (request, response) => {
      answering = response
      response.flushHeaders()
      request.pipe(response)
    }
    const request = lab.request({ method: 'POST' }, PUBLIC)
    request.flushHeaders()
    const [answer] = (await once(request, 'response')) as [IncomingMessage]
    // The same server closes a request of its own that takes as long.
    const own = lab.request({ method: 'POST', headers: { Host: 'localhost' } })
    const ended = new Promise((resolve) => own.once('response', resolve).once('error', resolve))
    own.write('a')
    const since = performance.now()
    await ended
    await waitFor('both limits to pass', () => performance.now() - since > FIRST_BYTE_MS + 1_500)
    request.end('late')
    expect([await text(answer), answering?.writableFinished]).toEqual(['late', true])
  })

  test('of a client that does not read is not read from the application either', async () => {
    let written = 0
    lab.serve = (_, response) => {
      const feed = (): void => {
        let room = true
        while (room && written < 40) {
          room = response.write(Buffer.alloc(1_000_000))
          written += 1
        }
        if (written >= 40) response.end()
      }
      response.on('drain', feed)
      feed()
    }
    const request = lab.request({}, PUBLIC)
    request.end()
    const [answer] = (await once(request, 'response')) as [IncomingMessage]
    answer.pause()
    // Another request on the same host is not held up.
    const other = lab.serve
    lab.serve = (_, response) => void response.end('quick')
    expect((await lab.send({}, PUBLIC)).body).toBe('quick')
    lab.serve = other
    expect(written).toBeLessThan(30)
    let bytes = 0
    for await (const piece of answer) bytes += (piece as Buffer).length
    expect(bytes).toBe(40_000_000)
  })

  test('is cut off at the client when the application breaks off', async () => {
    lab.serve = (_, response) => {
      response.writeHead(200, { 'Content-Length': '100' })
      response.write('half')
      setImmediate(() => response.destroy())
    }
    const request = lab.request({}, PUBLIC)
    request.end()
    const [answer] = (await once(request, 'response')) as [IncomingMessage]
    await expect(text(answer)).rejects.toThrow('aborted')
  })

  test('leaves no stream open at an application that never closes its end (issue 31, 1)', async () => {
    lab.connect = (stream) => void stream.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    expect((await lab.send({}, PUBLIC)).body).toBe('ok')
    await waitFor('the end of its stream', () => lab.agent.mux.streams === 0)
  })

  test('ends at the application when the client goes away', async () => {
    let isClosed = false
    let isOpen = false
    lab.serve = (request, response) => {
      isOpen = true
      request.socket.once('close', () => (isClosed = true))
      response.write('a')
    }
    const request = lab.request({}, PUBLIC)
    request.on('error', () => {})
    request.end()
    await waitFor('the application', () => isOpen)
    request.destroy()
    await waitFor('the end', () => isClosed)
    await waitFor('the end of its stream', () => lab.agent.mux.streams === 0)
    expect(lab.heads).toHaveLength(1)
  })

  test('may have an answer whose header lines end in LF, in any pieces (issue 31, E)', async () => {
    const answers = [
      'HTTP/1.0 200 OK\nX-A: 1\nX-B: 2\n\nfirst\n\nsecond\r\n',
      'HTTP/1.1 103 a\n\nHTTP/1.1 200 OK\nX-A: 1\r\nX-B: 2\n\nfirst\n\nsecond\r\n',
    ]
    for (const whole of answers) {
      for (const size of [1, 7, whole.length]) {
        lab.connect = (stream) => {
          for (let at = 0; at < whole.length; at += size) stream.write(whole.slice(at, at + size))
          stream.end()
        }
        const answer = await lab.send({}, PUBLIC)
        expect([answer.status, answer.body]).toEqual([200, 'first\n\nsecond\r\n'])
        expect(answer.headers).toMatchObject({ 'x-a': '1', 'x-b': '2' })
      }
    }
  })

  test.each([
    ['a length and chunks', 'Content-Length: 5\nTransfer-Encoding: chunked\n'],
    ['two lengths', 'Content-Length: 5\nContent-Length: 6\n'],
    ['a length with a space before its colon', 'Content-Length : 5\n'],
    ['a bare CR', 'X-A: b\rContent-Length: 5\n'],
    ['a name that is none', 'X A: b\n'],
  ])('with %s has no answer that could be taken for two (issue 31, E)', async (_, lines) => {
    lab.connect = (stream) => void stream.end(`HTTP/1.1 200 OK\n${lines}\n5\nabcde\n0\n\n`)
    const answer = await lab.send({}, PUBLIC)
    expect([answer.status, reasonOf(answer.body)]).toEqual([502, 'port_not_http'])
  })

  test('cannot be split into two by its headers', async () => {
    lab.serve = (request, response) => void text(request).then((body) => response.end(`${request.method} ${body}`))
    const headers = { Connection: 'content-length', 'Content-Length': '40' }
    const answer = await lab.send({ headers, body: 'GET /other HTTP/1.1\r\nHost: other\r\n\r\n'.padEnd(40) }, PUBLIC)
    expect(answer.body).toMatch(/^GET GET \/other/)
    expect(lab.heads).toHaveLength(1)
  })
})

describe('a WebSocket', () => {
  test('is passed on both ways, with its path, protocol and origin', async () => {
    const host = lab.host(PUBLIC)
    const socket = lab.webSocket({ Origin: `http://${host}`, Cookie: 'app=1' }, PUBLIC)
    await once(socket, 'open')
    socket.send('hello')
    expect(String((await once(socket, 'message'))[0])).toBe('hello')
    const large = Buffer.alloc(2_000_000, 'x')
    socket.send(large)
    expect(((await once(socket, 'message'))[0] as Buffer).equals(large)).toBe(true)
    expect(lab.heads[0]).toMatchObject({ url: '/socket?x=1' })
    expect(lab.heads[0]?.headers).toMatchObject({ host, origin: `http://${host}`, cookie: 'app=1' })
    socket.close(1_000)
    expect((await once(socket, 'close'))[0]).toBe(1_000)
    await waitFor('the stream to be over', () => lab.agent.mux.streams === 0)
  })

  test.each([
    ['accepts it', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'],
    ['answers without an end', 'HTTP/1.1 200 OK\r\n\r\nthe first of many lines\n'],
  ])(
    'frees its place when the client goes away and an application that %s does not notice (issue 31, 1)',
    async (_, head) => {
      lab.connect = (stream) => void stream.once('data', () => stream.write(head))
      const { port } = new URL(lab.httpUrl)
      const socket = net.connect({ port: Number(port), host: '127.0.0.1' })
      const headers = { Host: lab.host(PUBLIC), Connection: 'Upgrade', Upgrade: 'websocket' }
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
      socket.write(`GET / HTTP/1.1\r\n${lines.join('')}\r\n`)
      const [answer] = (await once(socket, 'data')) as [Buffer]
      expect(answer.toString()).toContain(head.slice(0, 15))
      socket.end()
      await waitFor('the end of its stream', () => lab.agent.mux.streams === 0)
      socket.destroy()
    },
  )

  test('gets the answer of an application that refuses it, or that is not there', async () => {
    lab.connect = (stream) => void stream.destroy(new Error('Nothing is listening on port 8000.'))
    const missing = lab.webSocket({}, PUBLIC)
    missing.on('error', () => {})
    const [, answer] = (await once(missing, 'unexpected-response')) as [unknown, IncomingMessage]
    expect([answer.statusCode, reasonOf(await text(answer))]).toEqual([502, 'port_not_answering'])
    lab.connect = (stream) => {
      stream.once('data', () => stream.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno'))
    }
    const refused = lab.webSocket({}, PUBLIC)
    refused.on('error', () => {})
    const [, second] = (await once(refused, 'unexpected-response')) as [unknown, IncomingMessage]
    expect([second.statusCode, await text(second)]).toEqual([403, 'no'])
  })
})

describe('without an answer from the application', () => {
  test('a page names the port and the address to listen on', async () => {
    lab.connect = (stream) => void stream.destroy(new Error('Nothing is listening on port 8000.'))
    const page = await lab.send({ headers: { Accept: 'text/html,*/*' } }, PUBLIC)
    expect([page.status, page.headers['content-type']]).toEqual([502, 'text/html; charset=utf-8'])
    expect(page.body).toContain('port 8000')
    expect(page.body).toContain('0.0.0.0')
    expect(reasonOf((await lab.send({ method: 'POST', body: 'x' }, PUBLIC)).body)).toBe('port_not_answering')
    // QEMU accepts every connection and then closes it.
    lab.connect = (stream) => void stream.end()
    expect(reasonOf((await lab.send({}, PUBLIC)).body)).toBe('port_not_answering')
  })

  test('a port that speaks something else is told apart', async () => {
    lab.connect = (stream) => void stream.write('SSH-2.0-OpenSSH_9.2\r\n')
    const answer = await lab.send({}, PUBLIC)
    expect([answer.status, reasonOf(answer.body)]).toEqual([502, 'port_not_http'])
  })

  test.each(['000', '099'])('the status %s to a WebSocket ends that request alone (issue 31, 1)', async (status) => {
    lab.connect = (stream) => {
      stream.once('data', () => stream.end(`HTTP/1.1 ${status} x\r\nContent-Length: 0\r\n\r\n`))
    }
    const socket = lab.webSocket({}, PUBLIC)
    socket.on('error', () => {})
    const [, answer] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
    expect([answer.statusCode, reasonOf(await text(answer))]).toEqual([502, 'port_not_http'])
    await waitFor('its place to be free', () => lab.agent.mux.streams === 0)
  })

  test.each([
    ['HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n', 'with its protocol'],
    ['HTTP/1.1 101 Switching Protocols\r\n\r\n', 'without one'],
    ['HTTP/1.1 100 Continue\r\n\r\n'.repeat(20), 'that never comes'],
  ])('a change of protocol nobody asked for is told at once, and its place is free (issue 31, 1)', async (head) => {
    lab.connect = (stream) => void stream.write(head)
    const answer = await lab.send({}, PUBLIC)
    expect([answer.status, reasonOf(answer.body)]).toEqual([502, 'port_not_http'])
    await waitFor('its place to be free', () => lab.agent.mux.streams === 0)
  })

  test('a 101 that names no protocol does not keep a WebSocket waiting (issue 31, 1)', async () => {
    lab.connect = (stream) => void stream.once('data', () => stream.write('HTTP/1.1 101 Switching Protocols\r\n\r\n'))
    const socket = lab.webSocket({}, PUBLIC)
    socket.on('error', () => {})
    const [, answer] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
    expect([answer.statusCode, reasonOf(await text(answer))]).toEqual([502, 'port_not_http'])
  })

  // Node's client accepts them, and its server refuses to write them.
  test.each(['000', '099'])('the status %s ends that request alone', async (status) => {
    lab.connect = (stream) => void stream.end(`HTTP/1.1 ${status} x\r\nContent-Length: 0\r\n\r\n`)
    const answer = await lab.send({}, PUBLIC)
    expect([answer.status, reasonOf(answer.body)]).toEqual([502, 'port_not_http'])
  })

  test('a host without room for another stream is told apart at once', async () => {
    const link = lab.links.get('host-1')
    if (link === undefined) throw new Error('no link')
    const streams: Duplex[] = []
    do streams.push(link.open({ kind: 'port', workloadId: 'w', port: PUBLIC }).on('error', () => {}))
    while (streams.at(-1)?.destroyed === false)
    const answer = await lab.send({}, PUBLIC)
    expect([answer.status, reasonOf(answer.body)]).toEqual([503, 'too_many_port_connections'])
    for (const stream of streams) stream.destroy()
  })

  test('the wait is limited', async () => {
    lab.serve = () => {}
    const answer = await lab.send({}, PUBLIC)
    expect([answer.status, reasonOf(answer.body)]).toEqual([504, 'port_timeout'])
  })

  test('a machine that does not run, or is simulated, has a page of its own', async () => {
    await lab.addRental({ name: 'calm-red-fox', status: 'Pending' })
    await lab.addRental({ name: 'calm-red-owl', driver: 'mock' })
    const pending = await lab.send({}, PUBLIC, 'calm-red-fox')
    expect([pending.status, reasonOf(pending.body)]).toEqual([503, 'app_not_running'])
    expect(reasonOf((await lab.send({}, PUBLIC, 'calm-red-owl')).body)).toBe('simulated_machine')
  })

  test('a host that is not connected is named, also when it goes away during a request', async () => {
    let isOpen = false
    lab.serve = () => (isOpen = true)
    const sent = lab.send({}, PUBLIC)
    await waitFor('the request', () => isOpen)
    await lab.agent.end()
    expect(reasonOf((await sent).body)).toBe('host_not_connected')
    const answer = await lab.send({}, PUBLIC)
    expect([answer.status, reasonOf(answer.body), answer.headers['retry-after']]).toEqual([
      503,
      'host_not_connected',
      '3',
    ])
    await lab.connectAgent()
    lab.serve = (_, response) => void response.end('back')
    expect((await lab.send({}, PUBLIC)).body).toBe('back')
  })
})

test('a machine has a limited share of the connections', async () => {
  lab.serve = (_, response) => void response.write('a')
  const open = Array.from({ length: 256 }, () => lab.request({}, PUBLIC))
  for (const one of open) {
    one.on('error', () => {})
    one.end()
    await once(one, 'response')
  }
  const refused = await lab.send({}, PUBLIC)
  expect([refused.status, reasonOf(refused.body)]).toEqual([503, 'too_many_port_connections'])
  for (const one of open) one.destroy()
  await waitFor('the end of all', () => lab.agent.mux.streams === 0)
  lab.serve = (_, response) => void response.end('again')
  await waitFor('room for another', async () => (await lab.send({}, PUBLIC)).body === 'again')
})

test('other host names, and ports that are not HTTP, are not forwarded', async () => {
  const answer = await lab.send({ headers: { Host: 'localhost:1' }, path: '/x' })
  expect(answer.body).toBe('GET /x ')
  expect(reasonOf((await lab.send({}, RAW)).body)).toBe('app_not_found')
  const absolute = await lab.send({ path: `http://${lab.host(PRIVATE)}/` }, PUBLIC)
  expect(reasonOf(absolute.body)).toBe('bad_request')
  expect(lab.heads).toEqual([])
})
