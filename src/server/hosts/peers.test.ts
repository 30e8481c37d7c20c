/** A host connected to one server is reached through every other, by servers that know the secret key only. */
import { once } from 'node:events'
import net from 'node:net'
import { buffer } from 'node:stream/consumers'
import tls from 'node:tls'
import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { MuxStream } from '../../base/net/mux.ts'
import { makeVault } from '../../base/vault.ts'
import { listHostPlaces } from '../../store/platform/server.ts'
import { startHostSockets, TestAgent, type HostSockets, type TestHost } from '../../../test/harness/host-sockets.ts'
import { TEST_SECRETS } from '../../../test/harness/identity.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { makeHostLinks, type HostLinks } from './host-links.ts'
import { openPeers, type Peers } from './peers.ts'

const log = pino({ level: 'silent' })
const listen = { host: '127.0.0.1', port: 0, publicHost: '127.0.0.1' }
const request = { kind: 'port', workloadId: 'w1', port: 8_080 } as const

let lab: HostSockets
let host: TestHost
let agent: TestAgent
let other: { readonly links: HostLinks; readonly peers: Peers }
const opened: Array<{ readonly request: unknown; readonly stream: MuxStream }> = []
/** Plays the host's end of a stream. */
let serve: (stream: MuxStream) => void

beforeEach(async () => {
  lab = await startHostSockets({ hasPeers: true })
  host = await lab.addHost('host-1')
  other = await openOther()
  opened.length = 0
  serve = (stream) => void stream.pipe(stream)
  agent = await connectAgent()
  await waitFor('the other server to know the host', () => other.links.reachableIds().includes('host-1'))
})
afterEach(async () => {
  await agent.end()
  await other.peers.close()
  await lab.close()
})

async function openOther(vault = lab.app.vault): Promise<{ links: HostLinks; peers: Peers }> {
  const links = makeHostLinks()
  return { links, peers: await openPeers({ app: { ...lab.app, vault }, links, log, listen }) }
}

function connectAgent(): Promise<TestAgent> {
  const accept = (request: unknown, stream: MuxStream): void => {
    opened.push({ request: request, stream })
    serve(stream)
  }
  return new TestAgent(lab.httpUrl, host, accept).enter()
}

function open(links = other.links): MuxStream {
  const stream = links.open('host-1', request)
  if (stream === undefined) throw new Error('there is no way to the host')
  return stream
}

test('carries bytes both ways, each direction ending separately, and leaves nothing open', async () => {
  const stream = open()
  const got = buffer(stream)
  const sent = Buffer.alloc(5_000_000, 'berth')
  stream.end(sent)
  expect((await got).equals(sent)).toBe(true)
  expect(opened.map((one) => one.request)).toEqual([request])
  await waitFor('the stream to be over', () => agent.mux.streams === 0)
})

test('carries signals both ways', async () => {
  serve = (stream) => stream.on('signal', (value) => stream.sendSignal({ heard: value }))
  const stream = open()
  stream.sendSignal({ resize: [80, 24] })
  expect(await once(stream, 'signal')).toEqual([{ heard: { resize: [80, 24] } }])
  stream.destroy()
  await waitFor('the stream of the host to end', () => agent.mux.streams === 0)
})

test('a host that refuses, and a host that leaves, end the stream with an error', async () => {
  serve = (stream) => void stream.destroy(new Error('nothing listens on port 8080'))
  const [refused] = (await once(open(), 'error')) as [Error]
  expect(refused.message).toBe('nothing listens on port 8080')
  serve = () => {}
  const stream = open()
  await waitFor('the stream', () => agent.mux.streams === 1)
  const ended = once(stream, 'error')
  await agent.end()
  await ended
  await waitFor('the other server to forget the host', () => other.links.get('host-1') === undefined)
  agent = await connectAgent()
  await waitFor('the other server to find the host', () => other.links.get('host-1'))
})

test('a host that moves to another server is reached there, and not forwarded twice', async () => {
  const third = await openOther()
  await waitFor('the third server to know the host', () => third.links.get('host-1'))
  const { db } = lab.database
  await db.updateTable('host').set({ server_id: other.peers.serverId }).where('id', '=', 'host-1').execute()
  await waitFor('the first server to look elsewhere', () => lab.links.reachableIds().includes('host-1'))
  // The server that is asked then does not have the host, and does not ask the first one in turn.
  await waitFor('the third server to look elsewhere', async () => {
    const stream = open(third.links)
    stream.write('x')
    const failure = await once(stream, 'data').catch((error: Error) => error)
    stream.destroy()
    return failure instanceof Error && failure.message === 'the host is not connected to this server'
  })
  expect(third.links.ids()).toEqual([])
  await third.peers.close()
})

test('servers reach each other while the secret key changes', async () => {
  const next = await openOther(makeVault(TEST_SECRETS.next, [TEST_SECRETS.own]))
  await waitFor('the next server to know the host', () => next.links.reachableIds().includes('host-1'))
  const stream = open(next.links)
  const got = buffer(stream)
  stream.end('hello')
  expect((await got).toString()).toBe('hello')
  await next.peers.close()
})

test('a server with another secret key reaches nothing, and no one without it gets beyond the handshake', async () => {
  const stranger = await openOther(makeVault('another secret'))
  await waitFor('the stranger to know the host', () => stranger.links.reachableIds().includes('host-1'))
  await once(open(stranger.links), 'error')
  await stranger.peers.close()
  const [place] = await listHostPlaces(lab.database.db, 'host-1')
  const { hostname, port } = new URL(`http://${place?.server.address}`)
  const plain = net.connect({ host: hostname, port: Number(port) })
  plain.write('GET /peer HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
  plain.on('error', () => {})
  await once(plain, 'close')
  const anonymous = tls.connect({ host: hostname, port: Number(port), rejectUnauthorized: false })
  await once(anonymous, 'error')
  expect(opened).toEqual([])
})

test('a server that ends is forgotten at once, and its hosts with it', async () => {
  await other.peers.close()
  const servers = await lab.database.db.selectFrom('server').selectAll().execute()
  expect(servers).toHaveLength(1)
  other = await openOther()
  await waitFor('the new server to know the host', () => other.links.get('host-1'))
})
