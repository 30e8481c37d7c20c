// The real PostgreSQL: started, killed and restarted. Cases that need another process (one that dies and leaves its
// PostgreSQL behind, runs as another user, or lacks the package) use a bundle of the supervisor in a separate folder,
// next to a fresh copy of the package, as in an installation.

import { type ChildProcess, spawn } from 'node:child_process'
import * as fs from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Client } from 'pg'
import { rolldown } from 'rolldown'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { processStart } from '../../base/process-start.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts'
import { needs } from '../../../test/needs.ts'

needs('kills')

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const isRoot = process.getuid?.() === 0
const plainUser = isRoot ? { uid: 65_534, gid: 65_534 } : {}
const packageName = `@embedded-postgres/${process.platform}-${process.arch}`

const app = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'berth-app-')))
const folders: string[] = []
const servers: EmbeddedPostgres[] = []
const children: ChildProcess[] = []
const orphans: { pid: number; start: string | undefined }[] = []

beforeAll(async () => {
  fs.chmodSync(app, 0o755)
  const bundle = await rolldown({
    input: join(import.meta.dirname, 'embedded-postgres.ts'),
    platform: 'node',
    external: ['pg-native', 'pg-cloudflare'],
    logLevel: 'silent',
  })
  await bundle.write({ file: join(app, 'dist/supervisor.mjs'), codeSplitting: false })
  fs.writeFileSync(join(app, 'run.mjs'), APP)
  const source = dirname(dirname(createRequire(import.meta.url).resolve(packageName)))
  const copy = join(app, 'node_modules', packageName)
  fs.cpSync(source, copy, { recursive: true, filter: (path) => !isLink(path) })
  template = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'berth-test-')))
  await (await startEmbeddedPostgres({ dataDir: template, log: () => {}, settings: { fsync: 'off' } })).stop()
  fs.rmSync(join(template, 'postgres.log'))
  fs.chmodSync(join(copy, 'native/lib'), 0o555)
})

const APP = `
import { startEmbeddedPostgres } from './dist/supervisor.mjs'
const [dataDir, then] = process.argv.slice(2)
const server = await startEmbeddedPostgres({ dataDir, log() {}, settings: { fsync: 'off' } })
console.log(JSON.stringify({ url: server.url, pid: server.pid }))
if (then === 'stay') process.stdin.resume()
if (then === 'stop') await server.stop()
`

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  for (const { pid, start } of orphans.splice(0)) if (start && processStart(pid) === start) process.kill(pid, 'SIGQUIT')
  await Promise.all(servers.splice(0).map((server) => server.stop()))
  for (const folder of folders.splice(0)) fs.rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
})

afterAll(() => {
  fs.chmodSync(join(app, 'node_modules', packageName, 'native/lib'), 0o755)
  fs.rmSync(app, { recursive: true, force: true })
  fs.rmSync(template, { recursive: true, force: true })
})

/** A folder after a first start, for tests of later starts: creating one takes a second of CPU time. */
let template: string

test('starts in a folder that was opened to its group, as Kubernetes does with volumes (issue 31, 13)', async () => {
  const dataDir = newFolder()
  await (await start(dataDir)).stop()
  fs.chmodSync(join(dataDir, 'postgres'), 0o2770)
  expect((await start(dataDir)).pid).toBeGreaterThan(0)
})

test('the first start creates a private database, which the second start finds', async () => {
  const dataDir = newFolder()
  const first = await start(dataDir)
  await query(first.url, 'create table note (text text)')
  await query(first.url, `insert into note values ('kept')`)
  await first.stop()
  await first.stop()
  expect(await first.exited).toEqual({ code: 0, signal: null })

  const second = await start(dataDir)
  expect(await query(second.url, 'select text from note')).toEqual([{ text: 'kept' }])
  expect(second.url).toBe(first.url)
  expect(new URL(second.url).pathname).toBe('/berth')
  expect(fs.statSync(join(dataDir, 'socket')).mode & 0o777).toBe(0o700)
  expect(fs.readdirSync(dataDir).toSorted()).toEqual(['postgres', 'postgres.log', 'socket'])
})

test('has checksums, one sort order everywhere, no open port, and the given settings', async () => {
  const { url, pid } = await start(newFolder(), { work_mem: '5MB' })
  const names = ['data_checksums', 'server_encoding', 'listen_addresses', 'fsync', 'jit', 'work_mem', 'max_connections']
  const values = await Promise.all(
    names.map(async (name) => Object.values((await query(url, `show ${name}`))[0] ?? {})),
  )
  expect(values.flat()).toEqual(['on', 'UTF8', '', 'off', 'off', '5MB', '100'])
  expect(
    await query(
      url,
      'select datlocprovider, datlocale, current_user from pg_database where datname = current_database()',
    ),
  ).toEqual([{ datlocprovider: 'b', datlocale: 'C.UTF-8', current_user: 'berth' }])
  // It leads its own process group, which Ctrl-C in our terminal does not reach.
  expect(process.kill(-pid, 0)).toBe(true)
})

test('reports a killed postmaster, waits for its last worker, and loses nothing committed', async () => {
  const dataDir = copyTemplate()
  const first = await start(dataDir)
  const client = new Client({ connectionString: first.url }).on('error', () => {})
  await client.connect()
  const [worker] = (await client.query<{ pid: number }>('select pg_backend_pid() as pid')).rows
  if (worker === undefined) throw new Error('the server did not say which process serves us')
  await query(first.url, 'create table note as select 1 as n')
  process.kill(worker.pid, 'SIGSTOP')
  process.kill(first.pid, 'SIGKILL')
  expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
  const log: string[] = []
  const second = await start(dataDir, {}, (line) => {
    log.push(line)
    if (line.includes('waiting for an earlier instance')) process.kill(worker.pid, 'SIGCONT')
  })
  expect(log[0]).toBe('PostgreSQL is waiting for an earlier instance to shut down')
  expect(await query(second.url, 'select n from note')).toEqual([{ n: 1 }])
})

test('stops and restarts a PostgreSQL that outlived its killed server', async () => {
  const dataDir = copyTemplate()
  const berth = runApp(dataDir, 'stay', { env: process.env })
  const orphan = await berth.started
  await query(orphan.url, 'create table note as select 2 as n')
  berth.child.kill('SIGKILL')
  await berth.ended
  expect(processStart(orphan.pid)).toBeDefined()

  const log: string[] = []
  const server = await start(dataDir, {}, (line) => log.push(line))
  expect(log[0]).toBe(`PostgreSQL (process ${orphan.pid}) outlived its server; stopping it with SIGINT`)
  expect(processStart(orphan.pid)).toBeUndefined()
  expect(await query(server.url, 'select n from note')).toEqual([{ n: 2 }])
})

test('ignores a lock file whose pid was reused by another program, even another PostgreSQL', async () => {
  const [dataDir, otherDir] = [copyTemplate(), copyTemplate()]
  const [first, other] = await Promise.all([start(dataDir), start(otherDir)])
  const lockPath = join(dataDir, 'postgres/postmaster.pid')
  const lock = fs.readFileSync(lockPath, 'utf8')
  await first.stop()
  for (const pid of [process.pid, other.pid]) {
    fs.writeFileSync(lockPath, lock.replace(/^\d+/, String(pid)))
    const again = await start(dataDir)
    await again.stop()
  }
  fs.writeFileSync(lockPath, '')
  const server = await start(dataDir)
  // Both answer, so two instances in two folders do not know of each other.
  expect(await query(server.url, 'select 1 as n')).toEqual([{ n: 1 }])
  expect(await query(other.url, 'select 1 as n')).toEqual([{ n: 1 }])
  expect(other.url).not.toBe(server.url)
})

test('recovers from a kill -9 during initdb', async () => {
  const dataDir = newFolder()
  const berth = runApp(dataDir, 'stay', { env: process.env })
  const half = await vi.waitFor(
    () => {
      const name = fs.readdirSync(dataDir).find((name) => name.startsWith('postgres.new-')) ?? 'none'
      fs.accessSync(join(dataDir, name, 'PG_VERSION'))
      return name
    },
    { timeout: 60_000, interval: 1 },
  )
  berth.child.kill('SIGKILL')
  await berth.ended
  expect(fs.readdirSync(dataDir)).toContain(half)
  const server = await start(dataDir)
  expect(await query(server.url, 'select 1 as n')).toEqual([{ n: 1 }])
  expect(fs.readdirSync(dataDir).filter((name) => name.startsWith('postgres.new-'))).toEqual([])
})

test('uses a short private socket folder for a deep data folder, and only one of its own', async () => {
  const dataDir = join(newFolder(), 'a,"b" c'.repeat(20))
  const first = await start(dataDir)
  const socketDir = new URL(first.url).searchParams.get('host') ?? ''
  folders.push(socketDir)
  expect(dirname(socketDir)).toBe(tmpdir())
  expect(fs.lstatSync(socketDir).mode & 0o777).toBe(0o700)
  await first.stop()
  const second = await start(dataDir)
  expect(second.url).toBe(first.url)
  await second.stop()
  fs.rmdirSync(socketDir)
  fs.symlinkSync(newFolder(), socketDir)
  await expect(start(dataDir)).rejects.toThrow(`${socketDir} is needed for sockets but is not a private folder`)
})

test('puts the library links into the data folder if node_modules is read-only', async () => {
  const lib = join(app, 'node_modules', packageName, 'native/lib')
  if (isRoot) for (const name of fs.readdirSync(lib)) if (isLink(join(lib, name))) fs.rmSync(join(lib, name))
  const dataDir = newFolder()
  if (isRoot) fs.chownSync(dataDir, 65_534, 65_534)
  const berth = runApp(dataDir, 'stay', { env: process.env, ...plainUser })
  const { url } = await berth.started
  expect(await query(url, 'select 1 as n')).toEqual([{ n: 1 }])
  expect(fs.readdirSync(dataDir)).toContain('postgres-lib')
  expect(fs.readdirSync(dataDir)).toContain('socket')
  berth.child.kill('SIGKILL')
  // And as root in a plain user's folder it runs as that user, who can come back to it.
  await start(dataDir)
  expect(fs.statSync(join(dataDir, 'postgres')).uid).toBe(plainUser.uid ?? process.getuid?.())
})

test.runIf(isRoot)('as root without user namespaces, runs as nobody or explains what is missing', async () => {
  const dataDir = newFolder()
  const env = { PATH: newFolder() }
  fs.symlinkSync('/usr/bin/id', join(env.PATH, 'id'))
  fs.chmodSync(env.PATH, 0o755)
  const berth = runApp(dataDir, 'stay', { env })
  const { url } = await berth.started
  expect(await query(url, 'select 1 as n')).toEqual([{ n: 1 }])
  expect(fs.statSync(join(dataDir, 'postgres')).uid).toBe(65_534)
  berth.child.kill('SIGKILL')
  // With namespaces again, the same folder goes back to root.
  await start(dataDir)
  expect(fs.statSync(join(dataDir, 'postgres')).uid).toBe(0)

  const unreachable = runApp(join(newFolder(), 'data'), 'stop', { env })
  expect(await unreachable.ended).toBe(1)
  expect(unreachable.stderr()).toMatch(/PostgreSQL cannot run in .*: it refuses to run as root.*set DATABASE_URL/)
})

test('does not keep Berth alive, and stops with it', async () => {
  const berth = runApp(copyTemplate(), 'return', { env: process.env })
  const { pid } = await berth.started
  expect(await berth.ended).toBe(0)
  await vi.waitFor(() => expect(processStart(pid)).toBeUndefined(), { timeout: 30_000 })
})

test('explains what to do without the package', async () => {
  const home = join(app, 'node_modules', packageName)
  fs.renameSync(home, `${home}-away`)
  const berth = runApp(newFolder(), 'stop', { env: process.env })
  expect(await berth.ended).toBe(1)
  fs.renameSync(`${home}-away`, home)
  expect(berth.stderr()).toMatch(/is not installed: set DATABASE_URL .* optional packages/)
})

test('quotes the log of a PostgreSQL that does not start, and rotates a large log', async () => {
  const dataDir = copyTemplate()
  fs.writeFileSync(join(dataDir, 'postgres.log'), Buffer.alloc(9 * 1024 * 1024, 'x'))
  await expect(start(dataDir, { shared_buffers: 'plenty' })).rejects.toThrow(
    /did not start[^]*invalid value for parameter "shared_buffers": "plenty"/,
  )
  expect(fs.statSync(join(dataDir, 'postgres.log.1')).size).toBe(9 * 1024 * 1024)
  expect(fs.statSync(join(dataDir, 'postgres.log')).size).toBeLessThan(10_000)
})

function newFolder(): string {
  const folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'berth-test-')))
  folders.push(folder)
  return folder
}

function copyTemplate(): string {
  const folder = newFolder()
  fs.cpSync(template, folder, { recursive: true })
  return folder
}

function isLink(path: string): boolean {
  return fs.lstatSync(path).isSymbolicLink()
}

async function start(
  dataDir: string,
  settings = {},
  log: (line: string) => void = () => {},
): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ dataDir, log, settings: { fsync: 'off', ...settings } })
  servers.push(server)
  return server
}

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<Record<string, unknown>>(sql)
  await client.end()
  return rows
}

/** A separate process that starts PostgreSQL and then stays, stops it, or returns. */
function runApp(dataDir: string, then: 'stay' | 'stop' | 'return', options: { env: NodeJS.ProcessEnv; uid?: number }) {
  const child = spawn(process.execPath, [join(app, 'run.mjs'), dataDir, then], { ...options, cwd: '/' })
  children.push(child)
  let stdout = ''
  let stderr = ''
  child.stderr.on('data', (chunk) => (stderr += String(chunk)))
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const started = new Promise<{ url: string; pid: number }>((resolve, reject) => {
    child.stdout.on('data', (chunk) => {
      stdout += String(chunk)
      if (stdout.includes('\n')) resolve(JSON.parse(stdout) as { url: string; pid: number })
    })
    child.once('close', () => reject(new Error(`ended early: ${stderr}`)))
  })
  started.then(({ pid }) => orphans.push({ pid, start: processStart(pid) })).catch(() => {})
  return { child, started, ended, stderr: () => stderr }
}
