/**
 * A customer rents containers on real hosts and uses them: SSH, a web page, the log and a terminal, until they end and
 * are billed. The engine, the registry, the agents and the SSH client are real; only the GPUs are declared.
 */
import { rm, writeFile } from 'node:fs/promises'
import { readdirSync, readFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { addMs, systemClock, toDate } from '../../src/base/instant.ts'
import { usd, type NanoUsd } from '../../src/base/money.ts'
import { watchIdle } from '../../src/reconcile/idle.ts'
import { whyNoDockerLab } from '../lab/docker-lab.ts'
import {
  charged,
  costOf,
  dueForInstance,
  eventData,
  eventsOf,
  findInstance,
  instancesPath,
  instantOf,
  isPortOpen,
  listingOf,
  rentalIdOf,
  rentInstance,
  rentOnline,
  sshPortOf,
  terminate,
  untilGone,
  untilStatus,
  type Instance,
} from '../harness/instance.ts'
import { checkLedgerAndEngines, succeed } from '../harness/journey.ts'
import { startMachines, type ContainerHost, type Customer, type Machines, type Ran } from '../lab/machines.ts'
import type { LabImage } from '../lab/registry-lab.ts'
import type { Call } from '../harness/server.ts'
import { passForReal } from '../harness/simulated-machine.ts'
import { waitFor } from '../harness/wait.ts'
import { askWebApp, pushWebApp, talkToWebApp } from '../harness/web-app.ts'
import { needs } from '../needs.ts'

needs('docker', 'build')

const rentals = '/v2/rentals'
const volumesPath = '/v2/alpha/on-demand/storage-volumes'
const PAGE = 'a page from the inside\n'
const PORT = 8080
const APPS_DOMAIN = 'apps.example.test'
const FEE_PERCENT = 20
/** The polling interval of engines plus the time for one poll on a busy machine. */
const POLL_MS = 10_000

const why = whyNoDockerLab()
const skipped = why === undefined ? '' : ` (skipped: ${why})`

describe.skipIf(why !== undefined)(`containers from order to bill${skipped}`, () => {
  let machines: Machines
  let ada: Customer
  let supplier: { id: string; call: Call }
  let house: ContainerHost
  let supplied: ContainerHost
  let site: LabImage & { port: number }
  let endsOnRequest: LabImage

  beforeAll(async () => {
    machines = await startMachines({
      hosts: 1,
      env: { BERTH_APPS_DOMAIN: `http://${APPS_DOMAIN}`, BERTH_STORAGE_OVERCOMMIT: '1000' },
    })
    const { server, registry } = machines
    supplier = await server.account({ platformFeePercentage: FEE_PERCENT })
    const { token } = await succeed(supplier.call, 'POST', '/v2/supply/join-tokens', {})
    const [first] = machines.hosts
    if (first === undefined) throw new Error('there is no host')
    house = first
    supplied = await machines.addHost({ token })
    const page = await registry.layer({ 'www/index.html': PAGE })
    const serve = `echo hello from $HOSTNAME; exec httpd -f -v -p ${PORT} -h /www`
    const pushed = await registry.push('lab/site', '1', [registry.busyboxLayer, page], ['/bin/sh', '-c', serve])
    site = { ...pushed, port: PORT }
    const wait = 'until [ -e /tmp/end ]; do sleep 0.1; done; echo ending; exit 3'
    endsOnRequest = await registry.push('lab/ends-on-request', '1', [registry.busyboxLayer], ['/bin/sh', '-c', wait])
    ada = await machines.customer()
  }, 120_000)
  afterAll(() => machines.close())

  let first: Instance
  let second: Instance

  function pageOf({ portMappings: [mapping] }: Instance): string {
    return `http://${mapping?.domain}:${mapping?.port}/`
  }

  test('two instances start side by side on one host, each with its own GPU', async () => {
    expect(await listingOf(machines.server, supplied)).toMatchObject({
      gpus_total: 2,
      gpus_reserved: 0,
      network: { simulated: true },
      supplier_id: supplier.id,
      pricing: { price: { amount: 0.4, period: 'hourly' } },
    })
    const both = await Promise.all([rentOnline(ada, supplied, site), rentOnline(ada, supplied, site)])
    ;[first, second] = both
    const relayHost = new URL(machines.server.url).hostname
    for (const one of both) {
      expect(one.sshCommand).toMatch(new RegExp(`^ssh root@${relayHost.replaceAll('.', '\\.')} -p \\d+$`))
      expect(one.portMappings).toMatchObject([{ domain: relayHost, protocol: 'tcp', port: expect.any(Number) }])
    }
    expect(first.sshCommand).not.toBe(second.sshCommand)
    const gpus = await Promise.all(both.map((one) => ada.ssh(one.sshCommand, 'echo', '$BERTH_GPUS')))
    expect(gpus.map((ran) => ran.out.trim()).sort()).toEqual(['0', '1'])
    expect(await listingOf(machines.server, supplied)).toMatchObject({
      gpus_total: 2,
      gpus_reserved: 2,
      reserved: true,
    })
    expect(await listingOf(machines.server, house)).toMatchObject({ gpus_total: 2, gpus_reserved: 0 })
  })

  test('the printed SSH command logs in to its share of the machine; another account’s key does not', async () => {
    const cores = await ada.ssh(first.sshCommand, 'nproc')
    // One of two GPUs: half of the machine.
    expect([cores.code, cores.out.trim(), cores.error]).toEqual([
      0,
      String(Math.ceil(os.availableParallelism() / 2)),
      '',
    ])
    const eve = await machines.customer()
    const refused = await eve.ssh(first.sshCommand, 'nproc')
    expect([refused.code, refused.out]).toEqual([255, ''])
    expect(refused.error).toContain('Permission denied')
  })

  test('serves its page through the port mapping', async () => {
    for (const one of [first, second]) {
      // The process in the container may take a moment to listen.
      const page = await waitFor('its web server to answer', () => fetch(pageOf(one)).catch(() => undefined))
      expect(await page.text()).toBe(PAGE)
    }
  })

  test('returns the whole log and follows it as it grows', async () => {
    const whole = await ada.call('GET', `${rentals}/${first.id}/logs`)
    expect([whole.status, whole.body]).toEqual([200, expect.stringContaining('hello from berth-w-')])
    const control = new AbortController()
    const followed = await fetch(`${machines.server.url}${rentals}/${first.id}/logs?follow=true&tail=0`, {
      headers: { Authorization: `Bearer ${ada.key}` },
      signal: control.signal,
    })
    let seen = ''
    const reading = (async () => {
      for await (const piece of followed.body?.pipeThrough(new TextDecoderStream()) ?? []) seen += piece
    })()
    // The response starts before the host has opened the log, so a single line could be too early.
    await waitFor('the web server’s line about a request', async () => {
      await fetch(`${pageOf(first)}no-such-page`)
      return seen.includes('404')
    })
    control.abort()
    await expect(reading).rejects.toThrow('aborted')
    expect(seen).not.toContain('hello from')
  })

  test('a terminal over WebSocket has a shell, a size and an exit code', async () => {
    const terminal = `${rentals}/${await rentalIdOf(ada, first)}/terminal?columns=101&rows=31`
    const url = `${machines.server.url.replace('http', 'ws')}${terminal}`
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

  test('reports metrics of its own GPU, and that a declared GPU has no measurements', async () => {
    // A host measures every few seconds, not immediately.
    const { gpus, reason } = await waitFor('its host to have measured', async () => {
      const answer = await succeed(ada.call, 'GET', `${rentals}/${first.id}/metrics`)
      return answer.gpus.length > 0 && answer
    })
    const ran = await ada.ssh(first.sshCommand, 'echo', '$BERTH_GPUS')
    expect([reason, gpus.length]).toEqual([null, 1])
    expect(gpus).toMatchObject([
      { machineId: supplied.id, gpuIndex: Number(ran.out), utilizationPercent: null, powerWatts: null },
    ])
  })

  test('ending it removes the container and its network, closes its ports and bills to the nano-dollar', async () => {
    const before = systemClock.now()
    await terminate(ada, first.id)
    const after = systemClock.now()
    await untilGone(ada, first.id)
    const requestedAt = instantOf((await eventData(ada, first, 'rental.terminating'))['at'])
    expect(before <= requestedAt && requestedAt <= after).toBe(true)
    const cost = await dueForInstance(ada, first)
    expect(await charged(ada, first)).toBe(cost)
    const left = await supplied.ours()
    // The other instance keeps running, with its network of the same name.
    expect([left.length, new Set(left).size]).toEqual([2, 1])
    const host = new URL(machines.server.url).hostname
    for (const port of [sshPortOf(first), ...first.portMappings.map((one) => one.port)]) {
      await waitFor(`port ${port} to be closed`, async () => !(await isPortOpen(host, port)))
    }
    const { instance_history: history } = await succeed(ada.call, 'GET', `${instancesPath}/history`)
    expect(history).toMatchObject([
      { instance_name: first.id, started_at: first.start, gpu_count: 1, price: { amount: 0.4, period: 'hourly' } },
    ])
    expect(await listingOf(machines.server, supplied)).toMatchObject({ gpus_reserved: 1, reserved: false })

    await terminate(ada, second.id)
    await untilGone(ada, second.id)
    const otherCost = await dueForInstance(ada, second)
    expect(await charged(ada, second)).toBe(otherCost)
    expect(await supplied.ours()).toEqual([])

    // The supplier gets each charge minus the fee; fractions of a nano-dollar stay with Berth.
    const shareOf = (amount: NanoUsd): bigint => (amount * BigInt(100 - FEE_PERCENT)) / 100n
    const earnings = await succeed(supplier.call, 'GET', '/v2/supply/earnings')
    expect(usd(earnings.unpaidUsd)).toBe(shareOf(cost) + shareOf(otherCost))
    expect(earnings.machines).toMatchObject([{ id: supplied.id, earnedUsd: earnings.unpaidUsd }])
  })

  test('a stopped instance keeps its disk and pays for nothing else, and starts where it was (issue 31, A)', async () => {
    const stoppable = await rentOnline(ada, house, site)
    const power = (act: 'stop' | 'start', body?: object) =>
      succeed(ada.call, 'POST', `${rentals}/${stoppable.id}/${act}`, body)
    const detail = () => succeed(ada.call, 'GET', `/v2/rentals/${stoppable.id}`)
    // Removing so many files takes the daemon a while, in which the container is on its way to another GPU.
    const write = 'echo mine >/root/file; mkdir /root/many; cd /root/many; seq 1 20000 | xargs -n 500 touch; sync'
    expect((await ada.ssh(stoppable.sshCommand, write)).code).toBe(0)
    expect(await power('stop')).toMatchObject({ state: 'Stopping' })
    await untilStatus(ada, stoppable.id, 'stopped')
    expect(await listingOf(machines.server, house)).toMatchObject({ gpus_reserved: 0 })
    const host = new URL(machines.server.url).hostname
    await waitFor('its SSH port to be closed', async () => !(await isPortOpen(host, sshPortOf(stoppable))))

    // Its GPU is taken meanwhile: it starts on the other one, with the same disk, name and address.
    const other = await rentOnline(ada, house)
    await power('start', {})
    const again = await untilStatus(ada, stoppable.id, 'online')
    expect(again.sshCommand).toBe(stoppable.sshCommand)
    const ran = await ada.ssh(again.sshCommand, 'cat /root/file; ls /root/many | wc -l; echo $BERTH_GPUS')
    expect([ran.code, ran.out]).toEqual([0, 'mine\n20000\n1\n'])
    const events = (await eventsOf(ada, stoppable)).map(({ type }) => type)
    expect(events).not.toContain('rental.start_failed')
    expect(events).not.toContain('rental.failed')
    for (const id of [stoppable.id, other.id]) await terminate(ada, id)
    for (const id of [stoppable.id, other.id]) await untilGone(ada, id)

    const { id, stoppedCostPerHourUsd } = await detail()
    const segments = await machines.server.app.database.db
      .selectFrom('segment')
      .select(['started_at', 'ended_at', 'while_stopped', 'settled_nano'])
      .where('rental_id', '=', id)
      .orderBy('started_at')
      .execute()
    const diskPrice = usd(stoppedCostPerHourUsd)
    const costs = segments.map(({ started_at: from, ended_at: until, while_stopped: isOff }) => {
      if (until === null) throw new Error('it has ended')
      return isOff ? (diskPrice * BigInt(until - from)) / 3_600_000n : costOf(from, until)
    })
    expect(segments.map((one) => one.while_stopped)).toEqual([false, true, false])
    expect(segments.slice(1).map((one) => one.started_at)).toEqual(segments.slice(0, -1).map((one) => one.ended_at))
    expect(segments.map((one) => one.settled_nano)).toEqual(costs)
    expect(await charged(ada, stoppable)).toBe(costs.reduce((sum, cost) => sum + cost, 0n))
    expect(await house.ours()).toEqual([])
  })

  test('an HTTP port is reached by its name, by those who may, with WebSockets, and ready once it answers', async () => {
    const { server, registry } = machines
    const image = await pushWebApp(registry, PORT)
    const ports = [{ port: PORT, protocol: 'http', healthPath: '/health' }]
    const name = await rentInstance(ada, house, image, { ports })
    const online = await untilStatus(ada, name, 'online')
    // It is not relayed: its public port would have no access control.
    expect(online.portMappings).toEqual([])
    const detail = () => succeed(ada.call, 'GET', `/v2/rentals/${name}`)
    const url = `http://${name}-${PORT}.${APPS_DOMAIN}`
    await waitFor('a failed health check', async () => (await detail()).ports[0].healthy === false)
    expect(await detail()).toMatchObject({
      state: 'Running',
      ready: false,
      ports: [{ port: PORT, protocol: 'http', access: 'private', url, healthPath: '/health' }],
    })
    const asKey = { Authorization: `Bearer ${ada.key}` }
    const early = await askWebApp(server.url, url, { ...asKey, Accept: 'text/html' })
    expect([early.status, early.body]).toEqual([502, expect.stringContaining(`port ${PORT}`)])
    expect((await ada.ssh(online.sshCommand, 'touch', '/tmp/start')).code).toBe(0)
    await waitFor('a successful health check', async () => (await detail()).ready === true)

    const { url: link } = await succeed(ada.call, 'POST', `${rentals}/${name}/ports/${PORT}/open`, { path: '/lab' })
    const opened = await askWebApp(server.url, link)
    expect([opened.status, opened.headers.location]).toEqual([303, `${url}/lab`])
    const cookie = String(opened.headers['set-cookie']).split(';')[0] ?? ''
    const page = await askWebApp(server.url, `${url}/lab?a=b`, { Cookie: `${cookie}; own=1`, Referer: url })
    expect([page.status, page.body.split('\n')[0]]).toEqual([200, 'GET /lab?a=b HTTP/1.1'])
    expect(page.body).toContain(`Host: ${name}-${PORT}.${APPS_DOMAIN}\n`)
    expect(page.body).toContain('Cookie: own=1\n')
    expect(page.body).not.toContain(cookie)
    expect(await talkToWebApp(server.url, `${url}/socket`, { Cookie: cookie, Origin: url })).toEqual(['hello', 'seen'])

    const { token, id } = await succeed(ada.call, 'POST', `${rentals}/${name}/ports/${PORT}/tokens`, { name: 'ci' })
    const asToken = { Authorization: `Bearer ${token}` }
    const byToken = await askWebApp(server.url, url, asToken)
    expect([byToken.status, byToken.body.includes(token)]).toEqual([200, false])
    await succeed(ada.call, 'DELETE', `${rentals}/${name}/ports/${PORT}/tokens/${id}`)
    const eve = await machines.customer()
    for (const headers of [{}, asToken, { Authorization: `Bearer ${eve.key}` }]) {
      expect((await askWebApp(server.url, url, headers)).status).toBe(404)
    }
    await terminate(ada, name)
    await waitFor('its end', async () => (await askWebApp(server.url, url, asKey)).status === 503)
    await untilGone(ada, name)
  })

  test('a volume keeps its data from one container to the next, has one writer or readers, and grows', async () => {
    const storage = [{ region: 'us-central-1', perGbHourUsd: '0.0001', enabled: true }]
    await succeed(machines.server.operator, 'PUT', '/v2/operator/price-book', { storage, reason: 'for the test' })
    const order = { region: 'us-central-1', label: 'datasets', sizeInGb: 256, nodeName: house.id }
    const { storageVolumeId: id } = await succeed(ada.call, 'POST', volumesPath, order)
    const volume = async () =>
      (await succeed(ada.call, 'GET', volumesPath)).find((one: { id: number }) => one.id === id)
    await waitFor('the volume', async () => (await volume()).status === 'active')
    expect(await volume()).toMatchObject({ nodeName: house.id, mounts: [] })
    const mount = (readOnly: boolean) => ({ volumes: [{ volumeId: id, path: '/data/sets', readOnly }] })
    const refusalOf = async (host: ContainerHost, readOnly: boolean) => {
      const body = { cluster_name: 'lab', node_name: host.id, gpu_count: 1, image: null, ...mount(readOnly) }
      return (await ada.call('POST', `${instancesPath}/create`, body)).body.reason
    }
    const rent = async (readOnly: boolean) =>
      untilStatus(ada, await rentInstance(ada, house, site, mount(readOnly)), 'online')
    const inside = (instance: Instance, script: string) => ada.ssh(instance.sshCommand, script)

    expect(await refusalOf(supplied, false)).toBe('host_mismatch')
    const writer = await rent(false)
    expect((await inside(writer, 'echo kept >/data/sets/file; ls /data/sets')).out).toBe('file\n')
    expect(await refusalOf(house, true)).toBe('volume_in_use')
    const refused = await ada.call('POST', `${volumesPath}/terminate`, { storageVolumeId: id })
    expect(refused.body.reason).toBe('volume_attached')
    await succeed(ada.call, 'PATCH', `${volumesPath}/${id}`, { sizeInGb: 512 })
    await terminate(ada, writer.id)
    await untilGone(ada, writer.id)
    // At once, where the kernel can grow a file system in use.
    await waitFor('the larger volume', async () => (await volume()).sizeInGb === 512)

    const [reader, other] = await Promise.all([rent(true), rent(true)])
    const size = (await inside(reader, "df -k /data/sets | tail -1 | awk '{ print $2 }'")).out
    expect(Number.parseInt(size, 10)).toBeGreaterThan(450 * 1024 * 1024)
    expect(await inside(reader, 'cat /data/sets/file; touch /data/sets/more')).toMatchObject({
      out: 'kept\n',
      error: expect.stringContaining('Read-only file system'),
    })
    expect(await refusalOf(house, false)).toBe('volume_in_use')
    await terminate(ada, reader.id)
    await untilGone(ada, reader.id)
    expect((await inside(other, 'cat /data/sets/file')).out).toBe('kept\n')
    await terminate(ada, other.id)
    await untilGone(ada, other.id)
    expect(readFileSync('/proc/self/mountinfo', 'utf8')).not.toContain(path.join(house.dir, 'volumes'))

    const { storageVolumeId: copy } = await succeed(ada.call, 'POST', `${volumesPath}/${id}/clone`, { label: 'copied' })
    const statusOf = async () =>
      (await succeed(ada.call, 'GET', volumesPath)).find((one: { id: number }) => one.id === copy).status
    await waitFor('the copy', async () => (await statusOf()) === 'active')
    for (const storageVolumeId of [id, copy])
      await succeed(ada.call, 'POST', `${volumesPath}/terminate`, { storageVolumeId })
    await waitFor('the files to be gone', () => readdirSync(path.join(house.dir, 'volumes', 'images')).length === 0)
  })

  test('a missing image fails with a reason, is free, and releases the GPU', async () => {
    const missing = `${machines.registry.address}/lab/nobody-has-this`
    const name = await rentInstance(ada, house, { name: missing, tag: '1' })
    const failed = await untilStatus(ada, name, 'failed')
    expect(await eventData(ada, failed, 'rental.failed')).toMatchObject({
      reason: 'image_not_found',
      detail: expect.stringContaining(`${missing}:1`),
    })
    expect(await charged(ada, failed)).toBe(0n)
    await untilFree(house)
    await terminate(ada, name)
    expect(await findInstance(ada, name)).toBeUndefined()
  })

  test('a process that exits fails the instance with its exit code and is charged while it was seen running', async () => {
    const online = await rentOnline(ada, house, endsOnRequest)
    const requestedAt = systemClock.now()
    // A session that ends with its container may report that; one that never opened is retried.
    let reported: Ran | undefined
    await waitFor(
      () => `it to have failed; SSH: ${JSON.stringify(reported)}`,
      async () => {
        reported = await ada.ssh(online.sshCommand, 'touch', '/tmp/end')
        return (await findInstance(ada, online.id))?.instance.status === 'failed'
      },
    )
    const events = await eventsOf(ada, online)
    expect(events.map((event) => event.type)).toEqual(['rental.created', 'rental.running', 'rental.failed'])
    expect(events.at(-1)?.data).toMatchObject({
      reason: 'process_exited',
      detail: expect.stringContaining('code 3'),
    })
    const { ended_at: endedAt } = await machines.server.app.database.db
      .selectFrom('segment')
      .select('ended_at')
      .where('rental_id', '=', await rentalIdOf(ada, online))
      .executeTakeFirstOrThrow()
    if (endedAt === null) throw new Error('its bill goes on')
    // The last poll that saw it running, and never later than the one that saw its end.
    expect(endedAt).toBeGreaterThan(requestedAt - POLL_MS)
    expect(endedAt).toBeLessThanOrEqual(instantOf(events.at(-1)?.at))
    expect(await charged(ada, online)).toBe(costOf(instantOf(online.start), endedAt))
    await untilFree(house)
    // The container is gone; its last output is not.
    const kept = await ada.call('GET', `${rentals}/${online.id}/logs?search=ENDING&timestamps=true&download=true`)
    expect([kept.status, kept.body]).toEqual([200, expect.stringMatching(/^\S+Z ending\s+$/)])
    expect(kept.headers.get('content-disposition')).toBe(`attachment; filename="${online.id}.log"`)
  })

  test('an idle container is stopped with its disk kept, but not while somebody is logged in', async () => {
    await writeFile(path.join(house.dir, 'use.json'), JSON.stringify([0, 1].map(() => ({ utilizationPercent: 0 }))))
    const idle = { afterMinutes: 5, action: 'stop', graceSeconds: 0 }
    // Simulated GPUs usually have no load, so an idle rule is refused there.
    const simulateAgain = await passForReal(machines.server.app)
    const name = await rentInstance(ada, house, endsOnRequest, { idle })
    await simulateAgain()
    const online = await untilStatus(ada, name, 'online')
    const { db } = machines.server.app.database
    const id = await rentalIdOf(ada, online)
    // Samples come every ten seconds; the loop itself would look every fifteen.
    const stateOf = async () => {
      await watchIdle(machines.server.app).run(new AbortController().signal)
      return db.selectFrom('rental_idle').selectAll().where('rental_id', '=', id).executeTakeFirst()
    }
    // Five minutes are too long for a test: the wait is moved to the past.
    const makeIdleFor = async (minutes: number): Promise<unknown> => {
      const since = toDate(addMs(systemClock.now(), -minutes * 60_000))
      const where = db.updateTable('rental_idle').set({ idle_since: since }).where('rental_id', '=', id)
      return where.where('idle_since', 'is not', null).executeTakeFirst()
    }
    const session = ada.ssh(online.sshCommand, 'echo kept > /root/note; until [ -e /root/leave ]; do sleep 0.1; done')
    await waitFor('samples of its use', async () => (await stateOf())?.seen_until)
    await makeIdleFor(10)
    const seen = (await stateOf())?.seen_until
    await waitFor('later samples', async () => ((await stateOf())?.seen_until ?? 0) > (seen ?? 0))
    expect((await stateOf())?.idle_since).toBeNull()
    await ada.ssh(online.sshCommand, 'touch /root/leave')
    await session
    await waitFor('it to be idle', async () => (await stateOf())?.idle_since)
    await makeIdleFor(10)
    await waitFor(
      'the action',
      async () => (await stateOf(), (await findInstance(ada, name))?.instance.status !== 'online'),
    )
    await untilStatus(ada, name, 'stopped')
    expect(await house.ours()).not.toEqual([])
    const events = await eventsOf(ada, online)
    expect(events.map(({ type }) => type)).toEqual(expect.arrayContaining(['rental.idle', 'rental.stopped']))
    expect(await eventData(ada, online, 'rental.stopping')).toMatchObject({ reason: 'idle' })
    await terminate(ada, name)
    await untilGone(ada, name)
    await rm(path.join(house.dir, 'use.json'))
  }, 180_000)

  async function untilFree(host: ContainerHost): Promise<void> {
    await waitFor('its GPUs to be free', async () => (await listingOf(machines.server, host))?.gpus_reserved === 0)
    expect(await host.ours()).toEqual([])
  }

  test('the ledger is consistent afterwards, and no engine has anything unknown to the database', async () => {
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
    const { heldUsd } = await succeed(ada.call, 'GET', '/v2/customer/balance')
    expect(heldUsd).toBe('0.000000000')
  })
})
