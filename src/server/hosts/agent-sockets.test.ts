/** Only the holder of a host's key can connect, and nothing it sends delays or breaks other hosts. */
import { generateKeyPairSync, sign } from 'node:crypto'
import http from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { addMs } from '../../base/instant.ts'
import { openConnection } from '../../agent/connection.ts'
import { AGENT_PATH, agentStatement } from '../../contract/agent.ts'
import { SILENT_MS } from '../../domain/host.ts'
import { sampleSpec } from '../../drivers/conformance-bench.ts'
import { hostDriver } from '../../drivers/host/driver.ts'
import { findHost, setHostState } from '../../store/host/host.ts'
import { postgresHostWorld } from '../../store/host/host-world.ts'
import { transact } from '../../store/platform/database.ts'
import { startHostSockets, TestAgent, testOffer } from '../../../test/harness/host-sockets.ts'
import type { HostSockets, TestHost } from '../../../test/harness/host-sockets.ts'
import { pollDelay, waitFor } from '../../../test/harness/wait.ts'

/** Short enough to wait for a few, long enough for a busy machine to answer in time. */
const HEARTBEAT_MS = 800

let lab: HostSockets
let agents: TestAgent[] = []
let hosts = 0

beforeAll(async () => {
  lab = await startHostSockets({ heartbeatMs: HEARTBEAT_MS })
})
afterAll(() => lab.close())
afterEach(async () => {
  await Promise.all(agents.map((agent) => agent.end()))
  agents = []
  // The end of a session wakes loops, and the next test counts wake-ups.
  const open = () => lab.database.db.selectFrom('host').select('id').where('session', 'is not', null).execute()
  await waitFor('the sessions to end', async () => (await open()).length === 0)
  // Refusals are counted per minute.
  lab.clock.set(addMs(lab.clock.now(), 60_000))
})

const newHost = (): Promise<TestHost> => lab.addHost(`host-${(hosts += 1)}`)

function call(host: TestHost): TestAgent {
  const agent = new TestAgent(lab.httpUrl, host)
  agents.push(agent)
  return agent
}

function rowOf(host: TestHost) {
  return findHost(lab.database.db, host.id)
}

/** A host that is connected and has reported, so that workloads can be placed there. */
async function callSeen(host: TestHost): Promise<TestAgent> {
  const agent = await call(host).enter()
  agent.report({ generation: 1 })
  await waitFor('its report', async () => (await rowOf(host))?.seen_at === lab.clock.now())
  return agent
}

async function placeWorkload(host: TestHost, tag: string): Promise<string> {
  const world = postgresHostWorld(lab.database, { from: 21_000, to: 21_400 })
  const driver = hostDriver({ world, clock: lab.clock, relayHost: 'relay.test' })
  const spec = sampleSpec({ kind: 'container', ports: [], nodes: [{ machineId: host.id, gpuIndexes: [0] }] })
  const machine = await driver.create(tag, spec, new AbortController().signal)
  if (machine.kind !== 'created') throw new Error(machine.message)
  return machine.externalId
}

async function refusalOf(agent: TestAgent): Promise<string> {
  const { reason } = await agent.hear('refused')
  await waitFor('the end', () => agent.closed)
  return reason
}

test('welcomes a host that signs with its key, and sends it the desired state', async () => {
  const host = await newHost()
  const agent = await call(host).enter()
  expect(agent.messages.map((one) => one.type)).toEqual(['challenge', 'welcome', 'desired'])
  expect(agent.last('welcome')).toEqual({ type: 'welcome', heartbeatMs: HEARTBEAT_MS })
  expect(agent.last('desired')).toMatchObject({ generation: 1, state: 'ready', workloads: [] })
  expect(lab.links.ids()).toEqual([host.id])
  expect((await rowOf(host))?.session).not.toBeNull()
  expect(lab.woken).toContain('inventory')
  await agent.end()
  await waitFor('the end of the session', async () => (await rowOf(host))?.session === null)
  expect(lab.links.ids()).toEqual([])
})

test('welcomes the real agent, and opens streams to it', async () => {
  const host = await newHost()
  const generations: number[] = []
  const connection = openConnection({
    server: lab.httpUrl,
    hostId: host.id,
    installation: lab.app.installationId,
    key: {
      publicKey: '',
      answer: (installation, nonce) =>
        sign(null, Buffer.from(agentStatement(installation, nonce)), host.privateKey).toString('base64url'),
    },
    version: '0.0.0',
    report: () => ({ type: 'report', generation: 1, offer: testOffer, notes: ['it'], workloads: [], volumes: [] }),
    desired: ({ generation }) => generations.push(generation),
    accept: (_, stream) => void stream.pipe(stream),
    state: () => {},
  })
  await waitFor('its report', async () => generations.length > 0 && (await rowOf(host))?.notes[0] === 'it')
  const stream = lab.links.open(host.id, { kind: 'port', workloadId: 'w', port: 0 })
  if (stream === undefined) throw new Error('no link')
  stream.end('SSH-2.0-test')
  expect(await text(stream)).toBe('SSH-2.0-test')
  connection.close()
  await waitFor('its end', () => lab.links.get(host.id) === undefined)
})

test('refuses an unknown host, a wrong key and another host’s name in the same way', async () => {
  const [host, other] = [await newHost(), await newHost()]
  const { privateKey } = generateKeyPairSync('ed25519')
  for (const change of [{ hostId: 'nobody' }, { key: privateKey }, { hostId: other.id }, { signature: 'AAAA' }]) {
    const agent = call(host)
    await agent.hello(change)
    expect(await refusalOf(agent)).toBe('unknown_host')
  }
  expect(lab.links.ids()).toEqual([])
  expect(await lab.metrics.text()).toContain('berth_agent_refusals_total{reason="unknown_host"} 4')
})

test('refuses a signature made for another connection', async () => {
  const host = await newHost()
  const first = call(host)
  const messages: string[] = []
  const send = first.socket.send.bind(first.socket)
  first.socket.send = ((text: string) => (messages.push(text), send(text))) as WebSocket['send']
  await first.enter()
  const { signature } = JSON.parse(messages[0] ?? '') as { signature: string }
  const thief = call(host)
  await thief.hello({ signature })
  expect(await refusalOf(thief)).toBe('unknown_host')
  expect(first.closed).toBeUndefined()
})

test('replaces the first connection of a host by the second, and ends its streams', async () => {
  const host = await newHost()
  const first = await call(host).enter()
  const stream = lab.links.open(host.id, { kind: 'port', workloadId: 'x', port: 1 })
  const before = (await rowOf(host))?.session
  const second = await call(host).enter()
  await waitFor('the first to be removed', () => first.closed)
  expect(first.closed?.code).toBe(4_001)
  expect(stream?.destroyed).toBe(true)
  const row = await rowOf(host)
  expect(row?.session).not.toBe(before)
  expect(row?.session).not.toBeNull()
  second.report({ notes: ['of the second'] })
  await waitFor('its report', async () => (await rowOf(host))?.notes[0] === 'of the second')
})

test('rejects a report from a connection that was replaced elsewhere', async () => {
  const host = await newHost()
  const agent = await call(host).enter()
  const session = '00000000-0000-4000-8000-000000000000'
  await lab.database.db.updateTable('host').set({ session }).where('id', '=', host.id).execute()
  agent.report({ notes: ['too late'] })
  await waitFor('the end', () => agent.closed)
  expect(agent.closed?.code).toBe(4_001)
  expect(await rowOf(host)).toMatchObject({ notes: [], session })
  await lab.database.db.updateTable('host').set({ session: null }).where('id', '=', host.id).execute()
})

test('writes a report and wakes the loops; an equal report only counts as a heartbeat', async () => {
  const host = await newHost()
  const agent = await callSeen(host)
  const id = await placeWorkload(host, 'berth-test123-1-00')
  const workloads = [{ id, tag: 'berth-test123-1-00', state: 'running' as const, disks: [] }]
  lab.woken.length = 0
  agent.report({ generation: 2, workloads, offer: { ...testOffer, gpusSick: [1] } })
  const stateOf = () =>
    lab.database.db.selectFrom('workload_node').selectAll().where('workload_id', '=', id).executeTakeFirst()
  await waitFor('the report', async () => (await stateOf())?.state === 'running')
  await waitFor('both loops', () => lab.woken.includes('observe') && lab.woken.includes('inventory'))
  // If it were written again, this would be corrected.
  await lab.database.db.updateTable('workload_node').set({ state: 'starting' }).where('workload_id', '=', id).execute()
  lab.clock.set(addMs(lab.clock.now(), 5_000))
  lab.woken.length = 0
  agent.report({ generation: 2, workloads, offer: { ...testOffer, gpusSick: [1] } })
  await waitFor('the heartbeat', async () => (await rowOf(host))?.seen_at === lab.clock.now())
  expect((await stateOf())?.state).toBe('starting')
  expect(lab.woken).toEqual([])
})

test('puts a silent host back on sale at its next report', async () => {
  const host = await newHost()
  const agent = await call(host).enter()
  const offer = { ...testOffer, hardware: { ...testOffer.hardware, cpuCores: 3 } }
  agent.report({ generation: 1, offer })
  await waitFor('the report', async () => (await rowOf(host))?.offer.hardware.cpuCores === 3)
  lab.clock.set(addMs(lab.clock.now(), SILENT_MS + 1))
  lab.woken.length = 0
  agent.report({ generation: 1, offer })
  await waitFor('it', async () => (await rowOf(host))?.seen_at === lab.clock.now() && lab.woken.length > 0)
  expect(lab.woken).toContain('inventory')
})

test('sends the desired state when it changes, and again until the host has acted on it', async () => {
  const host = await newHost()
  const agent = await callSeen(host)
  await placeWorkload(host, 'berth-test123-2-00')
  const desired = await agent.hear('desired', (one) => one.generation === 2)
  expect(desired.workloads.map(({ tag, want }) => [tag, want])).toEqual([['berth-test123-2-00', 'run']])
  const reported = (): number => agent.messages.filter((one) => one.type === 'desired').length
  const before = reported()
  // Not often enough to count as a flood.
  await waitFor('a reminder', async () => (agent.report({ generation: 1 }), await pollDelay(), reported() > before))
  await transact(lab.database, (tx) => setHostState(tx, host.id, 'draining', null))
  await agent.hear('desired', (one) => one.state === 'draining')
})

test('keeps the last measurements', async () => {
  const host = await newHost()
  const agent = await call(host).enter()
  for (const cpuPercent of [10, 20, 30]) {
    agent.say({ type: 'metrics', gpus: [], cpuPercent, memoryUsedGb: 1, diskFreeGb: null })
  }
  const lastLog = await waitFor('the last', async () => {
    await lab.recorder.tick()
    const row = await rowOf(host)
    return row?.metrics?.cpuPercent === 30 ? row : undefined
  })
  expect(lastLog.metrics_at).toBe(lab.clock.now())
})

test('moves a host as its owner asks, but does not let it leave with tenants', async () => {
  const host = await newHost()
  const agent = await callSeen(host)
  await placeWorkload(host, 'berth-test123-3-00')
  agent.say({ type: 'move', to: 'draining' })
  await agent.hear('desired', (one) => one.state === 'draining')
  agent.say({ type: 'move', to: 'left' })
  expect(await agent.hear('refused')).toMatchObject({ reason: 'host_has_tenants' })
  agent.say({ type: 'move', to: 'ready' })
  await agent.hear('desired', (one) => one.state === 'ready')
  expect(agent.closed).toBeUndefined()
})

test.each([
  ['no JSON', (agent: TestAgent) => agent.socket.send('{'), 'bad_message'],
  ['no message of ours', (agent: TestAgent) => agent.socket.send('{"type":"nonsense"}'), 'bad_message'],
  ['a second hello', (agent: TestAgent) => void agent.hello(), 'bad_message'],
  ['a frame that makes no sense', (agent: TestAgent) => agent.socket.send(Buffer.from([9, 9])), 'bad_frame'],
  ['a stream', (agent: TestAgent) => void agent.mux.open({ kind: 'port' }), 'bad_frame'],
  [
    'a flood of pings',
    (agent: TestAgent) => {
      for (let at = 0; at < 200; at++) agent.socket.ping()
    },
    'too_many_messages',
  ],
  [
    'a flood',
    (agent: TestAgent) => {
      for (let at = 0; at < 200; at++) agent.report({ notes: [String(at)] })
    },
    'too_many_messages',
  ],
])('an agent that sends %s gets the reason and loses its connection, and no other does', async (_, act, reason) => {
  const [host, other] = [await newHost(), await newHost()]
  const good = await call(other).enter()
  const bad = await call(host).enter()
  act(bad)
  expect(await refusalOf(bad)).toBe(reason)
  await waitFor('its link to be removed', () => lab.links.get(host.id) === undefined)
  good.report({ notes: ['still here'] })
  await waitFor('the report of the other', async () => (await rowOf(other))?.notes[0] === 'still here')
})

test('closes the connection on a message over one megabyte, without reading it', async () => {
  const agent = await call(await newHost()).enter()
  agent.socket.send(JSON.stringify({ type: 'report', notes: ['x'.repeat(1_100_000)] }))
  await waitFor('the end', () => agent.closed)
  expect(agent.closed?.code).toBe(1_009)
})

test('ignores everything before the hello', async () => {
  const host = await newHost()
  const agent = call(host)
  await agent.hear('challenge')
  agent.report()
  expect(await refusalOf(agent)).toBe('bad_message')
  expect((await rowOf(host))?.seen_at).toBeNull()
})

test('disconnects a host that does not read its messages, before they fill the memory', async () => {
  const host = await newHost()
  const agent = await call(host).enter()
  agent.socket.pause()
  const stream = lab.links.open(host.id, { kind: 'terminal', workloadId: 'w', columns: 80, rows: 24, command: null })
  // A megabyte of signals at a time, faster than silence could be noticed.
  for (let sent = 0; sent < 64 && stream?.destroyed === false; sent += 1) {
    for (let at = 0; at < 64; at += 1) stream.sendSignal('x'.repeat(16_000))
  }
  expect(stream?.destroyed).toBe(true)
  await waitFor('its link to be removed', () => lab.links.get(host.id) === undefined)
  agent.socket.resume()
  await waitFor('the end', () => agent.closed)
})

test('answers pings', async () => {
  const agent = await call(await newHost()).enter()
  const answer = new Promise<string>((resolve) => agent.socket.once('pong', (data) => resolve(data.toString())))
  agent.socket.ping('here?')
  expect(await answer).toBe('here?')
})

test('rejects a report with another offering than the host joined with', async () => {
  const host = await newHost()
  const agent = await call(host).enter()
  agent.report({ offer: { ...testOffer, offering: 'virtual-machine', priceUsdPerGpuHour: null } })
  expect(await refusalOf(agent)).toBe('offering_changed')
  expect((await rowOf(host))?.offer.offering).toBe(testOffer.offering)
})

test('does not count reports of a host that cannot see its runtime', async () => {
  const host = await newHost()
  const agent = await callSeen(host)
  const seenAt = lab.clock.now()
  lab.clock.set(addMs(seenAt, 5_000))
  for (let at = 0; at < 3; at += 1) agent.report({ generation: 1, blind: true, notes: ['blind'] })
  await waitFor('its notes', async () => (await rowOf(host))?.notes[0] === 'blind')
  // Sent after the others, so once it is written, those were received.
  agent.report({ generation: 1, blind: true, notes: ['blind'] })
  agent.say({ type: 'metrics', gpus: [], cpuPercent: 42, memoryUsedGb: 1, diskFreeGb: null })
  const isSaved = async () => (await lab.recorder.tick(), (await rowOf(host))?.metrics?.cpuPercent === 42)
  await waitFor('what was said last', isSaved)
  // Unchanged reports are written every second.
  const neighbour = await newHost()
  const other = await callSeen(neighbour)
  lab.clock.set(addMs(lab.clock.now(), 1_000))
  other.report({ generation: 1 })
  await waitFor('a second of heartbeats', async () => (await rowOf(neighbour))?.seen_at === lab.clock.now())
  expect((await rowOf(host))?.seen_at).toBe(seenAt)
  lab.woken.length = 0
  lab.clock.set(addMs(seenAt, SILENT_MS + 1))
  agent.report({ generation: 1, notes: ['blind'] })
  await waitFor('the inventory to be taken', () => lab.woken.includes('inventory'))
  await waitFor('its last report', async () => (await rowOf(host))?.seen_at === lab.clock.now())
})

test('closes the connection of a silent agent', async () => {
  const host = await newHost()
  const agent = await call(host).enter()
  agent.socket.pause()
  await waitFor('its link to be removed', () => lab.links.get(host.id) === undefined)
  await waitFor('the end of the session', async () => (await rowOf(host))?.session === null)
  agent.socket.resume()
  await waitFor('the end', () => agent.closed)
  expect(agent.closed?.code).toBe(1_006)
})

test('refuses an address for a minute after many failed authentications', async () => {
  const host = await newHost()
  for (let at = 0; at < 60; at++) {
    const agent = call(host)
    await agent.hello({ signature: 'AAAA' })
    await refusalOf(agent)
  }
  const answer = await new Promise<number | undefined>((resolve) => {
    new WebSocket(`${lab.httpUrl.replace('http', 'ws')}${AGENT_PATH}`)
      .on('unexpected-response', (request, response) => {
        resolve(response.statusCode)
        request.destroy()
      })
      .on('error', () => {})
  })
  expect(answer).toBe(429)
  lab.clock.set(addMs(lab.clock.now(), 60_000))
  await call(host).enter()
})

test('answers upgrade requests for unknown protocols like any other request', async () => {
  const ask = (path: string, upgrade: string, body = ''): Promise<string> =>
    new Promise((resolve, reject) => {
      const request = http.request(`${lab.httpUrl}${path}`, {
        method: body === '' ? 'GET' : 'POST',
        headers: { Connection: 'Upgrade, HTTP2-Settings', Upgrade: upgrade, 'HTTP2-Settings': 'AAMAAABk' },
      })
      request.on('response', (response) => {
        text(response).then((body) => resolve(`${response.statusCode} ${body}`), reject)
      })
      request.on('error', reject)
      request.end(body)
    })
  expect(await ask('/healthz', 'h2c')).toBe('200 GET /healthz ')
  expect(await ask('/somewhere', 'websocket')).toBe('200 GET /somewhere ')
  expect(await ask(AGENT_PATH, 'h2c')).toBe(`200 GET ${AGENT_PATH} `)
  const body = 'x'.repeat(300_000)
  expect(await ask('/upload', 'h2c', body)).toBe(`200 POST /upload ${body}`)
})
