/**
 * Three servers over one database, behind one address. Wherever a host's agent is connected, its machines are reached
 * through every server; when a server is killed, they are reached again through the others, at the same addresses.
 */
import { once } from 'node:events'
import { mkdtemp } from 'node:fs/promises'
import net, { type AddressInfo, type Socket } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { toDate } from '../src/base/instant.ts'
import type { MuxStream } from '../src/base/net/mux.ts'
import type { StreamRequest } from '../src/contract/agent.ts'
import { insertHost, insertHostRental, TestAgent, type TestHost } from './harness/host-sockets.ts'
import { openTestAccount, startIdentityTest, type IdentityTest, type TestAccount } from './harness/identity.ts'
import { removeFolder } from './harness/leftover.ts'
import { ownPorts } from './harness/own-port.ts'
import { startServerProcess, type ServerProcess } from './lab/process.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('build')

const KILLS = 6
/** They share a port for the relay, so each has an address. */
const addresses = ['127.0.0.11', '127.0.0.12', '127.0.0.13']

let folder: string
let lab: IdentityTest
let owner: TestAccount
let rentalId: number
let relayPort: number
let agent: SteadyAgent
let balancer: net.Server
const servers = new Map<string, ServerProcess>()

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-servers-'))
  lab = await startIdentityTest()
  owner = await openTestAccount(lab)
  const host = await insertHost(lab, 'host-1')
  const { accountId, actor } = owner
  rentalId = await insertHostRental(lab, { accountId, personId: actor.personId, keyId: actor.keyId })
  relayPort = ownPorts()
  await place(relayPort)
  for (const address of addresses) await startServer(address)
  balancer = await startBalancer()
  agent = new SteadyAgent(`http://127.0.0.1:${(balancer.address() as AddressInfo).port}`, host)
})
afterAll(async () => {
  await agent.end()
  balancer.close()
  for (const server of servers.values()) await server.killTree()
  await lab.close()
  await removeFolder(folder)
})

async function startServer(address: string): Promise<void> {
  const server = await startServerProcess({
    DATABASE_URL: lab.url,
    BERTH_DATA_DIR: path.join(folder, address),
    BERTH_SECRET_KEY: 'the secret key of three servers for a test',
    BERTH_HOST: address,
    BERTH_PEER_PORT: '0',
    BERTH_RELAY_PORTS: `${relayPort}-${relayPort}`,
    BERTH_DRIVERS: 'host',
    // The rental is a row of this test: nothing may look after it.
    BERTH_ROLE: 'gateway',
  })
  servers.set(address, server)
}

/** Creates the workload of the rental with one public port, like a driver. */
async function place(port: number): Promise<void> {
  const { db } = lab.database
  const at = toDate(lab.clock.now())
  await db.insertInto('workload').values({ id: 'w1', driver: 'host', tag: 'w1', spec: null, created_at: at }).execute()
  const node = { workload_id: 'w1', host_id: 'host-1', node_index: 0, gpu_indexes: [], generation: 1n }
  await db.insertInto('workload_node').values(node).execute()
  await db.insertInto('relay_port').values({ port, workload_id: 'w1', target: 8_080 }).execute()
}

/** Connections go to any server that accepts them. */
async function startBalancer(): Promise<net.Server> {
  let turn = 0
  const server = net.createServer((client) => {
    turn += 1
    const live = [...servers.values()]
    const target = live[turn % live.length]
    client.on('error', () => {})
    if (target === undefined) return void client.destroy()
    const { hostname, port } = new URL(target.url)
    const upstream = net.connect({ host: hostname, port: Number(port) })
    upstream.on('error', () => client.destroy())
    upstream.once('close', () => client.destroy())
    client.once('close', () => upstream.destroy())
    client.pipe(upstream).pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

/** Connects again whenever it is cut off, like the agent of a host. Echoes what its machine gets. */
class SteadyAgent {
  #agent: TestAgent | undefined
  #isEnding = false
  readonly #url: string
  readonly #host: TestHost

  constructor(url: string, host: TestHost) {
    this.#url = url
    this.#host = host
    void this.#stay()
  }

  async end(): Promise<void> {
    this.#isEnding = true
    await this.#agent?.end()
  }

  async #stay(): Promise<void> {
    while (!this.#isEnding) {
      const agent = new TestAgent(this.#url, this.#host, (request, stream) => echo(request as StreamRequest, stream))
      this.#agent = agent
      const closed = once(agent.socket, 'close')
      await Promise.race([agent.enter().catch(() => {}), closed])
      await closed
    }
  }
}

function echo(request: StreamRequest, stream: MuxStream): void {
  if (request.kind === 'terminal') stream.write('ready')
  stream.pipe(stream)
}

/** The first bytes that a terminal shows, through one server. undefined: it was refused. */
function terminalThrough({ url }: ServerProcess): Promise<string | undefined> {
  const at = `${url.replace('http', 'ws')}/v2/rentals/${rentalId}/terminal`
  const socket = new WebSocket(at, { headers: { Authorization: `Bearer ${owner.keyText}` } })
  return new Promise((resolve) => {
    socket.once('message', (data: Buffer) => {
      resolve(data.toString())
      socket.terminate()
    })
    socket.once('error', () => resolve(undefined))
    socket.once('close', () => resolve(undefined))
  })
}

async function relayThrough(address: string): Promise<string | undefined> {
  const socket: Socket = net.connect({ host: address, port: relayPort })
  socket.on('error', () => {})
  socket.write('ping')
  const answer = new Promise<string | undefined>((resolve) => {
    socket.once('data', (data) => resolve(data.toString()))
    socket.once('close', () => resolve(undefined))
  })
  const said = await answer
  socket.destroy()
  return said
}

async function untilReached(): Promise<void> {
  for (const [address, server] of servers) {
    await waitFor(`a terminal through ${address}`, async () => (await terminalThrough(server)) === 'ready')
    await waitFor(`the port at ${address}`, async () => (await relayThrough(address)) === 'ping')
  }
}

/** The server that the agent is connected to. */
async function serverOfAgent(): Promise<string> {
  const { db } = lab.database
  const row = await waitFor('the agent to be connected', () =>
    db
      .selectFrom('host')
      .innerJoin('server', 'server.id', 'host.server_id')
      .select('server.address')
      .where('host.id', '=', 'host-1')
      .executeTakeFirst(),
  )
  return row.address.split(':')[0] ?? ''
}

test('terminals and ports of a host are reached through every server', async () => {
  await untilReached()
  expect(servers.size).toBe(3)
})

test(`${KILLS} kills of the server that has the agent: all is reached again, at the same addresses`, async () => {
  const killed = new Set<string>()
  for (let kill = 0; kill < KILLS; kill += 1) {
    const address = await serverOfAgent()
    const server = servers.get(address)
    if (server === undefined) throw new Error(`no server at ${address}`)
    servers.delete(address)
    killed.add(address)
    await server.killTree()
    await untilReached()
    await startServer(address)
    await untilReached()
  }
  expect(killed.size).toBeGreaterThan(1)
})
