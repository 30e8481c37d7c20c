// The data folder: database, secrets and lock of one Berth. Two servers on one folder would corrupt it, so `berth.pid`
// names the process that holds it. The hard part is a lock left behind by kill -9. With "read, find it stale, delete,
// create", a second starter may delete the lock that the first one just created. Here a stale lock may only be replaced
// by the holder of a guard file named after that very lock; a guard is itself such a lock, so a crash in between leaves
// nothing stuck.

import { createHash, randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { askPs, processStart } from '../../base/process-start.ts'

export interface DataFolder {
  /** Absolute, without symbolic links: one name per folder. */
  readonly dir: string
  release(): Promise<void>
}

const LOCK_NAME = 'berth.pid'
const TAKEOVER_LIMIT_MS = 10_000
const TAKEOVER_POLL_MS = 10
/** The kernel's limit is 108 bytes on Linux and 104 on macOS, including the terminating zero. */
const MAX_SOCKET_PATH_BYTES = 100

/** Makes the folder private and locks it; throws one sentence for the operator if it cannot. */
export async function openDataFolder(dir: string): Promise<DataFolder> {
  const folder = makeFolder(dir)
  const lockPath = join(folder, LOCK_NAME)
  const mine = { pid: process.pid, start: processStart(process.pid) ?? '', nonce: randomBytes(6).toString('hex') }
  const holder = await acquire(lockPath, mine, performance.now() + TAKEOVER_LIMIT_MS)
  if (holder !== undefined) {
    throw new Error(`Another Berth (process ${holder.pid}) is using the data folder ${folder}.`)
  }
  const release = async (): Promise<void> => {
    if (readLock(lockPath)?.nonce === mine.nonce) fs.rmSync(lockPath, { force: true })
  }
  try {
    makePrivate(folder)
  } catch (error) {
    await release()
    throw error
  }
  return { dir: folder, release }
}

/** Atomic, also on a power failure; readable only by our user. */
export function writePrivateFile(dir: string, name: string, text: string): void {
  const temporary = writeTemporary(join(dir, name), text)
  fs.renameSync(temporary, join(dir, name))
  syncFolder(dir)
}

export function readPrivateFile(dir: string, name: string): string | undefined {
  return readIfThere(join(dir, name))
}

/** Creates the secret on first use. Concurrent callers all get the first one. */
export function readOrCreateSecret(dir: string, name: string, make: () => string): string {
  const path = join(dir, name)
  const existing = readIfThere(path)
  if (existing !== undefined) return existing
  const secret = make()
  if (!createExclusively(path, secret)) return readIfThere(path) ?? secret
  syncFolder(dir)
  return secret
}

/** Whether the process runs this program in this folder; false for a reused pid. */
export function runsIn(pid: number, program: string, folder: string): boolean {
  if (processStart(pid) === undefined) return false
  if (process.platform !== 'linux') return askPs(pid, 'command=').includes(`${program} -D ${folder} `)
  try {
    const [file = '', ...args] = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    if (basename(file) !== program) return false
    if (args[0] === '-D' && args[1] === folder) return true
    // Compared by inode: the folder may have been renamed.
    const [inside, ownFolder] = [fs.statSync(`/proc/${pid}/cwd`), fs.statSync(folder)]
    return inside.ino === ownFolder.ino && inside.dev === ownFolder.dev
  } catch {
    return false
  }
}

/**
 * Creates a private folder for unix sockets with names up to this length. Socket paths must be short, so for a deep data
 * folder it is in the temporary folder, under a name derived from the data folder. Anyone may create a folder there,
 * so its owner is checked. `ownerId`: a user who may already own it.
 */
export function makeSocketFolder(dir: string, longestName: string, ownerId: number | undefined): string {
  const short = `berth-${createHash('sha256').update(dir).digest('hex').slice(0, 16)}`
  const places = [join(dir, 'socket'), join(tmpdir(), short), join('/tmp', short)]
  const folder = places.find((place) => Buffer.byteLength(join(place, longestName)) <= MAX_SOCKET_PATH_BYTES)
  if (folder === undefined) throw new Error(`The data folder ${dir} and the folder for temporary files are too deep.`)
  fs.mkdirSync(dirname(folder), { recursive: true })
  try {
    fs.mkdirSync(folder, { mode: 0o700 })
  } catch (error) {
    const entry = fs.lstatSync(folder, { throwIfNoEntry: false })
    const owners = [process.getuid?.(), ownerId, folder === places[0] ? entry?.uid : undefined]
    if (!entry?.isDirectory() || !owners.includes(entry.uid)) {
      throw new Error(`${folder} is needed for sockets but is not a private folder of this user: remove it.`, {
        cause: error,
      })
    }
    fs.chmodSync(folder, 0o700)
  }
  return folder
}

/** Changes the owner, recursively. */
export function giveTo(path: string, uid: number, gid: number): void {
  const entry = fs.lstatSync(path)
  if (entry.uid === uid) return
  const inside = entry.isDirectory() ? fs.readdirSync(path, { recursive: true, encoding: 'utf8' }) : []
  // The outermost folder last: after a crash in between, the next start sees the old owner and repeats this.
  for (const name of [...inside, '']) fs.lchownSync(join(path, name), uid, gid)
}

interface Lock {
  readonly pid: number
  readonly start: string
  readonly nonce: string
}

/** Takes the lock, or returns the live process that holds it. */
async function acquire(path: string, mine: Lock, deadline: number): Promise<Lock | undefined> {
  for (;;) {
    if (createExclusively(path, `${mine.pid}\n${mine.start}\n${mine.nonce}\n`)) return undefined
    const other = readLock(path)
    if (other === undefined) continue
    if (isHeld(other)) return other
    // Only the holder of the guard may replace this lock, so it cannot change while we hold the guard.
    const guard = `${path}.${other.nonce}`
    const rival = await acquire(guard, mine, deadline)
    if (rival === undefined) {
      if (readLock(path)?.nonce === other.nonce) {
        fs.renameSync(guard, path)
        return undefined
      }
      fs.rmSync(guard, { force: true })
    } else {
      // The rival takes the lock within a few system calls.
      if (performance.now() > deadline) return rival
      await delay(TAKEOVER_POLL_MS)
    }
  }
}

function isHeld(lock: Lock): boolean {
  const start = processStart(lock.pid)
  return start !== undefined && start === lock.start
}

/** A lock file torn by a power failure belongs to nobody. */
function readLock(path: string): Lock | undefined {
  const text = readIfThere(path)
  if (text === undefined) return undefined
  const [pid = '', start = '', nonce = ''] = text.split('\n')
  return { pid: /^\d+$/.test(pid) ? Number(pid) : 0, start, nonce: /^[0-9a-f]{12}$/.test(nonce) ? nonce : 'torn' }
}

/** Creates the file with its content in one step; false if it exists. `link` can do that, `open` cannot. */
function createExclusively(path: string, text: string): boolean {
  const temporary = writeTemporary(path, text)
  try {
    fs.linkSync(temporary, path)
    return true
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw error
  } finally {
    fs.rmSync(temporary, { force: true })
  }
}

function writeTemporary(path: string, text: string): string {
  const temporary = `${path}.new-${randomBytes(6).toString('hex')}`
  const file = fs.openSync(temporary, 'wx', 0o600)
  try {
    fs.writeFileSync(file, text)
    fs.fsyncSync(file)
  } finally {
    fs.closeSync(file)
  }
  return temporary
}

/** A new file name is on disk only once its folder is synced. */
export function syncFolder(dir: string): void {
  const folder = fs.openSync(dir, 'r')
  try {
    fs.fsyncSync(folder)
  } finally {
    fs.closeSync(folder)
  }
}

function makeFolder(dir: string): string {
  try {
    fs.mkdirSync(resolve(dir), { recursive: true, mode: 0o700 })
    const folder = fs.realpathSync(resolve(dir))
    fs.accessSync(folder, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK)
    // A sticky folder is shared, such as /tmp: making it private would break other programs.
    if (fs.statSync(folder).mode & 0o1000) throw new Error('it is shared with other users; use a folder inside it')
    return folder
  } catch (error) {
    throw new Error(`Cannot use ${resolve(dir)} as the data folder: ${errorText(error)}.`, { cause: error })
  }
}

/** Some mounted file systems refuse chmod; that matters only if others can write to the folder. */
function makePrivate(folder: string): void {
  try {
    fs.chmodSync(folder, 0o700)
  } catch (error) {
    if (fs.statSync(folder).mode & 0o022) {
      const why = errorText(error)
      throw new Error(`Other users can write to the data folder ${folder}: ${why}.`, { cause: error })
    }
  }
}

function readIfThere(path: string): string | undefined {
  try {
    return fs.readFileSync(path, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
