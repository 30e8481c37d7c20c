/** Base images registered by operators. The test disk has only a boot sector that prints a word. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openQemuLab, whyNoQemu, type QemuLab } from '../../../test/lab/qemu-lab.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { makeBaseImages, type BaseImage, type BaseImages } from './base-image.ts'
import { needs } from '../../../test/needs.ts'

needs('qemu')

const why = whyNoQemu()
const never = new AbortController().signal
const WORD = 'booted from the base image'

/** Sixteen-bit code that writes WORD to the first serial port and halts. */
function bootSector(): Buffer {
  const code = [
    // cli; ax = 0; ds = 0
    [0xfa, 0x31, 0xc0, 0x8e, 0xd8],
    // si = text; dx = port
    [0xbe, 0x14, 0x7c, 0xba, 0xf8, 0x03],
    // Next byte; done at zero; out; again.
    [0xac, 0x84, 0xc0, 0x74, 0x03, 0xee, 0xeb, 0xf8],
    // Halt.
    [0xf4],
  ].flat()
  const sector = Buffer.alloc(1_048_576)
  Buffer.from(code).copy(sector)
  sector.write(`${WORD}\n\0`, 0x14, 'latin1')
  sector.writeUInt16LE(0xaa55, 510)
  return sector
}

describe.skipIf(why !== undefined)(`base images${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let lab: QemuLab
  let server: http.Server
  let raw: string
  /** The ranges that clients asked for, of the image that breaks off. */
  let ranges: Array<string | undefined>
  const bytes = bootSector()

  beforeAll(async () => {
    lab = await openQemuLab()
    raw = path.join(lab.folder, 'disk.raw')
    await fs.writeFile(raw, bytes)
    server = http.createServer((request, response) => {
      if (request.url === '/moved') response.writeHead(302, { location: '/disk' }).end()
      else if (request.url === '/disk') response.end(bytes)
      else if (request.url === '/breaks') breakOff(request, response)
      else response.writeHead(404).end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })
  afterAll(async () => {
    server.close()
    await lab.close()
  })

  /** Sends a part of the image and closes the connection; the rest to whoever asks for it. */
  const breakOff = ({ headers: { range } }: http.IncomingMessage, response: http.ServerResponse): void => {
    ranges.push(range)
    const from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0)
    if (from > 0) {
      const contentRange = `bytes ${from}-${bytes.length - 1}/${bytes.length}`
      response.writeHead(206, { 'content-range': contentRange }).end(bytes.subarray(from))
    } else {
      response.writeHead(200, { 'content-length': bytes.length })
      response.write(bytes.subarray(0, 700_000), () => response.destroy())
    }
  }

  const at = (where: string): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}${where}`
  const register = async (source: string, file = raw): Promise<Parameters<BaseImages['fetch']>[0]> => {
    const sha256 = createHash('sha256')
      .update(await fs.readFile(file))
      .digest('hex')
    return { name: 'plain', source, sha256, loginUser: 'debian' }
  }
  const fetch = async (
    source: string,
    more: { allow?: boolean; sha256?: string; file?: string } = {},
  ): Promise<BaseImage> => {
    const image = {
      ...(await register(source, more.file)),
      ...(more.sha256 === undefined ? {} : { sha256: more.sha256 }),
    }
    const folder = path.join(lab.folder, 'images')
    await fs.rm(folder, { recursive: true, force: true })
    return makeBaseImages({ folder, allowPrivate: more.allow ?? false }).fetch(image, () => {}, never)
  }

  test('loads from a file or a URL and caches by digest', async () => {
    const fromFile = await fetch(pathToFileURL(raw).href)
    expect(fromFile).toMatchObject({ format: 'raw', sizeBytes: bytes.length })
    expect(path.basename(fromFile.file)).toBe((await register('')).sha256)
    const moved = await fetch(at('/moved'), { allow: true })
    expect((await fs.readFile(moved.file)).equals(bytes)).toBe(true)
    // The second time it comes from the cache.
    const images = makeBaseImages({ folder: path.dirname(moved.file), allowPrivate: false })
    const again = images.fetch(await register('https://nowhere.invalid/'), () => {}, never)
    await expect(again).resolves.toEqual(moved)
  })

  test.each([
    [
      'the wrong bytes',
      () => fetch(pathToFileURL(raw).href, { sha256: 'a'.repeat(64) }),
      /SHA-256 [0-9a-f]{64}; expected aaaa/,
    ],
    ['an invalid digest', () => fetch(pathToFileURL(raw).href, { sha256: '../x' }), /no SHA-256/],
    ['a private address', () => fetch(at('/disk')), /must start with https/],
    ['a URL that no longer exists', () => fetch(at('/gone'), { allow: true }), /status 404/],
    ['a missing file', () => fetch('file:///nowhere/disk.raw'), /does not exist/],
  ])('with %s are rejected permanently and leave no files', async (_, work, message) => {
    await expect(work()).rejects.toMatchObject({ reason: 'bad_base_image', message: expect.stringMatching(message) })
    expect(await fs.readdir(path.join(lab.folder, 'images')).catch(() => [])).toEqual([])
  })

  test('resume after a broken connection, also in another process', async () => {
    ranges = []
    const image = await register(at('/breaks'))
    const options = { folder: path.join(lab.folder, 'resumed'), allowPrivate: true }
    const interrupted = makeBaseImages({ ...options, limits: { maxIdleAttempts: 0 } }).fetch(image, () => {}, never)
    await expect(interrupted).rejects.toThrow(/interrupted/)
    expect(await fs.readdir(options.folder)).toContain(`${image.sha256}.part`)
    const fetched = await makeBaseImages(options).fetch(image, () => {}, never)
    expect((await fs.readFile(fetched.file)).equals(bytes)).toBe(true)
    expect(ranges).toEqual([undefined, expect.stringMatching(/^bytes=[1-9]\d*-$/)])
    expect(await fs.readdir(options.folder)).toEqual([image.sha256])
  })

  test('on a full disk are tried again later', async () => {
    const freeBytes = async (): Promise<number> => 1_000
    const images = makeBaseImages({ folder: path.join(lab.folder, 'full'), allowPrivate: true, freeBytes })
    const refused = images.fetch(await register(at('/disk')), () => {}, never)
    await expect(refused).rejects.toThrow(/1,048,576 bytes, but the disk has 1,000 bytes free/)
    await expect(refused).rejects.not.toHaveProperty('reason')
    expect(await fs.readdir(path.join(lab.folder, 'full'))).toEqual([])
  })

  test('rejects images that refer to another file of the host', async () => {
    const file = path.join(lab.folder, 'thief.qcow2')
    execFileSync('qemu-img', ['create', '-q', '-f', 'qcow2', '-b', raw, '-F', 'raw', file])
    await expect(fetch(pathToFileURL(file).href, { file })).rejects.toMatchObject({ reason: 'bad_base_image' })
  })

  test.skipIf(process.arch !== 'x64')('are booted from the machine’s own disk and stay unchanged', async () => {
    const runtime = lab.runtime({ allowPrivateAddresses: true })
    const workload = lab.workload('booted', { baseImage: await register(at('/disk')) })
    const control = new AbortController()
    const started = runtime.start(workload, () => {}, control.signal)
    const console = path.join(lab.folder, 'engine/vms/booted/console.log')
    await waitFor('the word', async () => (await fs.readFile(console, 'utf8').catch(() => '')).includes(WORD))
    expect(await runtime.list(never)).toMatchObject([{ id: 'booted', state: 'starting', sshUser: 'debian' }])
    control.abort()
    await expect(started).rejects.toThrow(/abort|called off/)
    await runtime.stop('booted', never)
    const [imageName] = await fs.readdir(path.join(lab.folder, 'engine/images'))
    expect((await fs.readFile(path.join(lab.folder, 'engine/images', imageName ?? ''))).equals(bytes)).toBe(true)
  })
})
