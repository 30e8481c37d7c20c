import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { expect, it } from 'vitest'
import { removeFolder } from '../../../test/harness/leftover.ts'
import { BackupError, CHECKSUMS, digestOf, readChecksums, verifyFiles, writeChecksums } from './backup-checksums.ts'

it('notices a flipped bit in each byte, in the checksums as well (issue 31, 6)', async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-checksums-'))
  const names = ['one', 'folder/two', 'empty']
  await mkdir(path.join(folder, 'folder'))
  await writeFile(path.join(folder, 'one'), 'first')
  await writeFile(path.join(folder, 'folder/two'), 'second')
  await writeFile(path.join(folder, 'empty'), '')
  const digests = await Promise.all(names.map((name) => digestOf(path.join(folder, name))))
  await writeChecksums(folder, new Map(names.map((name, n) => [name, digests[n] ?? ''])))
  const verify = async (): Promise<unknown> => {
    try {
      return await verifyFiles(folder, (await readChecksums(folder)) ?? new Map(), () => {})
    } catch (error) {
      return error
    }
  }
  expect(await verify()).toBeUndefined()
  let flips = 0
  for (const name of [...names, CHECKSUMS]) {
    const file = path.join(folder, name)
    const whole = await readFile(file)
    for (let at = 0; at < whole.length; at += 1) {
      const bytes = Buffer.from(whole)
      bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << (at & 7)), at)
      await writeFile(file, bytes)
      expect([name, at, await verify()]).toEqual([name, at, expect.any(BackupError)])
      flips += 1
    }
    await writeFile(file, whole)
  }
  expect(flips).toBeGreaterThan(200)
  expect(await verify()).toBeUndefined()
  await removeFolder(folder)
})
