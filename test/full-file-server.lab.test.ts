/**
 * A file server without enough space: orders are rejected, never become active and are never billed; a rental whose
 * volume is lost gets another one.
 */
import fs from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { testDatabase } from './harness/database.ts'
import { chargedFor, eventTypesOf, checkLedgerAndEngines, succeed } from './harness/journey.ts'
import { makeCustomer, type Customer } from './lab/machines.ts'
import { startMetalLab, whyNoMetalLab, type MetalLab } from './lab/metal-lab.ts'
import { inventoryEntry, METAL_REGION, priceMetal, SCRATCH, untilState } from './lab/metal-machines.ts'
import { relayPorts } from './harness/own-port.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { startSmallDisk, type SmallDisk } from './lab/small-disk.ts'
import { startStorageLab, whyNoStorageLab, type StorageLab } from './lab/storage-lab.ts'
import { pollDelay, waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('docker', 'metal', 'nfs', 'build')

vi.setConfig({ testTimeout: 240_000, hookTimeout: 300_000 })
const reason = whyNoStorageLab() ?? whyNoMetalLab()
const volumes = '/v2/alpha/on-demand/storage-volumes'
const rentals = '/v2/alpha/on-demand/bare-metal-rentals'
const DISK_GB = 3
const SIZE_GB = 256
/** The smallest volume is larger than the disk; this setting makes room for two of them but not three. */
const OVERCOMMIT = 230

describe.skipIf(reason !== null)(`a full file server${reason === null ? '' : ` (skipped: ${reason})`}`, () => {
  const undo: Array<() => Promise<unknown>> = []
  let disk: SmallDisk
  let lab: StorageLab
  let metal: MetalLab
  let server: TestServer
  let ada: Customer

  beforeAll(async () => {
    disk = startSmallDisk(DISK_GB)
    undo.push(() => disk.close())
    lab = startStorageLab({ folder: path.join(disk.folder, 'storage') })
    undo.push(() => lab.close())
    metal = await startMetalLab({ hosts: 1, flavours: ['debian'] })
    undo.push(() => metal.close())
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
    await priceMetal(server)
    for (const host of metal.hosts) {
      await host.exec(['mkdir', '-p', SCRATCH])
      await succeed(server.operator, 'POST', '/v2/operator/hosts', inventoryEntry(host))
      await untilState(server, host.id, 'ready', 120_000)
    }
    ada = await makeCustomer(server, path.join(disk.folder, 'key'))
  })
  afterAll(async () => {
    const failures: unknown[] = []
    for (const step of undo.splice(0).toReversed()) await step().catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw new AggregateError(failures, 'not everything was taken down')
  })

  const order = (sizeInGb: number, more: object = {}) =>
    ada.call('POST', volumes, { region: METAL_REGION, label: 'datasets', sizeInGb, ...more })
  const list = (): Promise<Array<{ id: number; status: string; meta: object }>> => succeed(ada.call, 'GET', volumes)
  const untilStatus = (id: number, status: string) =>
    waitFor(`volume ${id} is ${status}`, async () => {
      await pollDelay()
      return (await list()).some((one) => one.id === id && one.status === status)
    })
  const images = (): string[] => fs.readdirSync(path.join(lab.folder, 'images'))
  const externalIdOf = async (id: number): Promise<string> => {
    const query = server.app.database.db.selectFrom('volume').select('external_id').where('id', '=', id)
    return (await query.executeTakeFirstOrThrow()).external_id ?? ''
  }
  const exports = (): string => fs.readFileSync(path.join(lab.folder, 'ganesha.conf'), 'utf8')

  let kept: number
  let lost: number

  test('rejects an order that does not fit with a reason, alone or with a machine, and sets no money aside', async () => {
    const before = await succeed(ada.call, 'GET', '/v2/customer/balance')
    const refused = await order(1_024)
    expect([refused.status, refused.body.reason]).toEqual([400, 'no_storage_capacity'])
    const machine = { gpuCount: 8, region: METAL_REGION, gpuType: 'h100', networkType: 'ethernet' }
    const storageVolume = { isNew: true, label: 'datasets', sizeInGb: 1_024 }
    const both = await ada.call('POST', rentals, { ...machine, storageVolume })
    expect([both.status, both.body.reason]).toEqual([400, 'no_storage_capacity'])
    expect(await list()).toEqual([])
    expect(images()).toEqual([])
    expect(await succeed(ada.call, 'GET', '/v2/customer/balance')).toEqual(before)
  })

  test('serves two of three simultaneous orders when there is room for two', async () => {
    const replies = await Promise.all([order(SIZE_GB), order(SIZE_GB), order(SIZE_GB)])
    const outcomes = replies.map((reply) => String(reply.body.reason ?? reply.status))
    expect(outcomes.toSorted()).toEqual(['200', '200', 'no_storage_capacity'])
    const made = replies.flatMap((reply) => (reply.status === 200 ? [reply.body.storageVolumeId as number] : []))
    for (const id of made) await untilStatus(id, 'active')
    ;[kept, lost] = made as [number, number]
    expect(images().toSorted()).toEqual(
      [`${await externalIdOf(kept)}.img`, `${await externalIdOf(lost)}.img`].toSorted(),
    )
    expect((await order(SIZE_GB)).body.reason).toBe('no_storage_capacity')
  })

  test('marks a volume whose file vanished as unknown, stops charging for it, and the audit reports it', async () => {
    const file = path.join(lab.folder, 'images', `${await externalIdOf(lost)}.img`)
    fs.renameSync(file, path.join(disk.folder, 'moved'))
    await untilStatus(lost, 'unknown')
    const charged = await chargedFor(ada.call, { volumeId: lost })
    const audit = await succeed(server.operator, 'GET', '/v2/operator/engines/audit')
    expect(audit.engines).toMatchObject([{ findings: [{ check: 'not_shown', subject: `volume:${lost}` }] }])
    const { volumes: seen } = await succeed(server.operator, 'GET', '/v2/operator/volumes')
    expect(seen).toContainEqual(
      expect.objectContaining({ id: lost, lastError: expect.stringContaining('.img is missing') }),
    )
    fs.renameSync(path.join(disk.folder, 'moved'), file)
    await untilStatus(lost, 'active')
    expect(await eventTypesOf(ada.call, `volume:${lost}`)).toEqual([
      'volume.created',
      'volume.active',
      'volume.unknown',
      'volume.recovered',
    ])
    expect(await chargedFor(ada.call, { volumeId: lost })).toBeGreaterThanOrEqual(charged)
    expect(await checkLedgerAndEngines(server)).toEqual([])
    fs.rmSync(file)
    await untilStatus(lost, 'unknown')
  })

  test('replaces a lost volume of a rental even when the disk is full', async () => {
    const machine = { gpuCount: 8, region: METAL_REGION, gpuType: 'h100', networkType: 'ethernet' }
    const { id } = await succeed(ada.call, 'POST', rentals, machine)
    await waitFor('the rental runs', async () => {
      await pollDelay()
      return (await succeed(ada.call, 'GET', `/v2/alpha/on-demand/rentals/${id}`)).status === 'Running'
    })
    const refused = await ada.call('POST', `${volumes}/attach`, { storageVolumeId: lost, rentalIds: [id] })
    expect([refused.status, refused.body.reason]).toEqual([400, 'volume_not_active'])
    disk.fill(0)
    await succeed(ada.call, 'POST', `${volumes}/attach`, { storageVolumeId: kept, rentalIds: [id] })
    const externalId = await externalIdOf(kept)
    await waitFor('the export', () => exports().includes(`Pseudo = "/${externalId}"`))
    expect(exports()).toContain(metal.hosts[0]?.address)
    disk.empty()
  })
})
