/** Data sent to a public port arrives in the machine behind it, and the port closes with the machine. */
import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { toDate } from '../../base/instant.ts'
import type { MuxStream } from '../../base/net/mux.ts'
import { streamRequest, type StreamRequest } from '../../contract/agent.ts'
import { openRelay, type Relay } from './relay.ts'
import { startHostSockets, TestAgent, type HostSockets, type TestHost } from '../../../test/harness/host-sockets.ts'
import { waitFor } from '../../../test/harness/wait.ts'

let lab: HostSockets
let relay: Relay
let host: TestHost
let agent: TestAgent
let port: number
const requests: StreamRequest[] = []
const streams: MuxStream[] = []
/** How the machine behind the port handles a connection. */
let serve: (stream: Duplex) => void

beforeEach(async () => {
  lab = await startHostSockets()
  relay = openRelay({ app: lab.app, links: lab.links, host: '127.0.0.1', log: pino({ level: 'silent' }) })
  host = await lab.addHost('host-1')
  serve = (stream) => void stream.pipe(stream)
  requests.length = 0
  streams.length = 0
  agent = await connectAgent()
  port = await freePort()
  await place('w1', port, 8_080)
  await waitFor('the port', () => relay.ports().includes(port))
})
afterEach(async () => {
  await relay.close()
  await agent.end()
  await lab.close()
})

function connectAgent(): Promise<TestAgent> {
  const agent = new TestAgent(lab.httpUrl, host, (request, stream) => {
    requests.push(streamRequest.parse(request))
    streams.push(stream)
    serve(stream)
  })
  return agent.enter()
}

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** Creates a workload with one public port, like a driver. */
async function place(id: string, publicPort: number, target: number): Promise<void> {
  const { db } = lab.database
  await db
    .insertInto('workload')
    .values({ id, driver: 'host', tag: `tag-${id}`, spec: null, created_at: toDate(lab.clock.now()) })
    .execute()
  await db
    .insertInto('workload_node')
    .values({ workload_id: id, host_id: host.id, node_index: 0, gpu_indexes: [], generation: 1n })
    .execute()
  await db.insertInto('relay_port').values({ port: publicPort, workload_id: id, target }).execute()
  await bump()
}

/** Notifies the servers. */
async function bump(): Promise<void> {
  const { db } = lab.database
  await db
    .updateTable('host')
    .set((one) => ({ generation: one('generation', '+', 1n) }))
    .where('id', '=', host.id)
    .execute()
}

async function connect(to = port): Promise<Socket> {
  const socket = net.connect({ port: to, host: '127.0.0.1', allowHalfOpen: true })
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

function readAll(socket: Duplex): Promise<Buffer> {
  const pieces: Buffer[] = []
  return new Promise((resolve, reject) => {
    socket.on('data', (piece: Buffer) => void pieces.push(piece))
    socket.once('end', () => resolve(Buffer.concat(pieces)))
    socket.once('error', reject)
  })
}

test('relays bytes both ways to the target port', async () => {
  const socket = await connect()
  const got = readAll(socket)
  const sent = Buffer.alloc(3_000_000, 'berth')
  socket.end(sent)
  expect((await got).equals(sent)).toBe(true)
  expect(requests).toEqual([{ kind: 'port', workloadId: 'w1', port: 8_080 }])
  await waitFor('the stream to be over', () => agent.mux.streams === 0)
})

test('keeps concurrent connections apart', async () => {
  const echoes = await Promise.all(
    Array.from({ length: 60 }, async (_, at) => {
      const socket = await connect()
      const got = readAll(socket)
      socket.end(`connection ${at};`.repeat(2_000))
      return (await got).toString() === `connection ${at};`.repeat(2_000)
    }),
  )
  expect(echoes.every(Boolean)).toBe(true)
})

test('a side that has ended still receives', async () => {
  serve = (stream) => {
    stream.on('data', () => {})
    stream.once('end', () => stream.end('you said all you had'))
  }
  const socket = await connect()
  const got = readAll(socket)
  socket.end('hello')
  expect((await got).toString()).toBe('you said all you had')
})

test('a client that does not read slows down only its own connection', async () => {
  let sent = 0
  serve = (stream) => {
    const feed = (): void => {
      for (let room = true; room && sent < 100; sent += 1) room = stream.write(Buffer.alloc(1_000_000))
      if (sent >= 100) stream.end()
    }
    stream.on('drain', feed)
    feed()
  }
  const slow = await connect()
  slow.pause()
  await waitFor('it to begin', () => sent > 0)
  serve = (stream) => void stream.pipe(stream)
  const quick = await connect()
  const got = readAll(quick)
  quick.end(Buffer.alloc(2_000_000, 'q'))
  expect((await got).length).toBe(2_000_000)
  // The rest is in socket buffers and stream windows: only a small part of the data.
  expect(sent).toBeLessThan(50)
  let read = 0
  slow.on('data', (piece: Buffer) => (read += piece.length))
  slow.once('end', () => slow.end()).resume()
  await waitFor('all of it', () => read === 100_000_000)
})

test('closes a connection to a port that the machine does not answer on', async () => {
  serve = (stream) => void stream.destroy(new Error('connection refused'))
  const socket = await connect()
  await waitFor('the connection to be cut', () => socket.closed)
  expect(requests).toHaveLength(1)
})

test('closes the stream of a client that goes away', async () => {
  const socket = await connect()
  socket.write('x')
  const stream = await waitFor('the stream', () => streams[0])
  socket.resetAndDestroy()
  await waitFor('its end', () => stream.destroyed)
  expect(agent.mux.streams).toBe(0)
})

test('closes the port and connections of a workload that ends', async () => {
  const socket = await connect()
  socket.write('x')
  await once(socket, 'data')
  await lab.database.db.updateTable('workload').set({ want: 'gone' }).where('id', '=', 'w1').execute()
  await bump()
  await waitFor('the connection to be cut', () => socket.closed)
  expect(relay.ports()).toEqual([])
  await expect(connect()).rejects.toThrow('ECONNREFUSED')
  await waitFor('its stream to end', () => streams.every((stream) => stream.destroyed))
})

test('cuts old connections when a port goes to another workload', async () => {
  const socket = await connect()
  socket.write('x')
  await once(socket, 'data')
  await lab.database.db.deleteFrom('relay_port').execute()
  await place('w2', port, 0)
  await waitFor('the connection to be cut', () => socket.closed)
  await waitFor('the port', () => relay.ports().includes(port))
  const other = await connect()
  other.write('x')
  await once(other, 'data')
  expect(requests.at(-1)).toEqual({ kind: 'port', workloadId: 'w2', port: 0 })
  other.destroy()
})

test('closes a port without its host, and opens it again when the host returns', async () => {
  const socket = await connect()
  socket.write('x')
  await once(socket, 'data')
  await agent.end()
  await waitFor('the connection to be cut', () => socket.closed)
  await waitFor('the port to close', () => relay.ports().length === 0)
  agent = await connectAgent()
  await waitFor('the port', () => relay.ports().includes(port))
  const again = await connect()
  again.write('y')
  expect(String((await once(again, 'data'))[0])).toBe('y')
  again.destroy()
})

/** Opens connections to a port until one is closed; returns how many stay open. */
async function fill(to: number, most: number): Promise<Socket[]> {
  const stay: Socket[] = []
  for (let at = 0; at < most; at += 1) {
    const socket = net.connect({ port: to, host: '127.0.0.1' })
    // It may be reset before the connect event.
    socket.on('error', () => {})
    const isServed = new Promise<boolean>((resolve) => {
      socket.once('data', () => resolve(true))
      socket.once('close', () => resolve(false))
    })
    socket.write('x')
    if (!(await isServed)) break
    stay.push(socket)
  }
  return stay
}

test('limits a workload to its share of the host’s streams, with SSH apart', async () => {
  const [second, ssh, neighbour] = [await freePort(), await freePort(), await freePort()]
  const { db } = lab.database
  await db.insertInto('relay_port').values({ port: second, workload_id: 'w1', target: 8_081 }).execute()
  await db.insertInto('relay_port').values({ port: ssh, workload_id: 'w1', target: 0 }).execute()
  await place('w2', neighbour, 80)
  await relay.refresh()
  const first = await fill(port, 200)
  expect(first).toHaveLength(200)
  const more = await fill(second, 200)
  expect(more).toHaveLength(56)
  const logins = await fill(ssh, 100)
  expect(logins).toHaveLength(32)
  const others = await fill(neighbour, 300)
  expect(others).toHaveLength(256)
  expect(agent.mux.streams).toBe(256 + 32 + 256)
  // A finished connection frees its slot.
  first[0]?.destroy()
  await waitFor('its end', () => agent.mux.streams === 543)
  // The host may see the end before the relay has closed its own side.
  const again = await waitFor('a free slot', async () => {
    const stay = await fill(second, 10)
    return stay.length > 0 && stay
  })
  expect(again).toHaveLength(1)
  for (const socket of [...first, ...more, ...logins, ...others, ...again]) socket.destroy()
  await waitFor('the end of all', () => agent.mux.streams === 0)
})

test('leaves streams for SSH, logs and terminals', async () => {
  const ports = [port]
  for (const id of ['w2', 'w3', 'w4']) {
    const one = await freePort()
    await place(id, one, 80)
    ports.push(one)
  }
  const ssh = await freePort()
  await place('w5', ssh, 0)
  await relay.refresh()
  const counts: number[] = []
  const sockets: Socket[] = []
  for (const one of ports) {
    const stay = await fill(one, 250)
    counts.push(stay.length)
    sockets.push(...stay)
  }
  expect(counts).toEqual([250, 250, 140, 0])
  const logins = await fill(ssh, 3)
  expect(logins).toHaveLength(3)
  const logs = lab.links.open(host.id, { kind: 'logs', workloadId: 'w4', follow: true, tail: 0 })
  logs?.write('x')
  await once(logs as Duplex, 'data')
  logs?.destroy()
  for (const socket of [...sockets, ...logins]) socket.destroy()
  await waitFor('the end of all', () => agent.mux.streams === 0)
})

test('retries an occupied port until it is free', async () => {
  const other = net.createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const taken = (other.address() as AddressInfo).port
  await place('w3', taken, 22)
  await relay.refresh()
  expect(relay.ports()).toEqual([port])
  other.close()
  await once(other, 'close')
  await waitFor('the port', () => relay.ports().includes(taken))
})
