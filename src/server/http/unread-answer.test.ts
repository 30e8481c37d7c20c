/** Over real connections: the answer must be longer than the socket buffers. */
import { once } from 'node:events'
import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { endUnread } from './unread-answer.ts'

const UNREAD_MS = 50
const ANSWER_BYTES = 32_000_000

let server: http.Server
let ends: number

beforeAll(async () => {
  server = http.createServer((request, response) => {
    response.once('close', () => (ends += 1))
    endUnread(response, request.url === '/patient' ? 60_000 : UNREAD_MS)
    response.end(Buffer.alloc(ANSWER_BYTES))
  })
  // Long enough for a busy machine to send the next request.
  server.keepAliveTimeout = 60_000
  await once(server.listen(0, '127.0.0.1'), 'listening')
})

afterAll(() => {
  server.closeAllConnections()
  server.close()
})

async function ask(path: string): Promise<net.Socket> {
  ends = 0
  const client = net.connect((server.address() as AddressInfo).port, '127.0.0.1')
  // A cut connection may end with a reset.
  client.on('error', () => {})
  client.pause()
  client.write(`GET ${path} HTTP/1.1\r\nHost: berth\r\n\r\n`)
  await once(client, 'connect')
  return client
}

test('cuts off a client that reads nothing of its answer', async () => {
  const client = await ask('/')
  await waitFor('the end', () => ends > 0)
  let bytes = 0
  client.on('data', (part) => (bytes += part.length)).resume()
  await waitFor('its close', () => client.closed)
  expect(bytes).toBeLessThan(ANSWER_BYTES)
})

test('a client that reads gets everything, and may reuse the connection', async () => {
  const client = await ask('/patient')
  let bytes = 0
  client.on('data', (part) => (bytes += part.length)).resume()
  await waitFor('all of it', () => bytes > ANSWER_BYTES)
  await waitFor('its end', () => ends > 0)
  expect(client.closed).toBe(false)
  client.write('GET /patient HTTP/1.1\r\nHost: berth\r\n\r\n')
  await waitFor('all of the second', () => bytes > 2 * ANSWER_BYTES)
  client.destroy()
})
