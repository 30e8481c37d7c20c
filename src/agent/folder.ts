/**
 * The agent's folder: key, membership, known GPUs and the last desired state. Only its own user can read it, files are
 * replaced atomically, and one agent at a time holds its lock. A stale lock is replaced only under a guard named after
 * that very lock, so two agents that start at once cannot both take it over.
 */
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import type { z } from 'zod'
import { processStart } from '../base/process-start.ts'
import { AgentError } from './agent-error.ts'

export interface AgentFolder {
  /** Absolute. */
  readonly dir: string
  /** undefined: no such file. Throws when the content does not match the schema. */
  readJson<T>(name: string, schema: z.ZodType<T>): T | undefined
  writeJson(name: string, value: unknown): void
  readText(name: string): string | undefined
  writeText(name: string, text: string): void
  remove(name: string): void
}

export interface FolderLock {
  release(): void
}

const LOCK_NAME = 'agent.pid'
/** How many agents may have died while taking over the lock. */
const MAX_GUARDS = 8

/** Creates the folder if needed. Throws a sentence for the user when it cannot be used. */
export function openAgentFolder(dir: string): AgentFolder {
  const folder = path.resolve(dir)
  try {
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    // A sticky folder such as /tmp is shared: making it private would break other users' programs.
    if (fs.statSync(folder).mode & 0o1000) throw new Error('it is shared with other users; use a folder inside it')
    fs.chmodSync(folder, 0o700)
  } catch (error) {
    const next = ['Choose another one with --dir.']
    throw new AgentError(`Cannot use ${folder} as the agent's folder: ${messageOf(error)}.`, next, error)
  }
  const at = (name: string): string => path.join(folder, name)
  const readText = (name: string): string | undefined => readIfExists(at(name))
  const writeText = (name: string, text: string): void => {
    fs.renameSync(writeTemporary(at(name), text), at(name))
    syncFolder(folder)
  }
  return {
    dir: folder,
    readText,
    writeText,
    readJson: (name, schema) => {
      const text = readText(name)
      if (text === undefined) return undefined
      try {
        return schema.parse(JSON.parse(text))
      } catch (error) {
        throw new AgentError(`Cannot read ${at(name)}: ${messageOf(error)}`, [], error)
      }
    },
    writeJson: (name, value) => writeText(name, `${JSON.stringify(value, null, 2)}\n`),
    remove: (name) => fs.rmSync(at(name), { force: true }),
  }
}

/** Throws a sentence for the user when another agent holds the lock. */
export function lockFolder(folder: AgentFolder): FolderLock {
  const lock = path.join(folder.dir, LOCK_NAME)
  const owner = ownMark()
  const holder = acquire(lock, owner, MAX_GUARDS)
  if (holder !== undefined) {
    throw new AgentError(`Another agent (process ${holder}) is using ${folder.dir}.`, [
      'See what it does with berth agent status, or choose another folder with --dir.',
    ])
  }
  return {
    release: () => {
      if (readIfExists(lock) === owner) fs.rmSync(lock, { force: true })
    },
  }
}

/** Takes a lock until this process ends and returns undefined, or returns the process that holds it. */
export function takeLock(file: string): string | undefined {
  const owner = ownMark()
  const holder = acquire(file, owner, MAX_GUARDS)
  if (holder !== undefined) return holder === String(process.pid) ? undefined : holder
  process.once('exit', () => {
    if (readIfExists(file) === owner) fs.rmSync(file, { force: true })
  })
  return undefined
}

function ownMark(): string {
  return `${process.pid}\n${processStart(process.pid) ?? ''}\n${randomBytes(6).toString('hex')}\n`
}

/** Takes the lock and returns undefined, or returns the process that holds it or is about to. */
function acquire(file: string, owner: string, guardsLeft: number): string | undefined {
  if (createExclusively(file, owner)) return undefined
  const [pid = '', start = '', nonce = ''] = (readIfExists(file) ?? '').split('\n')
  if (start !== '' && processStart(Number(pid)) === start) return pid
  const guard = `${file}.${/^[0-9a-f]{12}$/.test(nonce) ? nonce : 'torn'}`
  const rival = guardsLeft === 0 ? pid : acquire(guard, owner, guardsLeft - 1)
  if (rival !== undefined) return rival
  // Under the guard nobody else replaces this lock, so this read stays valid.
  const [, , nonceNow = ''] = (readIfExists(file) ?? '').split('\n')
  if (nonceNow === nonce) {
    fs.renameSync(guard, file)
    return undefined
  }
  fs.rmSync(guard, { force: true })
  return acquire(file, owner, guardsLeft)
}

/** The file appears with its whole text, or not at all. */
function createExclusively(file: string, text: string): boolean {
  const temporary = writeTemporary(file, text)
  try {
    fs.linkSync(temporary, file)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  } finally {
    fs.rmSync(temporary, { force: true })
  }
}

function writeTemporary(file: string, text: string): string {
  const temporary = `${file}.new-${randomBytes(6).toString('hex')}`
  const opened = fs.openSync(temporary, 'wx', 0o600)
  try {
    fs.writeFileSync(opened, text)
    fs.fsyncSync(opened)
  } catch (error) {
    // On a full disk the partial file would only take up space.
    fs.rmSync(temporary, { force: true })
    throw error
  } finally {
    fs.closeSync(opened)
  }
  return temporary
}

/** A new name is durable only once its folder is synced. */
function syncFolder(dir: string): void {
  const opened = fs.openSync(dir, 'r')
  try {
    fs.fsyncSync(opened)
  } finally {
    fs.closeSync(opened)
  }
}

function readIfExists(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch (error) {
    // ESRCH: the process ended while its file was read.
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH'))
      return undefined
    throw error
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
