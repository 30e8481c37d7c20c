/**
 * A customer rents containers on real hosts and uses them: logs in, reads a page, a log and a terminal, ends them and
 * is billed. The engine, the registry, the agents and the SSH client are real; only the GPUs are declared.
 */
import net from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { parseInstant, systemClock, type Instant } from '../../src/base/instant.ts'
import { nanoUsdOf, usd, type NanoUsd } from '../../src/base/money.ts'
import { chargedFor, eventTypesOf, recountBooks, succeed } from '../harness/journey.ts'
import { startMachines, type ContainerHost, type Customer, type Machines } from '../harness/machines.ts'
import type { LabImage } from '../harness/registry-lab.ts'
import type { Call } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

const instances = '/v1/marketplace/instances'
const rentals = '/v2/alpha/on-demand/rentals'
const PAGE = 'a page from the inside\n'
const PORT = 8080
const PRICE = usd('0.40')
const FEE_PERCENT = 20
/** As often as engines are looked at, and the time for one look on a busy machine. */
const LOOK_MS = 10_000

let machines: Machines
let ada: Customer
let supplier: { id: string; call: Call }
let house: ContainerHost
let supplied: ContainerHost
let site: LabImage
let untilTold: LabImage

beforeAll(async () => {
  machines = await startMachines({ hosts: 1 })
  const { server, registry } = machines
  supplier = await server.account({ platformFeePercentage: FEE_PERCENT })
  const { token } = await succeed(supplier.call, 'POST', '/v2/supply/join-tokens', {})
  const [first] = machines.hosts
  if (first === undefined) throw new Error('there is no host')
  house = first
  supplied = await machines.addHost({ token })
  const page = await registry.layer({ 'www/index.html': PAGE })
  const serve = `echo hello from $HOSTNAME; exec httpd -f -v -p ${PORT} -h /www`
  site = await registry.push('lab/site', '1', [registry.busyboxLayer, page], ['/bin/sh', '-c', serve])
  const wait = 'until [ -e /tmp/end ]; do sleep 0.1; done; echo told to end; exit 3'
  untilTold = await registry.push('lab/until-told', '1', [registry.busyboxLayer], ['/bin/sh', '-c', wait])
  ada = await machines.customer()
}, 120_000)
afterAll(() => machines.close())

interface Instance {
  readonly id: string
  readonly start: string
  readonly sshCommand: string
  readonly rental_id: number
  readonly portMappings: ReadonlyArray<{ domain: string; protocol: string; port: number }>
  readonly instance: { readonly status: string }
}

async function rent(host: ContainerHost, image: LabImage, by = ada): Promise<string> {
  const node = { cluster_name: 'lab', node_name: host.id, gpu_count: 1 }
  const made = await succeed(by.call, 'POST', `${instances}/create`, { ...node, image: { ...image, port: PORT } })
  return made.instance_id
}

async function instanceOf(name: string): Promise<Instance | undefined> {
  const listed = await succeed(ada.call, 'GET', instances)
  return (listed.instances as Instance[]).find((one) => one.id === name)
}

async function untilStatus(name: string, status: string): Promise<Instance> {
  return waitFor(`${name} to be ${status}`, async () => {
    const found = await instanceOf(name)
    return found?.instance.status === status && found
  })
}

const detail = (name: string | number) => succeed(ada.call, 'GET', `${rentals}/${name}`)

async function listingOf(host: ContainerHost) {
  const { instances: listed } = await succeed(machines.server.nobody, 'POST', '/v1/marketplace', { filters: {} })
  return (listed as Array<{ id: string }>).find((one) => one.id === host.id)
}

/** By the rule of the documentation, and not by our code. */
function costOf(startedAt: Instant, endedAt: Instant): NanoUsd {
  return nanoUsdOf((PRICE * BigInt(endedAt - startedAt)) / 3_600_000n)
}

function instantOf(text: string | null): Instant {
  const instant = text === null ? undefined : parseInstant(text)
  if (instant === undefined) throw new Error(`${text} is no time`)
  return instant
}

async function segmentOf(rentalId: number) {
  const { db } = machines.server.app.database
  return db.selectFrom('segment').selectAll().where('rental_id', '=', rentalId).executeTakeFirstOrThrow()
}

const isOpen = (host: string, port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = net.connect({ host, port })
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('close', () => socket.destroy())
    socket.once('connect', () => socket.destroy())
  })

let first: Instance
let second: Instance

test('two customers’ machines on one host come online beside each other, each with a GPU of its own', async () => {
  expect(await listingOf(supplied)).toMatchObject({
    gpus_total: 2,
    gpus_reserved: 0,
    network: { simulated: true },
    supplier_id: supplier.id,
    pricing: { price: { amount: 0.4, period: 'hourly' } },
  })
  const names = [await rent(supplied, site), await rent(supplied, site)]
  const both = await Promise.all(names.map((name) => untilStatus(name, 'online')))
  first = both[0] as Instance
  second = both[1] as Instance
  const relayHost = new URL(machines.server.url).hostname
  for (const one of both) {
    expect(one.sshCommand).toMatch(new RegExp(`^ssh root@${relayHost.replaceAll('.', '\\.')} -p \\d+$`))
    expect(one.portMappings).toMatchObject([{ domain: relayHost, protocol: 'tcp', port: expect.any(Number) }])
  }
  expect(first.sshCommand).not.toBe(second.sshCommand)
  const gpus = await Promise.all(both.map((one) => ada.ssh(one.sshCommand, 'echo', '$BERTH_GPUS')))
  expect(gpus.map((ran) => ran.out.trim()).sort()).toEqual(['0', '1'])
  expect(await listingOf(supplied)).toMatchObject({ gpus_total: 2, gpus_reserved: 2, reserved: true })
  expect(await listingOf(house)).toMatchObject({ gpus_total: 2, gpus_reserved: 0 })
})

test('the printed command logs in and sees its share of the machine; another account’s key does not', async () => {
  const cores = await ada.ssh(first.sshCommand, 'nproc')
  const share = (await detail(first.id)).providerData.resources.vcpuCount
  expect([cores.code, cores.out.trim(), cores.error]).toEqual([0, String(Math.ceil(share)), ''])
  const eve = await machines.customer()
  const refused = await eve.ssh(first.sshCommand, 'nproc')
  expect([refused.code, refused.out]).toEqual([255, ''])
  expect(refused.error).toContain('Permission denied')
})

test('its page is read through the port mapping, and the same address stands in the v2 detail', async () => {
  const [mapping] = first.portMappings
  const address = `${mapping?.domain}:${mapping?.port}`
  expect(await (await fetch(`http://${address}/`)).text()).toBe(PAGE)
  expect((await detail(first.rental_id)).portMappings).toEqual([
    { port: PORT, host: mapping?.domain, publicPort: mapping?.port },
  ])
})

test('its log is read whole and followed as it grows', async () => {
  const whole = await ada.call('GET', `${rentals}/${first.id}/logs`)
  expect([whole.status, whole.body]).toEqual([200, expect.stringContaining('hello from berth-w-')])
  const control = new AbortController()
  const followed = await fetch(`${machines.server.url}${rentals}/${first.id}/logs?follow=true&tail=0`, {
    headers: { Authorization: `Bearer ${ada.key}` },
    signal: control.signal,
  })
  if (followed.body === null) throw new Error('the log has no body')
  const [mapping] = first.portMappings
  await fetch(`http://${mapping?.domain}:${mapping?.port}/no-such-page`)
  let seen = ''
  for await (const piece of followed.body.pipeThrough(new TextDecoderStream())) {
    seen += piece
    // The web server's line about that request.
    if (seen.includes('404')) break
  }
  control.abort()
  expect(seen).not.toContain('hello from')
})

test('a terminal over a WebSocket: a shell, its size, its exit code', async () => {
  const url = `${machines.server.url.replace('http', 'ws')}${rentals}/${first.rental_id}/terminal?columns=101&rows=31`
  const socket = new WebSocket(url, { headers: { Authorization: `Bearer ${ada.key}` } })
  let bytes = ''
  let exit: unknown
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) bytes += data.toString()
    else exit = JSON.parse(data.toString())
  })
  const closed = new Promise((resolve) => socket.once('close', resolve))
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  socket.send(Buffer.from('stty size\n'))
  await waitFor('the size of the terminal', () => bytes.includes('31 101'))
  socket.send(JSON.stringify({ columns: 61, rows: 21 }))
  await waitFor('its new size', async () => {
    socket.send(Buffer.from('stty size\n'))
    await new Promise((resolve) => socket.once('message', resolve))
    return bytes.includes('21 61')
  })
  socket.send(Buffer.from('exit 7\n'))
  await closed
  expect(exit).toEqual({ exitCode: 7 })
})

test('the metrics of its own GPU are there, and say that nothing is measured of a GPU that is declared', async () => {
  const { gpus, reason } = await succeed(ada.call, 'GET', `${rentals}/${first.id}/metrics`)
  const ran = await ada.ssh(first.sshCommand, 'echo', '$BERTH_GPUS')
  expect([reason, gpus.length]).toEqual([null, 1])
  expect(gpus).toMatchObject([
    { machineId: supplied.id, gpuIndex: Number(ran.out), utilizationPercent: null, powerWatts: null },
  ])
})

test('an end: the container and its network are gone, its ports closed, and the bill is right to the nano-dollar', async () => {
  const before = systemClock.now()
  await succeed(ada.call, 'POST', `${instances}/terminate`, { id: first.id })
  const after = systemClock.now()
  const ended = await waitFor('it to be gone', async () => {
    const shown = await detail(first.rental_id)
    return shown.status === 'Terminated' && shown
  })
  const requestedAt = instantOf(ended.terminateRequestedAt)
  expect(before <= requestedAt && requestedAt <= after).toBe(true)
  const cost = costOf(instantOf(first.start), requestedAt)
  expect(await chargedFor(ada.call, { rentalId: first.rental_id })).toBe(cost)
  expect(usd(ended.costSoFarUsd)).toBe(cost)

  const left = (await supplied.ours()).filter((name) => name !== undefined)
  // The other one runs on, with its network.
  expect(left).toHaveLength(2)
  expect(new Set(left).size).toBe(1)
  const ports = [...first.portMappings.map((one) => one.port), Number(first.sshCommand.split(' ').at(-1))]
  const host = new URL(machines.server.url).hostname
  for (const port of ports) await waitFor(`port ${port} to be closed`, async () => !(await isOpen(host, port)))
  const { instance_history: history } = await succeed(ada.call, 'GET', `${instances}/history`)
  expect(history).toMatchObject([
    { instance_name: first.id, started_at: first.start, gpu_count: 1, price: { amount: 0.4, period: 'hourly' } },
  ])
  expect(await listingOf(supplied)).toMatchObject({ gpus_reserved: 1, reserved: false })

  await succeed(ada.call, 'POST', `${instances}/terminate`, { id: second.id })
  const other = await waitFor('the other one to be gone', async () => {
    const shown = await detail(second.rental_id)
    return shown.status === 'Terminated' && shown
  })
  const otherCost = costOf(instantOf(second.start), instantOf(other.terminateRequestedAt))
  expect(await chargedFor(ada.call, { rentalId: second.rental_id })).toBe(otherCost)
  expect(await supplied.ours()).toEqual([])

  // The supplier has the rest of each bill after the fee; parts of a nano-dollar stay with the house.
  const kept = (amount: NanoUsd): bigint => (amount * BigInt(100 - FEE_PERCENT)) / 100n
  const earnings = await succeed(supplier.call, 'GET', '/v2/supply/earnings')
  expect(usd(earnings.unpaidUsd)).toBe(kept(cost) + kept(otherCost))
  expect(earnings.machines).toMatchObject([{ id: supplied.id, earnedUsd: earnings.unpaidUsd }])
})

test('an image that is not there: failed with the reason, nothing is charged, and the GPU is free again', async () => {
  const name = await rent(house, { name: `${machines.registry.address}/lab/nobody-has-this`, tag: '1' })
  await untilStatus(name, 'failed')
  const failed = await detail(name)
  expect([failed.statusReason, failed.statusMessage]).toEqual([
    'image_not_found',
    `There is no image ${machines.registry.address}/lab/nobody-has-this:1, or it is not public.`,
  ])
  expect([await chargedFor(ada.call, { rentalId: failed.id }), failed.costSoFarUsd]).toEqual([0n, '0.000000000'])
  await waitFor('the GPU to be free', async () => (await listingOf(house))?.gpus_reserved === 0)
  expect(await house.ours()).toEqual([])
  await succeed(ada.call, 'POST', `${instances}/terminate`, { id: name })
})

test('a process that ends: failed with its exit code, told, and paid for as long as it was seen to run', async () => {
  const name = await rent(house, untilTold)
  const online = await untilStatus(name, 'online')
  const toldAt = systemClock.now()
  await ada.ssh(online.sshCommand, 'touch', '/tmp/end')
  await untilStatus(name, 'failed')
  const failed = await detail(name)
  expect([failed.statusReason, failed.statusMessage]).toEqual(['process_exited', 'Its process ended with exit code 3.'])
  expect(failed.events[0]).toMatchObject({ type: 'rental.failed', data: { reason: 'process_exited' } })
  const segment = await segmentOf(failed.id)
  const endedAt = segment.ended_at ?? systemClock.now()
  // The last look that showed it running, never a moment after the process was seen to have ended.
  expect(endedAt).toBeGreaterThan(toldAt - LOOK_MS)
  expect(endedAt).toBeLessThanOrEqual(instantOf(failed.statusSince))
  expect(await chargedFor(ada.call, { rentalId: failed.id })).toBe(costOf(instantOf(online.start), endedAt))
  await waitFor('the GPU to be free', async () => (await listingOf(house))?.gpus_reserved === 0)
  expect(await house.ours()).toEqual([])
  expect(await eventTypesOf(ada.call, `rental:${failed.id}`)).toEqual([
    'rental.created',
    'rental.running',
    'rental.failed',
  ])
})

test('after all of it the books recount and no engine has anything that they do not have', async () => {
  expect(await recountBooks(machines.server)).toEqual([])
  const { heldUsd } = await succeed(ada.call, 'GET', '/v2/customer/balance')
  expect(heldUsd).toBe('0.000000000')
})
