/**
 * Bare-metal volumes on real NFS: hosts with their own kernel and the file server that Berth runs. One file is followed
 * through two rentals. The driver conformance suite is in bare-metal.test.ts, on hosts that start faster.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { usd } from '../src/base/money.ts'
import { testDatabase } from './harness/database.ts'
import { relayPorts } from './harness/own-port.ts'
import { chargedFor, dueFor, eventTypesOf, checkLedgerAndEngines, succeed } from './harness/journey.ts'
import { makeCustomer, type Customer } from './lab/machines.ts'
import { startMetalGuests, type MetalGuest, type MetalGuests } from './lab/metal-guests.ts'
import { METAL_REGION, metalEntry, priceMetal, untilState } from './lab/metal-machines.ts'
import { whyNoQemu } from './lab/qemu-lab.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { startStorageLab, whyNoStorageLab, type StorageLab } from './lab/storage-lab.ts'
import { pollDelay, waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('docker', 'qemu', 'metal', 'nfs', 'build')

const reason = whyNoStorageLab() ?? whyNoQemu() ?? null
const START_MS = 300_000
/** Time limit for a reboot of an emulated guest on a busy machine. */
const SLOW_MS = 180_000
vi.setConfig({ testTimeout: 2 * SLOW_MS, hookTimeout: 2 * SLOW_MS })
/** Volumes are larger than the disks of test machines, but nearly empty. */
const OVERCOMMIT = 100
const rentals = '/v2/alpha/on-demand/bare-metal-rentals'
const volumes = '/v2/alpha/on-demand/storage-volumes'
const SIZE_GB = 256
const order = { gpuCount: 8, region: METAL_REGION, gpuType: 'h100', networkType: 'ethernet' }
/** A host without access does not even see that the folder exists. */
const REFUSED = /failed: (No such file or directory|Permission denied)/
/** Eight GPUs at $2. */
const HOURLY = usd('16')

interface Rental {
  readonly id: number
  readonly status: string
  readonly startedAt: string
  readonly providerData: { readonly sshNetworking: ReadonlyArray<{ host: string }> }
}

interface Tenancy {
  readonly id: number
  readonly by: Customer
  readonly guest: MetalGuest
}

describe.skipIf(reason !== null)(`bare-metal volumes${reason === null ? '' : ` (skipped: ${reason})`}`, () => {
  const undo: Array<() => Promise<unknown>> = []
  let lab: StorageLab
  let guests: MetalGuests['guests']
  let server: TestServer
  let ada: Customer
  let bob: Customer

  beforeAll(async () => {
    lab = startStorageLab()
    undo.push(() => lab.close())
    const booting = startMetalGuests(lab, ['guest-1', 'guest-2'])
    undo.push(async () => (await booting).close())
    const database = await testDatabase()
    undo.push(() => database.drop())
    const env = {
      BERTH_DRIVERS: 'private-cloud',
      BERTH_RELAY_PORTS: relayPorts(),
      BERTH_STORAGE_DIR: lab.folder,
      BERTH_STORAGE_VIP: lab.vip,
      BERTH_STORAGE_OVERCOMMIT: String(OVERCOMMIT),
    }
    server = await testServer({ databaseUrl: database.url, env })
    undo.push(() => server.close())
    const keys = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-volume-keys-'))
    undo.push(() => fs.promises.rm(keys, { recursive: true }))
    ada = await makeCustomer(server, path.join(keys, 'ada'))
    bob = await makeCustomer(server, path.join(keys, 'bob'))
    await priceMetal(server)
    guests = (await booting).guests
    for (const guest of guests) await succeed(server.operator, 'POST', '/v2/operator/hosts', metalEntry(guest))
    for (const guest of guests) await untilState(server, guest.id, 'ready', SLOW_MS)
  }, START_MS)
  afterAll(async () => {
    const failures: unknown[] = []
    for (const step of undo.splice(0).toReversed()) await step().catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw new AggregateError(failures, 'not everything was taken down')
  })

  const untilStatus = (by: Customer, id: number, status: string): Promise<Rental> => {
    let last: Rental | undefined
    return waitFor(
      () => `rental ${id} is ${status}: ${JSON.stringify(last)}`,
      async () => {
        await pollDelay()
        last = await succeed(by.call, 'GET', `/v2/alpha/on-demand/rentals/${id}`)
        return last?.status === status && last
      },
      SLOW_MS,
    )
  }
  const rent = async (by: Customer, more: object = {}): Promise<number> =>
    (await succeed(by.call, 'POST', rentals, { ...order, ...more })).id
  const untilRunning = async (by: Customer, id: number): Promise<Tenancy> => {
    const { providerData } = await untilStatus(by, id, 'Running')
    const guest = guests.find(({ address }) => address === providerData.sshNetworking[0]?.host)
    if (guest === undefined) throw new Error('it runs on none of the guests')
    return { id, by, guest }
  }
  const terminate = async ({ by, id }: Tenancy): Promise<Rental> => {
    await succeed(by.call, 'POST', `${rentals}/terminate`, { rentalId: id })
    return untilStatus(by, id, 'Terminated')
  }
  const untilEvent = (by: Customer, volumeId: number, type: string, times = 1) =>
    waitFor(
      `${times} times ${type}`,
      async () => {
        await pollDelay()
        const types = await eventTypesOf(by.call, `volume:${volumeId}`)
        return types.filter((one) => one === type).length === times
      },
      SLOW_MS,
    )

  let one: Tenancy
  let other: Tenancy
  let storageVolumeId: number
  /** Mounts as the hosts list them. */
  let source: string
  const attach = (rentalIds: readonly number[]) =>
    succeed(ada.call, 'POST', `${volumes}/attach`, { storageVolumeId, rentalIds })
  /** Runs as root, which no tenant can. */
  const mountByHand = ({ guest }: Tenancy) =>
    guest.exec(`mkdir -p /root/m && mount -t nfs4 ${source} /root/m && umount /root/m`)

  test('mounts a volume ordered with a machine there, at full size, and nowhere else', async () => {
    const ids = [
      await rent(ada, { storageVolume: { isNew: true, label: 'datasets', sizeInGb: SIZE_GB } }),
      await rent(ada),
    ] as const
    ;[one, other] = await Promise.all([untilRunning(ada, ids[0]), untilRunning(ada, ids[1])])
    const [volume] = await succeed(ada.call, 'GET', volumes)
    expect(volume).toMatchObject({ status: 'active', sizeInGb: SIZE_GB, vip: lab.vip, label: 'datasets' })
    storageVolumeId = volume.id
    const folder = await server.app.database.db.selectFrom('host_volume').select('id').executeTakeFirstOrThrow()
    source = `${lab.vip}:/${folder.id}`

    await untilEvent(ada, storageVolumeId, 'volume.attached')
    expect(await mountOf(one, source)).toBe('/mnt/datasets')
    const write = 'echo kept > /mnt/datasets/file'
    const sizeKib = Number(await inside(one, `${write} && df -kP /mnt/datasets | awk 'NR > 1 { print $2 }'`))
    expect(sizeKib / 1_048_576).toBeGreaterThan(SIZE_GB * 0.95)
    await mountByHand(one)
    await expect(mountByHand(other)).rejects.toThrow(REFUSED)
  })

  test('unmounts and denies a detached volume; its data is there on the next machine', async () => {
    await succeed(ada.call, 'POST', `${volumes}/detach`, { storageVolumeId, rentalIds: [one.id] })
    await untilEvent(ada, storageVolumeId, 'volume.detached')
    expect(await one.guest.exec(`grep ' nfs4 ' /proc/mounts; ls /mnt`)).toBe('')
    await expect(mountByHand(one)).rejects.toThrow(REFUSED)
    await attach([other.id])
    await untilEvent(ada, storageVolumeId, 'volume.attached', 2)
    expect(await inside(other, 'cat /mnt/datasets/file && echo more > /mnt/datasets/more')).toBe('kept\n')
    await expect(mountByHand(one)).rejects.toThrow(REFUSED)
  })

  test('mounts a volume again after a reboot; it outlives its rental, and the next tenant cannot access it', async () => {
    await attach([one.id])
    await untilEvent(ada, storageVolumeId, 'volume.attached', 3)
    // Both guests restart at the same time: one because it reboots, the other because it is being cleaned.
    const boot = await one.guest.bootId()
    await one.guest.exec('reboot')
    const ended = await terminate(other)
    await waitFor('another boot', async () => ![undefined, boot].includes(await one.guest.bootId()), SLOW_MS)
    await waitFor('the mount is back', async () => (await mountOf(one, source)) === '/mnt/datasets', SLOW_MS)
    expect(await inside(one, 'cat /mnt/datasets/file /mnt/datasets/more')).toBe('kept\nmore\n')

    expect(await succeed(ada.call, 'GET', volumes)).toMatchObject([{ status: 'active', attachedRentals: [one.id] }])
    const next = await untilRunning(bob, await rent(bob))
    expect(next.guest.id).toBe(other.guest.id)
    expect(await inside(next, 'ls -A . /mnt')).toBe('.:\n.ssh\nhosts\n\n/mnt:\n')
    await expect(mountByHand(next)).rejects.toThrow(REFUSED)
    expect(await chargedFor(ada.call, { rentalId: other.id })).toBe(await dueFor(ada.call, ended, HOURLY))
    expect(await checkLedgerAndEngines(server)).toEqual([])
  })
})

/** Runs as the tenant. */
async function inside({ by, guest }: Tenancy, command: string): Promise<string> {
  const { code, out, error } = await by.ssh(`ssh tenant@${guest.address}`, command)
  if (code !== 0) throw new Error(`${command}: ${code} ${error}`)
  return out
}

/** Mount point; empty if not mounted. */
async function mountOf({ guest }: Tenancy, source: string): Promise<string> {
  return (await guest.exec(`awk '$1 == "${source}" && $3 == "nfs4" { print $2 }' /proc/mounts`)).trim()
}
