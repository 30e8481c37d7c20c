/**
 * A running NFS daemon, started here or found from an earlier start. It is detached, so that clients are served while
 * the server is down. It reports only in its log file.
 */
import { spawn } from 'node:child_process'
import fs from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { systemEnv } from './command.ts'

export interface GaneshaFiles {
  readonly config: string
  readonly pid: string
  readonly log: string
}

export interface GaneshaProcess {
  readonly pid: number
  /** Resolves with the reason when it ends. */
  readonly exited: Promise<string>
  isAlive(): boolean
}

const POLL_MS = 200
const STOP_MS = 10_000
/** This is far more than one start or change logs. */
const MAX_LOG_READ_BYTES = 1_048_576
const LOG_TAIL_CHARS = 2_000

export function ganeshaFiles(folder: string): GaneshaFiles {
  return {
    config: path.join(folder, 'ganesha.conf'),
    pid: path.join(folder, 'ganesha.pid'),
    log: path.join(folder, 'ganesha.log'),
  }
}

export function startGanesha(files: GaneshaFiles): GaneshaProcess {
  const args = ['-F', '-f', files.config, '-p', files.pid, '-L', files.log]
  const child = spawn('ganesha.nfsd', args, { detached: true, stdio: 'ignore', env: systemEnv })
  let isAlive = true
  const exited = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(`ganesha.nfsd could not be started: ${error.message}`))
    child.once('exit', (code, signal) => resolve(`ganesha.nfsd ended with ${signal ?? code}`))
  }).finally(() => (isAlive = false))
  child.unref()
  return { pid: child.pid ?? 0, exited, isAlive: () => isAlive }
}

/** The daemon of an earlier start, if it still runs. */
export async function findGanesha(files: GaneshaFiles): Promise<GaneshaProcess | undefined> {
  const pid = Number.parseInt(await fs.readFile(files.pid, 'utf8').catch(() => ''), 10)
  if (!Number.isSafeInteger(pid) || pid < 2 || !(await isOurs(pid, files))) return undefined
  let isAlive = true
  const watch = async (): Promise<string> => {
    while (await isOurs(pid, files)) await delay(POLL_MS, undefined, { ref: false })
    isAlive = false
    return 'ganesha.nfsd has ended'
  }
  return { pid, exited: watch(), isAlive: () => isAlive }
}

export async function endGanesha(daemon: GaneshaProcess, files: GaneshaFiles): Promise<void> {
  for (const [signal, waitMs] of [
    ['SIGTERM', STOP_MS],
    ['SIGKILL', STOP_MS],
  ] as const) {
    if (!(await sendSignal(daemon, files, signal))) return
    const wait = new AbortController()
    const ended = await Promise.race([
      daemon.exited.then(() => true),
      delay(waitMs, false, { signal: wait.signal }).catch(() => false),
    ])
    wait.abort()
    if (ended) return
  }
  throw new Error(`ganesha.nfsd (${daemon.pid}) does not stop`)
}

/** Returns false if the process is gone. The pid alone is not trusted, since pids are reused. */
export async function sendSignal(
  daemon: GaneshaProcess,
  files: GaneshaFiles,
  signal: NodeJS.Signals,
): Promise<boolean> {
  if (!daemon.isAlive() || !(await isOurs(daemon.pid, files))) return false
  try {
    return process.kill(daemon.pid, signal)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return false
    throw error
  }
}

/** Lists the daemon's open folders, which include the root of each served file system. */
export async function openFolders(daemon: GaneshaProcess): Promise<Set<string>> {
  const folder = `/proc/${daemon.pid}/fd`
  const names = await fs.readdir(folder)
  // A file that was closed in the meantime has no link.
  const links = await Promise.all(names.map((name) => fs.readlink(path.join(folder, name)).catch(() => '')))
  return new Set(links)
}

export async function logLength(files: GaneshaFiles): Promise<number> {
  return fs.stat(files.log).then(
    ({ size }) => size,
    () => 0,
  )
}

export async function logSince(files: GaneshaFiles, offset: number): Promise<string> {
  const handle = await fs.open(files.log, 'r').catch(() => undefined)
  if (handle === undefined) return ''
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(MAX_LOG_READ_BYTES), 0, MAX_LOG_READ_BYTES, offset)
    return buffer.subarray(0, bytesRead).toString()
  } finally {
    await handle.close()
  }
}

/** The last relevant log lines, for an error message. */
export function logTail(text: string): string {
  const badLines = text.split('\n').filter((line) => /:(CRIT|MAJ|FATAL|WARN) :/.test(line))
  const messages = badLines.map((line) => line.replace(/^.*?\[\w+\] /, ''))
  return messages.join('; ').slice(-LOG_TAIL_CHARS)
}

/** A zombie has no command line, so it does not count. */
async function isOurs(pid: number, files: GaneshaFiles): Promise<boolean> {
  const line = await fs.readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  const args = line.split('\0')
  return path.basename(args[0] ?? '') === 'ganesha.nfsd' && args.includes(files.config)
}
