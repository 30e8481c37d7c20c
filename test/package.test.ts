/**
 * The package as npm installs it: the files of `npm pack`, linked into a separate prefix, with production dependencies
 * only. Nothing is downloaded: the dependencies are links into the checkout.
 */
import { execFile, spawn } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import packageJson from '../package.json' with { type: 'json' }
import { removeFolder } from './harness/leftover.ts'
import { waitFor } from './harness/wait.ts'

const run = promisify(execFile)
let folder: string
let berth: string

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-package-'))
  const [source, unpacked, prefix] = ['source', 'unpacked', 'prefix'].map((name) => path.join(folder, name)) as [
    string,
    string,
    string,
  ]
  await mkdir(source)
  for (const name of ['bin', 'schema', 'models']) await cp(name, path.join(source, name), { recursive: true })
  await cp(path.dirname(inject('serverBundle')), path.join(source, 'dist'), { recursive: true })
  await writeFile(path.join(source, 'package.json'), await readFile('package.json'))
  const npm = { cwd: source, env: { ...process.env, HOME: folder } }
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], npm)
  await mkdir(unpacked)
  await run('tar', ['xzf', path.join(folder, `berth-${packageJson.version}.tgz`), '-C', unpacked])
  const installed = path.join(unpacked, 'package')
  await linkDependencies(installed)
  await run('npm', ['install', '--global', '--offline', '--ignore-scripts', '--prefix', prefix, installed], npm)
  berth = path.join(prefix, 'bin', 'berth')
})
afterAll(() => removeFolder(folder))

/** Production packages of the lock file; no others can be resolved. */
async function linkDependencies(installed: string): Promise<void> {
  const lock = JSON.parse(await readFile('package-lock.json', 'utf8')) as {
    packages: Record<string, { dev?: boolean; devOptional?: boolean }>
  }
  for (const [place, { dev = false, devOptional = false }] of Object.entries(lock.packages)) {
    // Nested packages come with their parent.
    const [, name] = /^node_modules\/((?:@[^/]+\/)?[^/]+)$/.exec(place) ?? []
    if (name === undefined || dev || devOptional) continue
    const link = path.join(installed, place)
    await mkdir(path.dirname(link), { recursive: true })
    await symlink(path.resolve(place), link)
  }
}

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
    BERTH_DEFAULT_MODELS: 'none',
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
