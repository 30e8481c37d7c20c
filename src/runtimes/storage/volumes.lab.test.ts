/** The file server as a volume engine, on a disk that really fills up. */
import fs from 'node:fs'
import path from 'node:path'
import { describe } from 'vitest'
import { testDatabase } from '../../../test/harness/database.ts'
import { startSmallDisk } from '../../../test/lab/small-disk.ts'
import { startStorageLab, whyNoStorageLab } from '../../../test/lab/storage-lab.ts'
import { systemClock } from '../../base/instant.ts'
import { openDatabase } from '../../store/platform/database.ts'
import { postgresHostWorld } from '../../store/host/host-world.ts'
import { folderDriver } from '../../drivers/metal/volumes.ts'
import { volumeConformance, type VolumeHarness } from '../../drivers/conformance-volumes.ts'
import { needs } from '../../../test/needs.ts'

needs('nfs')

const reason = whyNoStorageLab()
const DISK_GB = 3
/** Too little for a file system, but enough for the small files beside it. */
const FULL_BYTES = 256 * 1024

describe.skipIf(reason !== null)(`on a disk of ${DISK_GB} GB${reason === null ? '' : ` (${reason})`}`, () => {
  volumeConformance('a file server that reserves blocks', () => makeHarness(1), { grows: false, copies: false })
  // The overcommit exceeds the disk by far, so only the disk itself can be full.
  volumeConformance('a file server that promises its disk many times over', () => makeHarness(1_000), {
    grows: false,
    copies: false,
  })
})

async function makeHarness(overcommit: number): Promise<VolumeHarness> {
  const disk = startSmallDisk(DISK_GB)
  const lab = startStorageLab({ folder: path.join(disk.folder, 'storage') })
  const files = await lab.open({ overcommit })
  const own = await testDatabase()
  const database = openDatabase({ url: own.url, clock: systemClock })
  const inFolder = (name: string): string[] => fs.readdirSync(path.join(lab.folder, name))
  return {
    engine: folderDriver(postgresHostWorld(database, { from: 20_000, to: 20_100 }), files),
    region: 'us-central-1',
    sizeGb: 1,
    settle: async () => {},
    fill: async () => {
      disk.fill(FULL_BYTES)
      return 'plain'
    },
    breakCreates: async () => {
      disk.fill(FULL_BYTES)
      return 'plain'
    },
    repair: async () => disk.empty(),
    lose: async (externalId) => fs.rmSync(path.join(lab.folder, 'images', `${externalId}.img`)),
    traces: async () => [...inFolder('images'), ...inFolder('volumes')].sort(),
    dispose: async () => {
      await lab.close()
      await disk.close()
      await database.close()
      await own.drop()
    },
  }
}
