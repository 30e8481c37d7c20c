import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { BodyBudget } from '../../domain/body-budget.ts'
import type { Caller, Reply } from '../call.ts'
import { makeFastPath, type FastPath } from './fast-path.ts'
import { waitFor } from '../../../test/harness/wait.ts'

/** More than both socket buffers hold. */
const ANSWER = 'x'.repeat(32_000_000)
const request = [
  'POST /v1/chat/completions HTTP/1.1',
  'Host: berth',
  'Authorization: Bearer key',
  'Content-Type: application/json',
  'Content-Length: 2',
  '',
  '{}',
].join('\r\n')
/** The body of a request whose answer is a stream that the test ends. */
const STREAM = '[]'
const caller: Caller = {
  accountId: 'acc_1',
  keyId: 'key_1',
  purse: { accountId: 'acc_1', apiKeyId: null },
  class: 'interactive',
  allowedModels: null,
  requestsPerMinute: 1,
  tokensPerMinute: null,
  account: { requestsPerMinute: 1, tokensPerMinute: 1, streams: 1, keepsBodies: false, storesResponses: true },
}

let fastPath: FastPath
let server: net.Server
let answered: number
let handedOver: number
let isRetiring: boolean
let streams: Reply[]
const clients: Socket[] = []

beforeEach(async () => {
  answered = 0
  handedOver = 0
  isRetiring = false
  streams = []
  fastPath = makeFastPath({
    gateway: {
      tryChat: (_caller, body, _headers, begin) => {
        const reply = begin({ limit: 1, remaining: 1, resetAt: 0 })
        if (body.toString() === STREAM) {
          reply.startStream('first')
          streams.push(reply)
        } else reply.send(200, 'text/plain', ANSWER)
        answered += 1
        return true
      },
      isOpenFor: () => true,
    },
    bodies: new BodyBudget({ totalBytes: 1_000_000, accountBytes: 1_000_000 }),
    identifier: () => () => caller,
    introduce: () => Promise.resolve(undefined),
    handOver: (socket) => {
      handedOver += 1
      socket.destroy()
    },
    isOther: (host) => host.endsWith('.apps'),
    page: () => ({ status: 500, body: '' }),
    now: () => 0,
    isRetiring: () => isRetiring,
  })
  server = net.createServer({ allowHalfOpen: true }, (socket) => fastPath.take(socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
})
afterEach(async () => {
  fastPath.destroy()
  for (const client of clients.splice(0)) client.destroy()
  server.close()
  await once(server, 'close')
})

async function connect(): Promise<Socket> {
  const client = net.connect((server.address() as AddressInfo).port, '127.0.0.1')
  clients.push(client)
  await once(client, 'connect')
  return client
}

test('a slow reader gets all of its answer, also during a shutdown', async () => {
  const [slow, idle] = [await connect(), await connect()]
  slow.pause()
  slow.write(request)
  await waitFor('the answer', () => answered === 1)
  const closed = fastPath.close()
  idle.resume()
  await waitFor('the silent connection to be closed', () => idle.closed)
  let bytes = 0
  let head = ''
  slow.on('data', (piece: Buffer) => {
    if (bytes === 0) head = piece.toString('latin1', 0, piece.indexOf('\r\n\r\n') + 4)
    bytes += piece.length
  })
  slow.resume()
  await closed
  await waitFor('the end of the answer', () => slow.closed)
  expect(head).toContain(`Content-Length: ${ANSWER.length}\r\n`)
  expect(bytes).toBe(head.length + ANSWER.length)
})

test('closes a connection while retiring only after an answer that said so', async () => {
  const client = await connect()
  let text = ''
  client.on('data', (piece: Buffer) => (text += piece.toString('latin1')))
  client.write(request.replace('{}', STREAM))
  await waitFor('the start of the stream', () => text.includes('first'))
  isRetiring = true
  streams[0]?.endStream('last')
  await waitFor('the end of the stream', () => text.endsWith('0\r\n\r\n'))
  expect(text).not.toContain('Connection: close')
  // The client may have sent its next request already.
  text = ''
  client.write(request.replace('{}', STREAM))
  await waitFor('the second stream', () => text.includes('first'))
  expect(text).toContain('Connection: close\r\n')
  streams[1]?.endStream('last')
  await waitFor('the connection to be closed', () => client.closed)
  expect(text.endsWith('0\r\n\r\n')).toBe(true)
})

test.each(['Host: a-80.apps', 'Host: berth\r\nX-Forwarded-Host: a-80.apps'])(
  'leaves chats with the application of a rental to it: %j',
  async (host) => {
    const client = await connect()
    client.write(request.replace('Host: berth', host))
    await waitFor('the end', () => client.closed || handedOver > 0)
    expect([answered, handedOver]).toEqual([0, 1])
  },
)
