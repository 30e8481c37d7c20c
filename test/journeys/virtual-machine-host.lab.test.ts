/**
 * A customer rents virtual machines on a real host and uses them: logs in, reads a page, moves a disk from one to the
 * next, reboots them, ends them and is billed. The agents, QEMU, the guests and the SSH client are real; only the GPUs
 * are declared.
 */
import { execFile } from 'node:child_process'
import fs from 'node:fs/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { systemClock, type Instant } from '../../src/base/instant.ts'
import { nanoUsdOf, usd, type NanoUsd } from '../../src/base/money.ts'
import { startListener } from '../harness/docker-runtime.ts'
import { instantOf } from '../harness/instance.ts'
import { chargedFor, dueFor, eventTypesOf, checkLedgerAndEngines, succeed } from '../harness/journey.ts'
import type { Customer } from '../lab/machines.ts'
import { startVmMachines, VM_REGION, whyNoVmHosts, type VmHost, type VmMachines } from '../lab/vm-machines.ts'
import { waitFor } from '../harness/wait.ts'
import { askWebApp } from '../harness/web-app.ts'
import { needs } from '../needs.ts'

needs('docker', 'qemu', 'build')

const BOOT_MS = 180_000
vi.setConfig({ testTimeout: BOOT_MS, hookTimeout: BOOT_MS })

const rentals = '/v2/alpha/on-demand'
const volumes = `${rentals}/storage-volumes`
const PORT = 8080
const HTTP_PORT = 8081
const PRICE = usd('2.00')
const STORAGE_PRICE = usd('0.0001')
const SIZE_GB = 256
const DATA = 'kept on the disk'
/** From the range reserved for documentation: public to every rule, but unused. */
const PUBLIC_ADDRESS = '203.0.113.10'

interface Rental {
  readonly name: string
  readonly id: number
  readonly status: string
  readonly statusMessage: string | null
  readonly startedAt: string
  readonly costSoFarUsd: string
  readonly providerData: {
    readonly externalId: string
    readonly sshNetworking: ReadonlyArray<{ host: string; port: number; user: string }>
  }
  readonly portMappings: ReadonlyArray<{ port: number; host: string; publicPort: number }>
}

interface Volume {
  readonly id: number
  readonly status: string
  readonly startedAt: string
  readonly attachedRentals: readonly number[]
}

const why = whyNoVmHosts()
describe.skipIf(why !== undefined)(`rented virtual machines${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let machines: VmMachines
  let host: VmHost
  let other: VmHost
  let ada: Customer
  let one: Rental
  let two: Rental
  let volumeId: number
  /** The engine's name for the volume. */
  let disk: string
  /** Its charges ended between these two times. */
  let volumeEnd: { asked: Instant; answered: Instant }
  let volumeStart: Instant

  beforeAll(async () => {
    machines = await startVmMachines({
      hosts: 2,
      env: { BERTH_DRIVERS: 'mock,host', BERTH_APPS_DOMAIN: 'apps.example.test' },
    })
    ;[host, other] = machines.hosts as [VmHost, VmHost]
    await succeed(machines.server.operator, 'PUT', '/v2/operator/price-book', {
      gpus: [
        {
          machineType: 'virtual-machine',
          networkType: 'ethernet',
          region: VM_REGION,
          gpuType: 'h100',
          gpuCount: 1,
          perGpuHourUsd: '2.00',
          enabled: true,
        },
      ],
      storage: [{ region: VM_REGION, perGbHourUsd: '0.0001', enabled: true }],
      reason: 'for the test',
    })
    ada = await machines.customer()
    await setState(other, 'draining')
  })
  afterAll(() => machines.close())

  const setState = (which: VmHost, state: string) =>
    succeed(machines.server.operator, 'PATCH', `/v2/supply/hosts/${which.id}`, { state })
  const rent = async (): Promise<Rental> =>
    succeed(ada.call, 'POST', `${rentals}/virtual-machine-rentals`, {
      gpuCount: 1,
      region: VM_REGION,
      customPorts: [PORT],
      ports: [`${HTTP_PORT}/http`],
    })
  const detail = (id: number): Promise<Rental> => succeed(ada.call, 'GET', `${rentals}/rentals/${id}`)
  const untilStatus = (id: number, status: string): Promise<Rental> => {
    let last: Rental | undefined
    return waitFor(
      () => `rental ${id} to be ${status}; it is ${JSON.stringify(last)}\n${host.agent().output()}`,
      async () => {
        last = await detail(id)
        return last.status === status && last
      },
      BOOT_MS,
    )
  }
  const terminate = (id: number) =>
    succeed(ada.call, 'POST', `${rentals}/virtual-machine-rentals/terminate`, { rentalId: id })
  /** The output of a command inside. */
  const inside = async (rental: Rental, command: string): Promise<string> => {
    const [where] = rental.providerData.sshNetworking
    const ran = await ada.ssh(`ssh -p ${where?.port} ${where?.user}@${where?.host}`, command)
    if (ran.code !== 0) throw new Error(`${command}: ${ran.code} ${ran.out} ${ran.error}`)
    return ran.out
  }
  const volume = async (): Promise<Volume> =>
    (await succeed(ada.call, 'GET', volumes)).find(({ id }: Volume) => id === volumeId)
  const change = (what: 'attach' | 'detach', ...rentalIds: number[]) =>
    ada.call('POST', `${volumes}/${what}`, { storageVolumeId: volumeId, rentalIds })
  const untilEvent = (type: string, times = 1): Promise<unknown> =>
    waitFor(`${type} of the volume, ${times} times\n${host.agent().output()}`, async () => {
      const types = await eventTypesOf(ada.call, `volume:${volumeId}`)
      return types.filter((each) => each === type).length >= times
    })
  const onHost = async (...command: string[]): Promise<string> =>
    (await promisify(execFile)('nsenter', [`--net=/run/netns/${host.netns}`, ...command])).stdout

  test('two machines run on the host that accepts tenants, and accept the SSH key', async () => {
    const ordered = [await rent(), await rent()]
    const [first = 0, second = 0] = ordered.map(({ id }) => id)
    ;[one, two] = [await untilStatus(first, 'Running'), await untilStatus(second, 'Running')]
    expect([host.pids().length, other.pids().length]).toEqual([2, 0])
    expect(one.providerData.sshNetworking).toMatchObject([{ host: machines.network.bridgeAddress, user: 'root' }])
    expect(await inside(one, 'id -u; cat /etc/berth-gpus')).toBe('0\nNVIDIA H100 80GB HBM3 (simulated)\n')
    expect(await inside(two, `echo "of two" > /root/mine; hostname`)).not.toBe('')
    const stranger = await machines.customer()
    const [where] = one.providerData.sshNetworking
    const refused = await stranger.ssh(`ssh -p ${where?.port} root@${where?.host}`, 'true')
    expect([refused.code, refused.error]).toEqual([255, expect.stringContaining('Permission denied')])
  })

  test('a service inside is reachable through its public port', async () => {
    const serve = `httpd -p ${PORT} -h /www && httpd -p ${HTTP_PORT} -h /www`
    await inside(one, `mkdir /www && echo "a page from the inside" > /www/index.html && ${serve}`)
    const [mapping] = one.portMappings
    expect(mapping).toMatchObject({ port: PORT, host: machines.network.bridgeAddress })
    const page = await fetch(`http://${mapping?.host}:${mapping?.publicPort}/`)
    expect([page.status, await page.text()]).toEqual([200, 'a page from the inside\n'])
    const { url } = machines.server
    const address = `https://${one.name}-${HTTP_PORT}.apps.example.test/`
    const asKey = { Authorization: `Bearer ${ada.key}` }
    expect(await askWebApp(url, address, asKey)).toMatchObject({ status: 200, body: 'a page from the inside\n' })
    expect((await askWebApp(url, address)).status).toBe(404)
    // QEMU accepts every connection, whether anything listens inside or not.
    const missing = await askWebApp(url, address.replace(one.name, two.name), asKey)
    expect([missing.status, JSON.parse(missing.body)]).toMatchObject([502, { reason: 'port_not_answering' }])
  })

  test('its console is its log', async () => {
    const { body } = await ada.call('GET', `/v2/rentals/${one.id}/logs`)
    expect(body).toMatch(/berth: ready after [\d.]+ s/)
  })

  test('a guest reaches public addresses, but neither its own host nor the network around it', async () => {
    const world = await machines.network.addHost('world')
    await promisify(execFile)('ip', ['-n', world.netns, 'addr', 'add', `${PUBLIC_ADDRESS}/32`, 'dev', 'lo'])
    await onHost('ip', 'route', 'add', `${PUBLIC_ADDRESS}/32`, 'via', world.address)
    const [onItsHost, outside] = [await startListener(host.netns), await startListener(world.netns)]
    try {
      const places = [
        ['10.0.2.2', onItsHost.port],
        [host.address, onItsHost.port],
        [world.address, outside.port],
        [PUBLIC_ADDRESS, outside.port],
      ] as const
      const ask = places.map(([address, port]) => `nc -w 5 ${address} ${port} < /dev/null; echo "; $?"`).join('; ')
      const heard = await inside(one, ask)
      expect(heard.trim().split('\n')).toEqual(['; 1', '; 1', '; 1', 'open', '; 0'])
      // Otherwise there was nothing to receive.
      for (const [address, port] of [['127.0.0.1', onItsHost.port], ...places.slice(1)])
        expect(await onHost('busybox', 'nc', '-w', '5', String(address), String(port))).toBe('open\n')
    } finally {
      await onItsHost.close()
      await outside.close()
    }
    const users = await Promise.all(host.pids().map(async (pid) => (await fs.stat(`/proc/${pid}`)).uid))
    expect(users.every((user) => user >= 2_100_000_000)).toBe(true)
    expect(new Set(users).size).toBe(2)
    const { hosts } = await succeed(machines.server.operator, 'GET', '/v2/operator/hosts?limit=100')
    const { notes } = hosts.find(({ id }: { id: string }) => id === host.id)
    expect(notes).toContainEqual(expect.stringContaining('Virtual machines cannot connect to this host'))
    // Simulates the owner's firewall being reloaded.
    await onHost('nft', 'flush', 'ruleset')
    await waitFor('the rules to be back', async () => (await onHost('nft', 'list', 'tables')).includes('inet berth_vm'))
  })

  test('plugs in a volume created with it, under its name', async () => {
    const order = { region: VM_REGION, label: 'data-sets', sizeInGb: SIZE_GB }
    const none = await ada.call('POST', volumes, { ...order, rentalIds: [one.id, two.id] })
    expect([none.status, none.body.reason]).toEqual([400, 'disk_in_use'])
    const made = await succeed(ada.call, 'POST', volumes, { ...order, rentalIds: [one.id] })
    volumeId = made.storageVolumeId
    await untilEvent('volume.attached')
    expect(await volume()).toMatchObject({ status: 'active', attachedRentals: [one.id], vip: host.id })
    const files = await fs.readdir(host.volumeFolder)
    expect(files).toEqual([expect.stringMatching(/^d-[0-9a-f]{16}\.qcow2$/)])
    disk = (files[0] ?? '').slice(0, -'.qcow2'.length)
    const shown = await inside(
      one,
      `cat /sys/block/sda/device/model /sys/block/sda/size; grep -ao 'd-[0-9a-f]*' /sys/block/sda/device/vpd_pg80; echo "${DATA}" | dd of=/dev/sda conv=fsync 2> /dev/null`,
    )
    expect(shown.split('\n').map((line) => line.trim())).toEqual([
      'data-sets',
      String(SIZE_GB * 2 * 1024 * 1024),
      disk,
      '',
    ])
    // The file only takes the space of the data written.
    expect((await fs.stat(host.volumeFile(disk))).blocks * 512).toBeLessThan(10_000_000)
  })

  test('the volume can be attached neither to a second machine nor on another host', async () => {
    const second = await change('attach', two.id)
    expect([second.status, second.body.reason]).toEqual([400, 'disk_in_use'])
    await setState(other, 'ready')
    await setState(host, 'draining')
    const elsewhere = await rent()
    const metal = await succeed(ada.call, 'POST', `${rentals}/bare-metal-rentals`, {
      gpuCount: 8,
      networkType: 'infiniband',
    })
    expect((await change('detach', one.id)).status).toBe(200)
    await untilEvent('volume.detached')
    const refusals = [
      await change('attach', elsewhere.id),
      await change('attach', metal.id),
      await change('attach', 2_000_000_000),
    ]
    expect(refusals.map(({ status, body }) => [status, body.reason])).toEqual([
      [400, 'host_mismatch'],
      [400, 'provider_mismatch'],
      [400, 'rental_not_found'],
    ])
    await terminate(elsewhere.id)
    await succeed(ada.call, 'POST', `${rentals}/bare-metal-rentals/terminate`, { rentalId: metal.id })
    await setState(host, 'ready')
    await setState(other, 'draining')
    expect(await inside(one, 'ls /sys/block')).not.toContain('sda')
  })

  test('its data is there in the next machine on the host', async () => {
    expect((await change('attach', two.id)).body.attachedRentalIds).toEqual([two.id])
    await untilEvent('volume.attached', 2)
    expect(await inside(two, `head -c ${DATA.length} /dev/sda`)).toBe(DATA)
  })

  test('machines keep running when their agent is killed, and the next agent adopts them', async () => {
    const before = host.pids()
    await host.stopAgent('kill')
    expect(host.pids()).toEqual(before)
    await host.startAgent()
    expect(await inside(two, `head -c ${DATA.length} /dev/sda; cat /root/mine`)).toBe(`${DATA}of two\n`)
    expect(host.pids()).toEqual(before)
    // A host that was away for long was offline for a while.
    for (const { id } of [one, two]) await untilStatus(id, 'Running')
  })

  test('a machine that reboots keeps running, with its disk', async () => {
    const bootId = 'cat /proc/sys/kernel/random/boot_id'
    const before = await inside(two, `${bootId}; (sleep 0.5; reboot) > /dev/null 2>&1 &`)
    await waitFor(
      'the machine after its reboot',
      async () => {
        expect((await detail(two.id)).status).toBe('Running')
        return (await inside(two, bootId).catch(() => before)) !== before
      },
      BOOT_MS,
    )
    expect(await inside(two, `head -c ${DATA.length} /dev/sda; cat /root/mine`)).toBe(`${DATA}of two\n`)
  })

  test('ending them leaves nothing behind, and the volume stays until it is deleted', async () => {
    const ids = [one, two].map(({ providerData }) => providerData.externalId)
    const attached = await ada.call('POST', `${volumes}/terminate`, { storageVolumeId: volumeId })
    expect([attached.status, attached.body.reason]).toEqual([400, 'volume_attached'])
    for (const { id } of [one, two]) await terminate(id)
    for (const { id } of [one, two]) await untilStatus(id, 'Terminated')
    expect(host.pids()).toEqual([])
    for (const id of ids) await expect(fs.stat(host.machineFolder(id))).rejects.toThrow('ENOENT')
    expect(await onHost('nft', 'list', 'tables')).not.toContain('berth_vm')
    expect(await volume()).toMatchObject({ status: 'active', attachedRentals: [] })
    expect((await fs.stat(host.volumeFile(disk))).uid).toBe(0)
    volumeStart = instantOf((await volume()).startedAt)
    const asked = systemClock.now()
    await succeed(ada.call, 'POST', `${volumes}/terminate`, { storageVolumeId: volumeId })
    volumeEnd = { asked, answered: systemClock.now() }
    await waitFor('the file to be gone', () =>
      fs.stat(host.volumeFile(disk)).then(
        () => false,
        () => true,
      ),
    )
    await untilEvent('volume.deleted')
  })

  test('each costs its price for its time, and the ledger agrees', async () => {
    for (const { id } of [one, two]) {
      expect(await chargedFor(ada.call, { rentalId: id })).toBe(await dueFor(ada.call, await detail(id), PRICE))
    }
    const perHour = nanoUsdOf(STORAGE_PRICE * BigInt(SIZE_GB))
    const charged = await chargedFor(ada.call, { volumeId })
    expect(charged).toBeGreaterThanOrEqual(costOf(perHour, volumeStart, volumeEnd.asked))
    expect(charged).toBeLessThanOrEqual(costOf(perHour, volumeStart, volumeEnd.answered))
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  })
})

/** As documented, computed independently of our code. */
function costOf(perHour: NanoUsd, from: Instant, to: Instant): NanoUsd {
  return nanoUsdOf((perHour * BigInt(to - from)) / 3_600_000n)
}
