/** Desired state and reports of hosts: a workload is gone only after its host has confirmed it. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { SECOND_MS, toDate } from '../../base/instant.ts'
import type { HostReport, Observation } from '../../contract/agent.ts'
import { SILENT_MS } from '../../domain/host.ts'
import { sampleSpec } from '../../drivers/conformance-bench.ts'
import { hostDriver } from '../../drivers/host/driver.ts'
import type { HostWorld } from '../../drivers/host/world.ts'
import { manualClock, type ManualClock } from '../../../test/sim/clock.ts'
import { testDatabase, type TestDatabase } from '../../../test/harness/database.ts'
import { testOffer } from '../../../test/harness/host-sockets.ts'
import { openDatabase, transact, type Database } from '../platform/database.ts'
import { removeHost } from './host-admin.ts'
import { beginSession, findHost, moveHost, readDesired, saveReport, touchHosts } from './host.ts'
import { postgresHostWorld } from './host-world.ts'

const signal = new AbortController().signal

let own: TestDatabase
let database: Database
let clock: ManualClock
let world: HostWorld
let session: string
let hosts = 0
let hostId: string
let tags = 0

beforeAll(async () => {
  own = await testDatabase()
  clock = manualClock()
  database = openDatabase({ url: own.url, clock })
  world = postgresHostWorld(database, { from: 20_000, to: 20_400 })
})
afterAll(async () => {
  await database.close()
  await own.drop()
})
beforeEach(async () => {
  hostId = `host-${(hosts += 1)}`
  session = randomUUID()
  await database.db
    .insertInto('host')
    .values({
      id: hostId,
      driver: 'host',
      public_key: `key-${hostId}`,
      offer: JSON.stringify(testOffer),
      created_at: toDate(clock.now()),
    })
    .execute()
  await beginSession(database.db, hostId, session, '1.0.0')
  await report([])
})

const newTag = (): string => `berth-t-${(tags += 1)}`
const spec = (ids = [hostId]) =>
  sampleSpec({ kind: 'container', ports: [80], nodes: ids.map((machineId) => ({ machineId, gpuIndexes: [0] })) })

function driver() {
  return hostDriver({ world, clock, relayHost: 'relay.test' })
}

async function create(tag = newTag()): Promise<{ tag: string; id: string }> {
  const outcome = await driver().create(tag, spec(), signal)
  if (outcome.kind !== 'created') throw new Error(outcome.message)
  return { tag, id: outcome.externalId }
}

async function report(workloads: Observation[], more: Partial<HostReport> = {}, by = session): Promise<boolean> {
  const { generation } = more
  const acted = generation ?? (await readDesired(database.db, hostId))?.generation ?? 0
  const whole: HostReport = {
    type: 'report',
    generation: acted,
    offer: testOffer,
    notes: [],
    workloads,
    volumes: [],
    ...more,
  }
  return transact(database, (tx) => saveReport(tx, hostId, by, whole, clock.now()))
}

const running = (tag: string, id: string): Observation => ({ id, tag, state: 'running', sshUser: 'root', disks: [] })
const firstMachine = async (tag: string) => (await driver().list(tag, signal))[0]

it('a create changes the desired state of its host at once, with a new generation', async () => {
  const before = await readDesired(database.db, hostId)
  const { tag, id } = await create()
  const after = await readDesired(database.db, hostId)
  expect(after).toMatchObject({
    generation: (before?.generation ?? 0) + 1,
    workloads: [{ id, tag, want: 'run', started: false, spec: { ports: [80] }, node: { index: 0, gpuIndexes: [0] } }],
  })
  expect(await firstMachine(tag)).toEqual({ externalId: id, tag, state: 'starting', machineId: hostId })
})

it('a second create with the same tag returns the same machine', async () => {
  const { tag, id } = await create()
  expect(await create(tag)).toEqual({ tag, id })
})

it('runs when its host reports it, and keeps its public ports', async () => {
  const { tag, id } = await create()
  await report([running(tag, id)])
  const first = await firstMachine(tag)
  expect(first).toMatchObject({
    state: 'running',
    data: { providerId: 'host', sshNetworking: [{ host: 'relay.test', user: 'root' }], customPorts: [80] },
  })
  expect(await firstMachine(tag)).toEqual(first)
  expect((await readDesired(database.db, hostId))?.workloads[0]?.started).toBe(true)
})

it('is stopping until a report about that generation no longer contains it', async () => {
  const { tag, id } = await create()
  await report([running(tag, id)])
  const old = (await readDesired(database.db, hostId))?.generation ?? 0
  await driver().destroy(id, signal)
  expect(await firstMachine(tag)).toMatchObject({ state: 'stopping' })
  await report([], { generation: old })
  expect(await firstMachine(tag)).toMatchObject({ state: 'stopping' })
  await report([])
  expect(await firstMachine(tag)).toBeUndefined()
  await driver().destroy(id, signal)
})

it('a failed start does not outlast the stop that follows it, nor does a report from before (issue 31, A)', async () => {
  const { tag, id } = await create()
  const power = driver().power
  const failed: Observation = { id, tag, state: 'failed', failure: 'removed', message: 'It was removed.', disks: [] }
  const off: Observation = { id, tag, state: 'stopped', disks: [] }
  await report([running(tag, id)])
  await power?.stop(id, signal)
  await report([off])
  const old = (await readDesired(database.db, hostId))?.generation ?? 0
  await power?.start(id, { ...spec(), nodes: [{ machineId: hostId, gpuIndexes: [0] }] }, signal)
  await report([failed], { generation: old })
  expect(await firstMachine(tag)).toEqual({ externalId: id, tag, state: 'starting', machineId: hostId })
  await report([failed])
  expect(await firstMachine(tag)).toMatchObject({ state: 'failed', failure: 'removed' })
  const started = (await readDesired(database.db, hostId))?.generation ?? 0
  await power?.stop(id, signal)
  expect(await firstMachine(tag)).toEqual({ externalId: id, tag, state: 'starting', machineId: hostId })
  await report([failed], { generation: started })
  expect(await firstMachine(tag)).toEqual({ externalId: id, tag, state: 'starting', machineId: hostId })
  await report([off])
  expect(await firstMachine(tag)).toEqual({ externalId: id, tag, state: 'stopped', machineId: hostId })
  await report([{ ...off, failure: 'vanished', message: 'It disappeared.' }])
  expect(await firstMachine(tag)).toMatchObject({ state: 'stopped', failure: 'vanished' })
})

it('is unreachable while its host is silent, and gone only when the host confirms it', async () => {
  const { tag, id } = await create()
  await report([running(tag, id)])
  const heardAt = clock.now()
  clock.advance(SILENT_MS + SECOND_MS)
  const later = hostDriver({ world, clock, relayHost: 'relay.test' })
  await expect(later.list(tag, signal)).rejects.toThrow('1 hosts have not connected since startup')
  clock.advance(SILENT_MS + SECOND_MS)
  expect((await later.list(tag, signal))[0]).toEqual({
    externalId: id,
    tag,
    state: 'unreachable',
    seenAt: heardAt,
    machineId: hostId,
  })
  expect(await later.inventory(signal)).toEqual([])
  expect(await later.create(newTag(), spec(), signal)).toMatchObject({ kind: 'refused', reason: 'no_capacity' })
  await later.destroy(id, signal)
  expect((await later.list(tag, signal))[0]).toMatchObject({ state: 'stopping' })
  await touchHosts(database.db, [{ hostId, session }], clock.now())
  expect((await later.list(tag, signal))[0]).toMatchObject({ state: 'stopping' })
  await report([])
  expect(await later.list(tag, signal)).toEqual([])
})

it('ignores reports of a replaced connection', async () => {
  const { tag, id } = await create()
  const second = randomUUID()
  await beginSession(database.db, hostId, second, '1.0.0')
  expect(await report([running(tag, id)])).toBe(false)
  expect(await firstMachine(tag)).toMatchObject({ state: 'starting' })
  expect(await report([running(tag, id)], {}, second)).toBe(true)
  expect(await firstMachine(tag)).toMatchObject({ state: 'running' })
})

it('lists an unknown workload of a host, leaves it alone, and can end it', async () => {
  const tag = newTag()
  await report([running(tag, 'w-stranger')])
  expect(await firstMachine(tag)).toEqual({ externalId: 'w-stranger', tag, state: 'running', machineId: hostId })
  expect((await readDesired(database.db, hostId))?.workloads).toMatchObject([
    { id: 'w-stranger', want: 'run', spec: null },
  ])
  await driver().destroy('w-stranger', signal)
  expect((await readDesired(database.db, hostId))?.workloads).toMatchObject([{ id: 'w-stranger', want: 'gone' }])
  await report([])
  expect(await firstMachine(tag)).toBeUndefined()
})

it('a host cannot change the workloads of another', async () => {
  const { tag, id } = await create()
  await report([running(tag, id)])
  const mine = hostId
  const other = `host-${(hosts += 1)}`
  const key = { public_key: `key-${other}`, offer: JSON.stringify(testOffer), created_at: toDate(clock.now()) }
  await database.db
    .insertInto('host')
    .values({ id: other, driver: 'host', ...key })
    .execute()
  await beginSession(database.db, other, session, '1.0.0')
  hostId = other
  await report([{ id, tag, state: 'failed', failure: 'vanished', disks: [] }])
  hostId = mine
  expect(await firstMachine(tag)).toMatchObject({ externalId: id, state: 'running' })
  expect((await readDesired(database.db, other))?.workloads).toEqual([])
})

it('a host can leave only when it is empty', async () => {
  const { tag, id } = await create()
  const leave = () => transact(database, (tx) => moveHost(tx, hostId, 'left'))
  expect(await leave()).toMatchObject({ ok: false, reason: 'host_has_tenants' })
  await report([running(tag, id)])
  await driver().destroy(id, signal)
  await report([])
  expect(await leave()).toMatchObject({ ok: true })
  expect((await findHost(database.db, hostId))?.state).toBe('left')
  expect(await driver().create(newTag(), spec(), signal)).toMatchObject({ kind: 'refused' })
})

it('a dead host whose last report had a workload of nobody can be removed (issue 31, 17)', async () => {
  const { tag, id } = await create()
  const foreign = running(`berth-other-${(tags += 1)}-00000000`, `w-foreign-${hostId}`)
  await report([running(tag, id), foreign])
  const remove = () => transact(database, (tx) => removeHost(tx, hostId, 'it burned down'))
  await driver().destroy(id, signal)
  await report([foreign])
  // The host still reports and may end it.
  expect(await remove()).toMatchObject({ ok: false, reason: 'host_has_tenants' })
  clock.advance(SILENT_MS + SECOND_MS)
  expect(await remove()).toMatchObject({ ok: true })
  expect((await findHost(database.db, hostId))?.state).toBe('left')
})

it('attaches a disk to one machine, even if several ask at once', async () => {
  const machines = await Promise.all(Array.from({ length: 6 }, () => create()))
  const id = `d-${hostId}`
  const file = { id, driver: 'host', tag: newTag(), hostId, label: 'disk', sizeGb: 256, vip: hostId } as const
  await world.addVolume(file)
  const refused = await Promise.all(machines.map((one) => world.wantDisk(id, one.id)))
  expect(refused.filter((why) => why === undefined)).toHaveLength(1)
  expect(refused.filter((why) => why === 'The volume is attached to another machine.')).toHaveLength(5)
  expect((await world.findVolume(id))?.wantedBy).toEqual([machines[refused.indexOf(undefined)]?.id])
})

it('free disk space counts ready, connected hosts, less what is promised there', async () => {
  const hardware = { ...testOffer.hardware, storageGb: 3_000 }
  const offer = { ...testOffer, offering: 'virtual-machine', region: 'ca-west-1', hardware } as const
  const room = async () => [...((await driver().volumes.roomGb?.(['ca-west-1', 'jp-east-1'], signal)) ?? [])]
  const roomIs = (gb: number) => [
    ['ca-west-1', gb],
    ['jp-east-1', 0],
  ]
  expect(await room()).toEqual(roomIs(0))
  await report([], { offer })
  expect(await room()).toEqual(roomIs(3_000))
  const file = { id: `d-${hostId}`, driver: 'host', tag: newTag(), hostId, label: 'disk', vip: hostId } as const
  await world.addVolume({ ...file, sizeGb: 1_024 })
  expect(await room()).toEqual(roomIs(1_976))
  await transact(database, (tx) => moveHost(tx, hostId, 'draining'))
  expect(await room()).toEqual(roomIs(0))
  await transact(database, (tx) => moveHost(tx, hostId, 'ready'))
  expect(await room()).toEqual(roomIs(1_976))
  clock.advance(SILENT_MS + 1)
  expect(await room()).toEqual(roomIs(0))
})

it('never assigns a port twice', async () => {
  const machines = await Promise.all(Array.from({ length: 20 }, () => create()))
  const rows = await database.db
    .selectFrom('relay_port')
    .select(['port', 'workload_id'])
    .where(
      'workload_id',
      'in',
      machines.map(({ id }) => id),
    )
    .execute()
  expect(rows.length).toBe(40)
  expect(new Set(rows.map(({ port }) => port)).size).toBe(40)
})
