/** A host for the conformance of volumes: its keeper and its small disk are real, its machines cannot start. */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { systemClock, toDate } from '../../src/base/instant.ts'
import type { VolumeHarness } from '../../src/drivers/conformance-volumes.ts'
import { diskDriver } from '../../src/drivers/host/disk.ts'
import { Keeper } from '../../src/runtimes/keeper.ts'
import type { Runtime, RuntimeVolumes } from '../../src/runtimes/runtime.ts'
import { openDatabase, transact, type Database } from '../../src/store/platform/database.ts'
import { postgresHostWorld } from '../../src/store/host/host-world.ts'
import { beginSession, readDesired, saveReport } from '../../src/store/host/host.ts'
import { testDatabase } from '../harness/database.ts'
import { testOffer } from '../harness/host-sockets.ts'
import { startSmallDisk } from './small-disk.ts'
import { pollDelay, waitFor } from '../harness/wait.ts'

const HOST = 'small-host'
const REGION = 'us-central-1'
/** The disk size that the host reports; the real disk is a little larger, for the file system. */
export const OFFERED_GB = 2
/** Too little for the tables of an image. */
const FULL_BYTES = 64 * 1024

export async function volumeHarness(options: {
  readonly overcommit: number
  readonly offering: VolumeHostOptions['offering']
  readonly open: (folder: string) => RuntimeVolumes
  /** Where in the folder the files of volumes are. */
  readonly files: string
  readonly ending: string
}): Promise<VolumeHarness> {
  const { overcommit, offering } = options
  const disk = startSmallDisk(OFFERED_GB + 1)
  const folder = path.join(disk.folder, 'volumes')
  const files = path.join(folder, options.files)
  fs.mkdirSync(files, { recursive: true })
  const own = await testDatabase()
  const database = openDatabase({ url: own.url, clock: systemClock })
  const volumes = options.open(folder)
  const host = await startVolumeHost(database, { id: HOST, region: REGION, offering, volumes, storageGb: OFFERED_GB })
  const world = postgresHostWorld(database, { from: 20_000, to: 20_100 })
  const engine = diskDriver(world, { clock: systemClock, overcommit })
  const { signal } = new AbortController()
  const near = { host: HOST }
  return {
    engine,
    region: REGION,
    near,
    sizeGb: 1,
    settle: () => host.report(),
    fill: async () => {
      // Another volume uses up the reported space; with overcommit, the reported disk shrinks instead.
      if (overcommit > 1) await host.shrinkTo(0)
      else await engine.create('berth-t-filler', { region: REGION, label: 'filler', sizeGb: 1, near }, signal)
      return 'plain'
    },
    breakCreates: async () => {
      disk.fill(FULL_BYTES)
      return 'plain'
    },
    repair: async () => disk.empty(),
    lose: async (externalId) => fs.rmSync(path.join(files, `${externalId}${options.ending}`)),
    traces: async () => fs.readdirSync(files).sort(),
    dispose: async () => {
      await host.close()
      await disk.close()
      await database.close()
      await own.drop()
    },
  }
}

interface VolumeHostOptions {
  readonly id: string
  readonly region: string
  readonly offering: 'marketplace' | 'virtual-machine'
  readonly volumes: RuntimeVolumes
  /** The disk size that it reports. */
  readonly storageGb: number
}

/** A host that reconciles and reports continuously. */
async function startVolumeHost(database: Database, options: VolumeHostOptions) {
  const { id, region, offering, volumes } = options
  let storageGb = options.storageGb
  const offerOf = () => ({
    ...testOffer,
    offering,
    region,
    hasPersistentStorage: true,
    hardware: { ...testOffer.hardware, storageGb },
  })
  const session = randomUUID()
  await database.db
    .insertInto('host')
    .values({
      id,
      driver: 'host',
      public_key: 'key',
      offer: JSON.stringify(offerOf()),
      created_at: toDate(database.clock.now()),
    })
    .execute()
  await beginSession(database.db, id, session, '1.0.0')
  const runtime: Runtime = {
    kind: offering === 'virtual-machine' ? offering : 'container',
    list: async () => [],
    start: () => Promise.reject(new Error('this host has only volumes')),
    stop: () => Promise.reject(new Error('this host has only volumes')),
    open: () => Promise.reject(new Error('this host has only volumes')),
    notes: () => [],
    volumes,
  }
  const keeper = new Keeper({ runtime, changed: () => {}, onError: () => {}, now: () => performance.now() })
  const { signal } = new AbortController()
  let reports = 0
  let isClosed = false
  const work = (async () => {
    while (!isClosed) {
      const desired = await readDesired(database.db, id)
      if (desired === undefined) throw new Error('the host is gone')
      keeper.desire(desired)
      await keeper.pass(signal)
      const said = keeper.report()
      if (said !== undefined) {
        const report = { type: 'report' as const, offer: offerOf(), notes: [], ...said }
        await transact(database, (tx) => saveReport(tx, id, session, report, database.clock.now()))
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
