import { EventEmitter, once } from 'node:events'
import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { BareResponse, makeBareConnections, readStreamHead } from './bare-response.ts'

const REQUEST = 'GET /v2/events/stream?after=7 HTTP/1.1\r\nHost: berth\r\nAuthorization: Bearer k\r\n'

test('reads the plain head of an event stream', () => {
  const more = 'Connection: keep-alive\r\nLast-Event-ID:  9 \r\nX-Forwarded-Host: a.test, b.test\r\n'
  expect(readStreamHead(Buffer.from(`${REQUEST}${more}\r\n`))).toEqual({
    url: '/v2/events/stream?after=7',
    hosts: ['berth', 'a.test', 'b.test'],
    headers: {
      host: 'berth',
      authorization: 'Bearer k',
      connection: 'keep-alive',
      'last-event-id': '9',
      'x-forwarded-host': 'a.test, b.test',
    },
  })
  expect(readStreamHead(Buffer.from('GET /v2/operator/events/stream HTTP/1.1\r\nHost: b\r\n\r\n'))).toBeDefined()
})

test.each([
  ['another path', 'GET /v2/events HTTP/1.1\r\nHost: b\r\n\r\n'],
  ['a path with dots', 'GET /v2/x/../events/stream HTTP/1.1\r\nHost: b\r\n\r\n'],
  ['an absolute target', 'GET http://b/v2/events/stream HTTP/1.1\r\nHost: b\r\n\r\n'],
  ['another method', 'HEAD /v2/events/stream HTTP/1.1\r\nHost: b\r\n\r\n'],
  ['HTTP/1.0', 'GET /v2/events/stream HTTP/1.0\r\nHost: b\r\n\r\n'],
  ['no host', 'GET /v2/events/stream HTTP/1.1\r\nAccept: */*\r\n\r\n'],
  ['two hosts', `${REQUEST}Host: other\r\n\r\n`],
  ['a header twice', `${REQUEST}authorization: Bearer other\r\n\r\n`],
  ['a body', `${REQUEST}Content-Length: 3\r\n\r\nabc`],
  ['an announced body', `${REQUEST}Content-Length: 0\r\n\r\n`],
  ['chunks', `${REQUEST}Transfer-Encoding: chunked\r\n\r\n`],
  ['an upgrade', `${REQUEST}Upgrade: websocket\r\nConnection: upgrade\r\n\r\n`],
  ['a second request', `${REQUEST}\r\n${REQUEST}\r\n`],
  ['an unfinished head', REQUEST],
  ['a folded line', `${REQUEST}X: a\r\n b\r\n\r\n`],
  ['a space before the colon', `${REQUEST}X : a\r\n\r\n`],
  ['a bare line feed', `${REQUEST}X: a\nY: b\r\n\r\n`],
  ['other bytes than ASCII', `${REQUEST}X: é\r\n\r\n`],
  ['the name of a property', `${REQUEST}__proto__: a\r\n\r\n`],
  ['a long head', `${REQUEST}X: ${'a'.repeat(8_192)}\r\n\r\n`],
])('leaves a request with %s to node:http', (_, request) => {
  expect(readStreamHead(Buffer.from(request))).toBeUndefined()
})

const servers: Array<() => void> = []
afterEach(() => servers.splice(0).forEach((close) => close()))

async function serve(answer: http.RequestListener, on: 'bare socket' | 'node:http' = 'bare socket'): Promise<number> {
  const server = http.createServer(answer)
  const bare = makeBareConnections(server)
  if (on === 'bare socket') {
    server.removeAllListeners('connection')
    server.on('connection', (socket) => {
      socket.once('data', (bytes: Buffer) => {
        const head = readStreamHead(bytes)
        if (head !== undefined) bare.take(socket, head)
      })
    })
  }
  await once(server.listen(0, '127.0.0.1'), 'listening')
  servers.push(() => {
    bare.destroy()
    server.close().closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}

/** Starts a stream of `parts` and ends it. */
function stream(parts: readonly string[]): http.RequestListener {
  return (_, response) => {
    response.shouldKeepAlive = false
    response.removeHeader('transfer-encoding')
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('first ')
    if (!(response instanceof BareResponse)) return void response.end(parts.join(''))
    const socket = response.release()
    for (const part of parts) socket.write(part)
    socket.destroySoon()
  }
}

test('a stream and a refusal have the same bytes as through node:http', async () => {
  const refuse: http.RequestListener = (request, response) => {
    const { method, url, httpVersion, headers } = request
    response.shouldKeepAlive = false
    response.writeHead(401, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ method, url, httpVersion, headers, from: request.socket.remoteAddress }))
  }
  for (const answer of [stream(['second ', 'third']), refuse]) {
    const received = await Promise.all(
      (['bare socket', 'node:http'] as const).map(async (on) => {
        const client = net.connect(await serve(answer, on), '127.0.0.1')
        client.write(`${REQUEST}\r\n`)
        return (await text(client)).replace(/\r\nDate: .*/, '')
      }),
    )
    expect(received[0]).toBe(received[1])
    expect(received[0]).toContain('\r\nConnection: close\r\n')
  }
})

test('those who wait for the end of a response hear it once, when the stream has begun', async () => {
  const heard: string[] = []
  const port = await serve((request, response) => {
    response.on('finish', () => heard.push('finish')).on('close', () => heard.push('close'))
    stream(['second'])(request, response)
    heard.push('released')
  })
  const client = net.connect(port, '127.0.0.1')
  client.write(`${REQUEST}\r\n`)
  await text(client)
  expect(heard).toEqual(['finish', 'close', 'released'])
})

test('a second request on the connection is dropped', async () => {
  let asked = 0
  const port = await serve((_, response) => {
    asked += 1
    response.flushHeaders()
    response.socket?.once('data', () => response.end('first'))
  })
  const client = net.connect(port, '127.0.0.1')
  client.write(`${REQUEST}\r\n`)
  const [head] = (await once(client, 'data')) as [Buffer]
  expect(head.toString()).toMatch(/^HTTP\/1\.1 200 OK/)
  client.write(`${REQUEST}\r\n`)
  expect(await text(client)).toContain('first')
  expect(asked).toBe(1)
})

test('a client that closes its side ends the response', async () => {
  const seen = new EventEmitter()
  const port = await serve((_, response) => seen.emit('request', response))
  const client = net.connect(port, '127.0.0.1')
  client.write(`${REQUEST}\r\n`)
  const [response] = (await once(seen, 'request')) as [http.ServerResponse]
  client.end()
  await once(response, 'close')
  expect(response.destroyed).toBe(true)
})
