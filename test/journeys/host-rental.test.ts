/**
 * A machine joins, is rented and used, and only its customer can see it. The agent is simulated; other suites cover
 * what runs on a host.
 */
import { generateKeyPairSync } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../src/base/instant.ts'
import type { MuxStream } from '../../src/base/net/mux.ts'
import { streamRequest, type HostOffer, type HostReport, type Observation } from '../../src/contract/agent.ts'
import { HEARTBEAT_MS } from '../../src/domain/host.ts'
import { TestAgent, testOffer } from '../harness/host-sockets.ts'
import { succeed } from '../harness/journey.ts'
import { testServer, type Call, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

let server: TestServer
let customer: { id: string; key: string; call: Call }
let stranger: { id: string; key: string; call: Call }
const agents: TestAgent[] = []
/** Keeps sending heartbeats as agents do: a silent host counts as offline. */
const beats: NodeJS.Timeout[] = []

beforeAll(async () => {
  server = await testServer({ env: { BERTH_DRIVERS: 'mock,host' } })
  customer = await server.account({ usd: '1000' })
  stranger = await server.account({ usd: '1000' })
})
afterEach(async () => {
  for (const beat of beats.splice(0)) clearInterval(beat)
  for (const agent of agents.splice(0)) await agent.end()
})
afterAll(() => server.close())

interface Joined {
  readonly id: string
  readonly agent: TestAgent
  /** Reports the state of the one desired workload. */
  report(state: Observation['state'], more?: Partial<Observation>): Promise<void>
  /** Repeats the last report with these broken GPUs. */
  reportFaults(gpuFaults: HostReport['gpuFaults']): void
  /** Reports that the workload is gone. */
  reportGone(generation: number): void
}

async function joinMachine(name: string, offer: HostOffer): Promise<Joined> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const { token } = await succeed(server.operator, 'POST', '/v2/supply/join-tokens', {})
  const body = { token, name, offer, publicKey: publicKey.export({ format: 'jwk' }).x }
  const { hostId } = await succeed(server.anonymous, 'POST', '/v2/agent/join', body)
  const agent = await new TestAgent(server.url, { id: hostId, privateKey }, answerStream).enter()
  agents.push(agent)
  let last: Parameters<TestAgent['report']>[0] = { offer }
  const say = (report: typeof last): void => {
    last = report
    agent.report(report)
  }
  say({ offer })
  beats.push(setInterval(() => agent.report(last), HEARTBEAT_MS))
  await waitFor('the machine to be on sale', async () => {
    const { machines } = await succeed(server.operator, 'GET', '/v2/operator/machines?limit=1000')
    return (machines as Array<{ id: string; status: string }>).some(
      (machine) => machine.id === hostId && machine.status === 'node_ready',
    )
  })
  return {
    id: hostId,
    agent,
    report: async (state, more = {}) => {
      const desired = await agent.hear('desired', ({ workloads }) => workloads.length === 1)
      const [{ id, tag } = { id: '', tag: '' }] = desired.workloads
      const workloads = [{ id, tag, state, disks: [], ...more }]
      say({ generation: desired.generation, offer, workloads })
    },
    reportFaults: (gpuFaults) => say({ ...last, gpuFaults }),
    reportGone: (generation) => say({ generation, offer }),
  }
}

/** A machine that writes three log lines. */
function answerStream(request: unknown, stream: MuxStream): void {
  const asked = streamRequest.parse(request)
  if (asked.kind !== 'logs') return void stream.destroy()
  const lines = ['one', 'two', 'three'].slice(-asked.tail)
  stream.end(`${lines.join('\n')}\n${asked.follow ? 'and so on\n' : ''}`)
}

const instanceOf = async (by: Call, name: string) => {
  const { instances } = await succeed(by, 'GET', '/v1/marketplace/instances')
  return (instances as Array<Record<string, unknown> & { id: string; instance: { status: string } }>).find(
    (one) => one.id === name,
  )
}

test('a container on a joined machine: wait reason, ports, log, GPU metrics, end', async () => {
  const host = await joinMachine('pier-1', testOffer)
  const { instances: listed } = await succeed(server.anonymous, 'POST', '/v1/marketplace', {
    filters: { cluster_name: 'lab' },
  })
  expect(listed).toMatchObject([
    { id: 'pier-1', gpus_total: 2, network: { type: 'ethernet', simulated: true }, supplier_id: 'house' },
  ])
  const { instance_name: name } = await succeed(customer.call, 'POST', '/v1/marketplace/instances/create', {
    cluster_name: 'lab',
    node_name: 'pier-1',
    gpu_count: 1,
    image: { name: 'debian', tag: '12', port: 8080, ports: [9000] },
  })
  const pulling = 'pulling debian:12, 34 of 120 MB'
  await host.report('starting', { message: pulling })
  const waiting = await waitFor('its wait reason', async () => {
    const instance = await instanceOf(customer.call, name)
    return instance?.['status_message'] === pulling && instance
  })
  expect(waiting).toMatchObject({ instance: { status: 'starting' }, portMappings: [], sshCommand: '' })
  const path = `/v2/rentals/${name}`
  const early = await customer.call('GET', `${path}/logs`)
  expect([early.status, early.body.reason]).toEqual([400, 'not_running'])
  const unmeasured = await succeed(customer.call, 'GET', `${path}/metrics`)
  expect(unmeasured).toMatchObject({ gpus: [], reason: expect.stringContaining('yet') })

  await host.report('running', { sshUser: 'root' })
  const running = await waitFor('it to be online', async () => {
    const instance = await instanceOf(customer.call, name)
    return instance?.instance.status === 'online' && instance
  })
  const rows = await server.app.database.db.selectFrom('relay_port').selectAll().execute()
  const portTo = (target: number) => rows.find((row) => row.target === target)?.port
  expect(running).toMatchObject({
    sshCommand: `ssh root@127.0.0.1 -p ${portTo(0)}`,
    portMappings: [8080, 9000].map((port) => ({ domain: '127.0.0.1', protocol: 'tcp', port: portTo(port) })),
  })
  expect(running['status_message']).toBeUndefined()

  const logs = await customer.call('GET', `${path}/logs?tail=2`)
  expect([logs.status, logs.headers.get('content-type'), logs.body]).toEqual([
    200,
    'text/plain; charset=utf-8',
    'two\nthree\n',
  ])
  const byId = `/v2/rentals/${String(unmeasured.rentalId)}`
  expect((await customer.call('GET', `${byId}/logs?follow=true`)).body).toBe('one\ntwo\nthree\nand so on\n')
  for (const what of ['logs', 'metrics']) {
    expect((await stranger.call('GET', `${path}/${what}`)).status).toBe(404)
    expect((await server.operator('GET', `${byId}/${what}`)).status).toBe(404)
  }

  const measured = { utilizationPercent: 97, memoryUsedMib: 20_000, memoryTotalMib: 24_564, powerWatts: 400 }
  const gpus = [0, 1].map((index) => ({ index, ...measured, temperatureCelsius: 60 + index }))
  host.agent.say({ type: 'metrics', gpus, cpuPercent: 3, memoryUsedGb: 1, diskFreeGb: 40 })
  const claim = await server.app.database.db.selectFrom('gpu_claim').selectAll().executeTakeFirstOrThrow()
  const seen = await waitFor('the measurements', async () => {
    const answer = await succeed(customer.call, 'GET', `${path}/metrics`)
    return answer.gpus.length > 0 && answer
  })
  // Its own GPU, not the machine's other one.
  expect(seen).toEqual({
    rentalId: unmeasured.rentalId,
    gpus: [
      {
        machineId: 'pier-1',
        gpuIndex: claim.gpu_index,
        at: expect.stringMatching(/Z$/),
        ...measured,
        temperatureCelsius: 60 + claim.gpu_index,
      },
    ],
    reason: null,
    machines: [],
    simulated: false,
  })
  const { hosts } = await succeed(server.operator, 'GET', '/v2/supply/hosts')
  expect(hosts).toMatchObject([{ id: 'pier-1', tenants: 1, isSilent: false, metrics: { gpus, cpuPercent: 3 } }])
  const leaving = await server.operator('PATCH', '/v2/supply/hosts/pier-1', { state: 'left' })
  expect([leaving.status, leaving.body.reason]).toEqual([400, 'host_has_tenants'])
  const removed = await server.operator('PATCH', '/v2/operator/hosts/pier-1', { action: 'remove', reason: 'old' })
  expect([removed.status, removed.body.reason]).toEqual([400, 'host_has_tenants'])

  await succeed(customer.call, 'POST', '/v1/marketplace/instances/terminate', { id: name })
  const ended = await host.agent.hear('desired', ({ workloads }) => workloads[0]?.want === 'gone')
  host.reportGone(ended.generation)
  await waitFor('it to be gone', async () => {
    const { state } = await succeed(customer.call, 'GET', `/v2/rentals/${name}`)
    return state === 'Terminated'
  })
  expect(await succeed(customer.call, 'GET', `${byId}/metrics`)).toMatchObject({
    gpus: [],
    reason: expect.stringContaining('ended'),
  })
})

const order = { gpuCount: 1, region: 'mock-region', gpuType: 'h100', customPorts: [8888, 8889] }
const demand = { machineType: 'virtual-machine', region: 'mock-region', gpuType: 'h100', networkType: 'ethernet' }
const virtual: HostOffer = {
  ...testOffer,
  offering: 'virtual-machine',
  region: 'mock-region',
  clusterName: 'hall',
  gpuType: 'h100',
  gpusTotal: 1,
  priceUsdPerGpuHour: null,
}

test('promise 43: the tenant of a broken GPU is told, sees it, and pays nothing for it', async () => {
  const host = await joinMachine('pier-2', testOffer)
  const { instance_name: name } = await succeed(customer.call, 'POST', '/v1/marketplace/instances/create', {
    cluster_name: 'lab',
    node_name: 'pier-2',
    gpu_count: 2,
    image: { name: 'debian', tag: '12' },
  })
  await host.report('running', { sshUser: 'root' })
  const detail = () => succeed(customer.call, 'GET', `/v2/rentals/${name}`)
  await waitFor('it to run', async () => (await detail()).state === 'Running')
  const xid = { at: systemClock.now(), message: 'the driver reported Xid 79 (fallen off the bus)' }
  host.reportFaults([0, 1].map((index) => ({ index, ...xid })))
  const broken = await waitFor('its fault', async () => {
    const shown = await detail()
    return shown.statusMessage !== null && shown
  })
  expect(broken.statusMessage).toBe(`GPUs 0, 1 are broken and cost nothing: ${xid.message}.`)
  const { events } = await succeed(customer.call, 'GET', `/v2/events?subject=rental:${broken.id}&type=rental.gpu_fault`)
  expect(events).toMatchObject([{ data: { costPerHourUsd: '0.000000000' } }, { data: { detail: xid.message } }])
  const { notifications } = await succeed(customer.call, 'GET', '/v2/notifications')
  expect(notifications[0]).toMatchObject({
    kind: 'rental_gpu',
    text: expect.stringContaining('It costs nothing since'),
  })
  host.reportFaults([])
  await waitFor('it to work again', async () => (await detail()).statusMessage === null)
})

test('a virtual machine goes to a real host before a simulated one, and to the next engine when it is full', async () => {
  const host = await joinMachine('hall-1', virtual)
  const rentals = '/v2/alpha/on-demand'
  const explain = () => succeed(server.operator, 'POST', '/v2/operator/placement', { ...demand, gpuCount: 1 })
  const before = await explain()
  expect([before.found, before.price]).toEqual([true, 'found'])
  const drivers = before.candidates.map((one: { driver: string }) => one.driver)
  expect([drivers[0], new Set(drivers.slice(1))]).toEqual(['host', new Set(['mock'])])

  const first = await succeed(customer.call, 'POST', `${rentals}/virtual-machine-rentals`, order)
  expect(first.providerData).toMatchObject({ providerId: 'host', resources: { vcpuCount: 2, ramGb: 8 } })
  const second = await succeed(customer.call, 'POST', `${rentals}/virtual-machine-rentals`, order)
  expect(second.providerData).toMatchObject({ providerId: 'mock' })
  const after = await explain()
  expect(after.candidates[0].driver).toBe('mock')
  expect(after.rejected[0]).toEqual({
    machineId: 'hall-1',
    driver: 'host',
    reason: 'too_few_free',
    detail: '0 of 1 GPUs are free, 0 cannot be sold',
  })

  const detail = (id: number) => succeed(customer.call, 'GET', `${rentals}/rentals/${id}`)
  await host.report('starting', { message: 'fetching the image' })
  await waitFor('its wait reason', async () => (await detail(first.id)).statusMessage === 'fetching the image')
  await host.report('running', { sshUser: 'ubuntu' })
  const running = await waitFor('it to run', async () => {
    const shown = await detail(first.id)
    return shown.status === 'Running' && shown
  })
  const publicPorts = running.portMappings.map((one: { publicPort: number }) => one.publicPort)
  expect(running.portMappings).toEqual(
    order.customPorts.map((port, n) => ({ port, host: '127.0.0.1', publicPort: publicPorts[n] })),
  )
  expect(new Set([...publicPorts, running.providerData.sshNetworking[0].port]).size).toBe(3)
  expect(running.statusMessage).toBeNull()
  // A simulated machine has its own address and no log.
  const simulated = await waitFor('the other one to run', async () => {
    const shown = await detail(second.id)
    return shown.status === 'Running' && shown
  })
  expect(simulated.portMappings.map((one: { publicPort: number }) => one.publicPort)).toEqual(order.customPorts)
  const noLogs = await customer.call('GET', `/v2/rentals/${second.id}/logs?follow=true`)
  expect(noLogs).toMatchObject({ status: 400, body: { reason: 'simulated_machine' } })

  await host.report('failed', { failure: 'out_of_memory', message: 'The guest took all memory of the host' })
  const failed = await waitFor('it to fail', async () => {
    const shown = await detail(first.id)
    return shown.status === 'Failed' && shown
  })
  expect(failed).toMatchObject({
    statusReason: 'out_of_memory',
    statusMessage: 'The guest took all memory of the host',
    portMappings: [],
  })
})

test('volume options show the largest size where volumes are host disks; simulated ones have no maximum', async () => {
  // Overcommitted a thousand times here: 50 and 20 TB, each on its own host.
  await joinMachine('hall-3', { ...virtual, region: 'ca-west-1' })
  await joinMachine('hall-4', { ...virtual, region: 'ca-west-1', hardware: { ...virtual.hardware, storageGb: 20 } })
  const options = await succeed(server.anonymous, 'GET', '/v2/alpha/on-demand/storage-options')
  const roomIn = (region: string) => options.find((one: { region: string }) => one.region === region).availableGb
  expect([roomIn('ca-west-1'), roomIn('us-central-1')]).toEqual([50_000, null])
})

test('an order that no engine can serve is free', async () => {
  // A hold shrinks while something runs; the available balance changes only when money is set aside.
  const available = async (): Promise<string> =>
    (await succeed(customer.call, 'GET', '/v2/customer/balance')).availableUsd
  const before = await available()
  await joinMachine('hall-2', { ...virtual, region: 'jp-east-1' })
  const small = { ...order, region: 'jp-east-1', gpuCount: 8 }
  const refused = await customer.call('POST', '/v2/alpha/on-demand/virtual-machine-rentals', small)
  const report = await succeed(server.operator, 'POST', '/v2/operator/placement', {
    ...demand,
    region: 'jp-east-1',
    gpuCount: 8,
  })
  expect([refused.status, refused.body.reason, report.found]).toEqual([400, 'no_capacity', false])
  const why = (id: string) => report.rejected.find((one: { machineId: string }) => one.machineId === id)
  expect(why('hall-2')).toMatchObject({ reason: 'other_size', detail: 'has 1 GPUs' })
  expect(await available()).toBe(before)
})

test('the host of an interruptible container is told when it ends', async () => {
  const host = await joinMachine('pier-9', testOffer)
  const price = { pricePerGpuHourUsd: '1', interruptiblePricePerGpuHourUsd: '0.5' }
  await succeed(server.operator, 'PATCH', '/v2/supply/machines/pier-9', price)
  const image = { name: 'debian', tag: '12' }
  // The disk of the interrupted rental is kept beside that of the other.
  const order = { kind: 'container', machineId: 'pier-9', gpuCount: 2, diskGb: 5, image }
  const { id } = await succeed(customer.call, 'POST', '/v2/rentals', { ...order, interruptible: true })
  await host.report('running', { sshUser: 'root' })
  await waitFor('it to run', async () => (await succeed(customer.call, 'GET', `/v2/rentals/${id}`)).state === 'Running')
  const started = await host.agent.hear('desired', ({ workloads }) => workloads.length === 1)
  expect(started.workloads[0]).toMatchObject({ spec: { interruptible: true } })
  const waiting = await succeed(stranger.call, 'POST', '/v2/rentals', { ...order, gpuCount: 1, maxWaitSeconds: 150 })
  const { interruptible } = await succeed(customer.call, 'GET', `/v2/rentals/${id}`)
  const told = await host.agent.hear('desired', ({ workloads }) => workloads[0]?.endsAt !== undefined)
  expect(told.workloads).toMatchObject([{ want: 'run', power: 'on', endsAt: Date.parse(interruptible.endsAt) }])
  await succeed(stranger.call, 'DELETE', `/v2/rentals/${waiting.id}`)
  await succeed(customer.call, 'DELETE', `/v2/rentals/${id}`)
  const { generation } = await host.agent.hear('desired', ({ workloads }) => workloads[0]?.want === 'gone')
  host.reportGone(generation)
})
