import fs from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { smallImage, whyNoQemu } from '../../../test/lab/qemu-lab.ts'
import { runProgram } from '../run-program.ts'
import { buildSmallImage } from './small-image.ts'
import { needs } from '../../../test/needs.ts'

needs('qemu')

const why = whyNoQemu()
const never = new AbortController().signal
const own = process.arch === 'arm64' ? 'arm64' : 'amd64'

describe.skipIf(why !== undefined)(`the small image${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let folder: string
  beforeAll(async () => {
    folder = await fs.mkdtemp(path.join(os.tmpdir(), 'berth-image-'))
    // Reuses the kernel downloaded by other tests.
    const known = await smallImage()
    await fs.cp(path.join(known.kernel, '../../packages'), path.join(folder, 'packages'), { recursive: true })
  }, 180_000)
  afterAll(() => fs.rm(folder, { recursive: true, force: true }))

  test('is built once, without leaving partial files', { timeout: 120_000 }, async () => {
    const messages: string[] = []
    const build = (): ReturnType<typeof buildSmallImage> =>
      buildSmallImage({ folder, arch: own, progress: (message) => messages.push(message), signal: never })
    const one = await build()
    const entries = (
      await runProgram('cpio', ['-t', '--quiet', '-F', one.initrd], { signal: never, timeoutMs: 10_000 })
    ).split('\n')
    expect(entries).toEqual(
      expect.arrayContaining(['init', 'bin/busybox', 'usr/sbin/dropbear', 'sbin/mke2fs', 'etc/rc']),
    )
    expect(entries.filter((entry) => entry.endsWith('/nfsv4.ko'))).toHaveLength(1)
    messages.length = 0
    // Noted from other package lists, so it is not believed.
    await fs.writeFile(path.join(folder, 'packages/newest'), '1 linux-image-gone 1.0\n')
    expect(await build()).toEqual(one)
    expect(messages).toEqual([])
    expect((await fs.readdir(folder)).toSorted()).toEqual(
      [path.basename(path.dirname(one.kernel)), 'packages'].toSorted(),
    )
  })

  test('is built only for the architecture of the host', async () => {
    const other = own === 'arm64' ? 'amd64' : 'arm64'
    const build = buildSmallImage({ folder, arch: other, progress: () => {}, signal: never })
    await expect(build).rejects.toThrow(`must be built on an ${other} host`)
  })

  test('names the package of a missing program', async () => {
    const run = async (): Promise<string> => runProgram('no-such-program', [], { signal: never, timeoutMs: 1_000 })
    await expect(run()).rejects.toThrow('install the Debian package no-such-program')
  })
})
