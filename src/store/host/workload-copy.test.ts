/** A move of a workload in the desired state of two hosts: which of them keeps the disk at every step. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { toDate } from '../../base/instant.ts'
import type { Observation, Workload } from '../../contract/agent.ts'
import { SILENT_MS } from '../../domain/host.ts'
import { sampleSpec } from '../../drivers/conformance-bench.ts'
import { hostDriver } from '../../drivers/host/driver.ts'
import type { Driver } from '../../drivers/driver.ts'
import { manualClock, type ManualClock } from '../../../test/sim/clock.ts'
import { testDatabase, type TestDatabase } from '../../../test/harness/database.ts'
import { testOffer } from '../../../test/harness/host-sockets.ts'
import { openDatabase, transact, type Database } from '../platform/database.ts'
import { removeHost } from './host-admin.ts'
import { beginSession, readDesired, saveReport } from './host.ts'
import { postgresHostWorld } from './host-world.ts'
import { findDiskSource } from './workload-copy.ts'

const signal = new AbortController().signal
const share = (machineId: string) => ({ ...sampleSpec(), nodes: [{ machineId, gpuIndexes: [1] }] })

let own: TestDatabase
let database: Database
let clock: ManualClock
let driver: Driver
let hostCount = 0
let [old, other, id, tag] = ['', '', '', '']
const sessions = new Map<string, string>()

beforeAll(async () => {
  own = await testDatabase()
  clock = manualClock()
  database = openDatabase({ url: own.url, clock })
  const world = postgresHostWorld(database, { from: 20_000, to: 20_400 })
  driver = hostDriver({ world, clock, relayHost: 'relay.test' })
})
afterAll(async () => {
  await database.close()
  await own.drop()
})

/** A workload that has run on `old` and is off. */
beforeEach(async () => {
  hostCount += 1
  ;[old, other, tag] = [`old-${hostCount}`, `other-${hostCount}`, `berth-t-${hostCount}`]
  for (const hostId of [old, other]) await addHost(hostId)
  const created = await driver.create(
    tag,
    sampleSpec({ kind: 'container', nodes: [{ machineId: old, gpuIndexes: [0] }] }),
    signal,
  )
  if (created.kind !== 'created') throw new Error(created.kind)
  id = created.externalId
  await report(old, 'running')
  await driver.power?.stop(id, signal)
  await report(old, 'stopped')
})

async function addHost(hostId: string): Promise<void> {
  const row = { id: hostId, driver: 'host', public_key: hostId, created_at: toDate(clock.now()) } as const
  await database.db
    .insertInto('host')
    .values({ ...row, offer: JSON.stringify(testOffer) })
    .execute()
  sessions.set(hostId, randomUUID())
  await beginSession(database.db, hostId, sessions.get(hostId) ?? '', '1.0.0')
  await report(hostId)
}

/** Sends the host's report on the workload. undefined: it has nothing of it. */
async function report(hostId: string, state?: Observation['state']): Promise<void> {
  const run = state === 'running' ? { incarnation: 'a run', sshUser: 'root' } : {}
  const workloads: Observation[] = state === undefined ? [] : [{ id, tag, state, ...run, disks: [] }]
  const generation = (await readDesired(database.db, hostId))?.generation ?? 0
  const whole = { type: 'report', generation, offer: testOffer, notes: [], workloads, volumes: [] } as const
  await transact(database, (tx) =>
    saveReport(tx, hostId, sessions.get(hostId) ?? '', { ...whole, notes: [], volumes: [] }, clock.now()),
  )
}

const findDesired = async (hostId: string): Promise<Workload | undefined> =>
  (await readDesired(database.db, hostId))?.workloads.find((one) => one.id === id)
const findMachine = async () => (await driver.list(tag, signal))[0]
const sourceFor = (hostId: string) => findDiskSource(database.db, { hostId, workloadId: id })

it('the old host keeps the disk until the new one has run it, and only then removes it (issue 31, 16)', async () => {
  await driver.power?.start(id, share(other), signal)
  await driver.power?.start(id, share(other), signal)
  expect(await findDesired(old)).toMatchObject({ want: 'run', power: 'off', started: true })
  // Agents that do not know of moves take it for lost, instead of creating it without its disk.
  expect(await findDesired(other)).toMatchObject({ want: 'run', power: 'on', started: true, copies: true })
  expect([await sourceFor(other), await sourceFor(old)]).toEqual([old, undefined])
  await report(old, 'stopped')
  await report(other, 'starting')
  await driver.tidy?.(signal)
  expect(await findMachine()).toMatchObject({ externalId: id, state: 'starting', machineId: other })
  expect(await findDesired(old)).toMatchObject({ power: 'off' })

  await report(other, 'running')
  expect(await findMachine()).toMatchObject({ externalId: id, state: 'running', machineId: other })
  expect((await findDesired(other))?.copies).toBeUndefined()
  expect(await sourceFor(other)).toBeUndefined()
  await driver.tidy?.(signal)
  expect(await findDesired(old)).toMatchObject({ want: 'gone' })
  await report(old, 'stopping')
  expect(await findDesired(old)).toMatchObject({ want: 'gone' })
  await report(old)
  expect(await findDesired(old)).toBeUndefined()
  expect(await driver.list(tag, signal)).toHaveLength(1)
})

it('a stop before it has run leads back to the old host; one after that stays on the new one (issue 31, 16)', async () => {
  await driver.power?.start(id, share(other), signal)
  await driver.power?.stop(id, signal)
  await report(old, 'stopped')
  expect(await findMachine()).toMatchObject({ state: 'stopped', machineId: old })
  expect([(await findDesired(old))?.power, (await findDesired(other))?.want]).toEqual(['off', 'gone'])
  // The first copy is removed first; the call is repeated until it takes effect.
  expect(await driver.power?.start(id, share(other), signal)).toEqual({ kind: 'starting' })
  expect([(await findDesired(old))?.power, (await findDesired(other))?.want]).toEqual(['off', 'gone'])
  await report(other)

  await driver.power?.start(id, share(other), signal)
  await report(other, 'running')
  await driver.power?.stop(id, signal)
  await report(other, 'stopped')
  expect(await findMachine()).toMatchObject({ state: 'stopped', machineId: other })
  await driver.tidy?.(signal)
  expect(await findDesired(old)).toMatchObject({ want: 'gone' })
})

it('the end of a workload that moves is confirmed by both hosts (issue 31, 16)', async () => {
  await driver.power?.start(id, share(other), signal)
  await driver.destroy(id, signal)
  expect([(await findDesired(old))?.want, (await findDesired(other))?.want]).toEqual(['gone', 'gone'])
  await report(other)
  expect(await findMachine()).toMatchObject({ state: 'stopping' })
  await report(old)
  expect(await driver.list(tag, signal)).toEqual([])
})

it('does not begin while the host of the disk is silent, and that host is not removed while it has the disk (issue 31, 16)', async () => {
  await driver.power?.start(id, share(other), signal)
  clock.advance(2 * SILENT_MS)
  const removed = await transact(database, (tx) => removeHost(tx, old, 'broken'))
  expect(removed).toMatchObject({ ok: false, reason: 'host_has_tenants' })
  await driver.power?.stop(id, signal)
  await report(other)
  expect(await driver.power?.start(id, share(other), signal)).toMatchObject({
    kind: 'refused',
    message: `Host ${old}, which has its disk, does not answer.`,
  })
})

it('a host that never returns can be removed when only an old copy is left on it (issue 31, 16)', async () => {
  await driver.power?.start(id, share(other), signal)
  await report(other, 'running')
  await driver.tidy?.(signal)
  await driver.destroy(id, signal)
  clock.advance(2 * SILENT_MS)
  expect((await transact(database, (tx) => removeHost(tx, old, 'broken'))).ok).toBe(true)
  await report(other)
  expect(await driver.list(tag, signal)).toEqual([])
})
