/** A client that still sends when its answer is complete: it gets the answer, and can use the connection again. */
import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import Fastify, { type FastifyInstance } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { readJsonBodies, type RefusedBodyLimits } from './request-body.ts'

const PIECE = Buffer.alloc(10_000, ' ')
const PIECES = 200
const PAUSES = 10

async function startServer(limits: RefusedBodyLimits): Promise<FastifyInstance> {
  const server = Fastify({ bodyLimit: 1_000 }) as unknown as FastifyInstance
  readJsonBodies(server, limits)
  server.setErrorHandler(async (error, _request, reply) => reply.code(413).send(error))
  server.post('/', async () => 'read')
  await server.listen({ port: 0, host: '127.0.0.1' })
  onTestFinished(() => server.close())
  return server
}

interface Client {
  readonly socket: Socket
  readonly statuses: () => string[]
}

async function announce(limits: RefusedBodyLimits, bytes: number): Promise<Client> {
  const server = await startServer(limits)
  const socket = net.connect((server.server.address() as AddressInfo).port, '127.0.0.1')
  let answers = ''
  socket.on('data', (text: Buffer) => (answers += text.toString())).on('error', () => {})
  await once(socket, 'connect')
  const client = {
    socket,
    statuses: () => Array.from(answers.matchAll(/HTTP\/1\.1 (\d+)/g), ([, status]) => status ?? ''),
  }
  socket.write(headOf(bytes))
  await waitFor('the refusal', () => client.statuses().length === 1)
  return client
}

function headOf(bytes: number): string {
  return `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n`
}

async function pause(ms: number): Promise<void> {
  const until = performance.now() + ms
  await waitFor('a pause', () => performance.now() >= until)
}

test('a body that takes longer than the silence that is allowed is read to its end', async () => {
  const silentMs = 1_000
  const { socket, statuses } = await announce({ silentMs, totalMs: 60_000 }, PIECES * PIECE.length)
  for (let piece = 0; piece < PIECES; piece += 1) {
    socket.write(PIECE)
    if (piece % (PIECES / PAUSES) === 0) await pause((3 * silentMs) / PAUSES)
  }
  socket.write(`${headOf(2)}{}`)
  await waitFor('the next answer on the connection', () => statuses().length === 2)
  expect(statuses()).toEqual(['413', '200'])
  socket.destroy()
})

test('a client that sends no more is cut off', async () => {
  const { socket, statuses } = await announce({ silentMs: 100, totalMs: 60_000 }, PIECES * PIECE.length)
  await waitFor('the end of the connection', () => socket.destroyed)
  expect(statuses()).toEqual(['413'])
})

test('a client that never comes to the end is cut off too', async () => {
  const totalMs = 1_000
  const { socket, statuses } = await announce({ silentMs: 200, totalMs }, 900_000_000)
  await waitFor('the end of the connection', () => {
    socket.write('x')
    return socket.destroyed
  })
  expect(statuses()).toEqual(['413'])
})
