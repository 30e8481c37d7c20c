/** On a completely full disk, clients can be granted and revoked, and reserved space can be written. */
import fs from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { fillFile, startSmallDisk, type SmallDisk } from '../../../test/lab/small-disk.ts'
import { startStorageLab, whyNoStorageLab, type StorageLab } from '../../../test/lab/storage-lab.ts'
import { needs } from '../../../test/needs.ts'

needs('nfs')

const reason = whyNoStorageLab()
const { signal } = new AbortController()
const GIB = 2 ** 30
const refusal = /NFS4ERR_NOENT|NFS4ERR_ACCESS/

describe.skipIf(reason !== null)(
  `on a disk that something else has filled${reason === null ? '' : ` (${reason})`}`,
  () => {
    let disk: SmallDisk
    let lab: StorageLab
    beforeEach(() => {
      disk = startSmallDisk(3)
      lab = startStorageLab({ folder: path.join(disk.folder, 'storage') })
    })
    afterEach(async () => {
      await lab.close()
      await disk.close()
    })

    test('grants and revokes clients, and reserved space can be written', async () => {
      const server = await lab.open()
      const [inside, outside] = [lab.addClient(), lab.addClient()]
      for (const id of ['one', 'two']) await server.create(id, 1, signal)
      await server.setClients('one', [inside.address], signal)
      expect(fs.statSync(path.join(lab.folder, 'images', 'two.img')).blocks * 512).toBeGreaterThanOrEqual(GIB)
      disk.fill(0)
      await server.setClients('two', [outside.address], signal)
      const mounted = path.join(lab.folder, 'mnt', 'two')
      expect(fillFile(path.join(mounted, 'filler'))).toBeGreaterThan(GIB * 0.9)
      expect(await outside.ls('/two')).toMatchObject({ code: 0 })
      await server.setClients('one', [], signal)
      expect((await inside.ls('/one')).stderr).toMatch(refusal)
      await server.check(signal)
    })
  },
)
