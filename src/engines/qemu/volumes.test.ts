/** Disks of virtual machines as volumes: files made by the keeper of a host whose disk really fills up. */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { describe } from 'vitest'
import { testDatabase } from '../../../test/harness/database.ts'
import { testOffer } from '../../../test/harness/host-sockets.ts'
import { whyNoQemu } from '../../../test/harness/qemu-lab.ts'
import { startSmallDisk } from '../../../test/harness/small-disk.ts'
import { whyNoStorageLab } from '../../../test/harness/storage-lab.ts'
import { pollDelay, waitFor } from '../../../test/harness/wait.ts'
import { systemClock, toDate } from '../../base/instant.ts'
import { openDatabase, transact, type Database } from '../../store/database.ts'
import { postgresHostWorld } from '../../store/host-world.ts'
import { beginSession, readDesired, saveReport } from '../../store/host.ts'
import { diskEngine } from '../host/disk.ts'
import { Keeper } from '../keeper.ts'
import type { Runtime } from '../runtime.ts'
import { volumeConformance, type VolumeHarness } from '../conformance-volumes.ts'
import { qemuVolumes } from './volumes.ts'

const reason = whyNoQemu() ?? whyNoStorageLab()
const HOST = 'small-host'
const REGION = 'us-central-1'
/** The disk size that the host reports; the real disk is a little larger, for the file system. */
const OFFERED_GB = 2
/** Too little for the tables of an image. */
const FULL_BYTES = 64 * 1024

describe.skipIf(reason !== null)(`on a host with ${OFFERED_GB} GB${reason === null ? '' : ` (${reason})`}`, () => {
  volumeConformance('a host that reserves blocks', () => makeHarness(1))
  volumeConformance('a host whose disk is promised many times over', () => makeHarness(1_000))
})

async function makeHarness(overcommit: number): Promise<VolumeHarness> {
  const disk = startSmallDisk(OFFERED_GB + 1)
  const folder = path.join(disk.folder, 'volumes')
  fs.mkdirSync(folder)
  const own = await testDatabase()
  const database = openDatabase({ url: own.url, clock: systemClock })
  const host = await startHost(database, folder)
  const world = postgresHostWorld(database, { from: 20_000, to: 20_100 })
  const engine = diskEngine(world, { clock: systemClock, overcommit })
  const { signal } = new AbortController()
  return {
    engine,
    region: REGION,
    sizeGb: 1,
    settle: () => host.report(),
    fill: async () => {
      // Another volume uses up the reported space; with overcommit, the reported disk shrinks instead.
      if (overcommit > 1) await host.shrinkTo(0)
      else await engine.create('berth-t-filler', { region: REGION, label: 'filler', sizeGb: 1 }, signal)
      return 'plain'
    },
    breakCreates: async () => {
      disk.fill(FULL_BYTES)
      return 'plain'
    },
    repair: async () => disk.empty(),
    lose: async (externalId) => fs.rmSync(path.join(folder, `${externalId}.qcow2`)),
    traces: async () => fs.readdirSync(folder).sort(),
    dispose: async () => {
      await host.close()
      await disk.close()
      await database.close()
      await own.drop()
    },
  }
}

/** A host that reconciles and reports continuously. */
async function startHost(database: Database, folder: string) {
  let storageGb = OFFERED_GB
  const offerOf = () => ({
    ...testOffer,
    offering: 'virtual-machine' as const,
    region: REGION,
    hardware: { ...testOffer.hardware, storageGb },
  })
  const session = randomUUID()
  await database.db
    .insertInto('host')
    .values({
      id: HOST,
      driver: 'host',
      public_key: 'key',
      offer: JSON.stringify(offerOf()),
      created_at: toDate(database.clock.now()),
    })
    .execute()
  await beginSession(database.db, HOST, session, '1.0.0')
  const runtime: Runtime = {
    kind: 'virtual-machine',
    list: async () => [],
    start: () => Promise.reject(new Error('this host has only volumes')),
    stop: () => Promise.reject(new Error('this host has only volumes')),
    open: () => Promise.reject(new Error('this host has only volumes')),
    notes: () => [],
    volumes: qemuVolumes(folder),
  }
  const keeper = new Keeper({ runtime, changed: () => {}, onError: () => {}, now: () => performance.now() })
  const { signal } = new AbortController()
  let reports = 0
  let isClosed = false
  const work = (async () => {
    while (!isClosed) {
      const desired = await readDesired(database.db, HOST)
      if (desired === undefined) throw new Error('the host is gone')
      keeper.desire(desired)
      await keeper.pass(signal)
      const said = keeper.report()
      if (said !== undefined) {
        const report = { type: 'report' as const, offer: offerOf(), notes: [], ...said }
        await transact(database, (tx) => saveReport(tx, HOST, session, report, database.clock.now()))
        reports += 1
      }
      await pollDelay()
    }
  })()
  /** Waits for a report that began after this call. */
  const report = async (): Promise<void> => {
    const after = reports + 2
    await waitFor('a report', () => reports >= after)
  }
  await report()
  return {
    report,
    shrinkTo: async (gb: number) => {
      storageGb = gb
      await report()
    },
    close: async () => {
      isClosed = true
      await work
      keeper.close()
    },
  }
}
