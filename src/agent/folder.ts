/**
 * The agent's folder: its key, what it joined, which GPUs it had, and the last thing that was wanted of it. Only its
 * own user can read it, files are replaced as a whole, and one agent at a time holds it. A lock that a kill left behind
 * is replaced only under a guard that is named after that very lock, so two starters cannot both take it over.
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
  /** undefined: there is no such file. Throws where it cannot be read as what it should be. */
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
/** Nobody takes a lock over more often than this many have died while they did. */
const MAX_GUARDS = 8

/** Makes it where it is missing. Throws one sentence where it cannot be had. */
export function openAgentFolder(dir: string): AgentFolder {
  const folder = path.resolve(dir)
  try {
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    // A sticky folder is shared, such as /tmp: closing it to the others would break their programs.
    if (fs.statSync(folder).mode & 0o1000) throw new Error('it is shared with other users; name a folder inside it')
    fs.chmodSync(folder, 0o700)
  } catch (error) {
    const next = ['Another one is named with --dir.']
    throw new AgentError(`Cannot use ${folder} as the agent's folder: ${words(error)}.`, next, error)
  }
  const at = (name: string): string => path.join(folder, name)
  const readText = (name: string): string | undefined => readIfThere(at(name))
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
        throw new AgentError(`${at(name)} cannot be read: ${words(error)}`, [], error)
      }
    },
    writeJson: (name, value) => writeText(name, `${JSON.stringify(value, null, 2)}\n`),
    remove: (name) => fs.rmSync(at(name), { force: true }),
  }
}

/** Throws one sentence where another agent holds it. */
export function lockFolder(folder: AgentFolder): FolderLock {
  const lock = path.join(folder.dir, LOCK_NAME)
  const nonce = randomBytes(6).toString('hex')
  const mine = `${process.pid}\n${processStart(process.pid) ?? ''}\n${nonce}\n`
  const holder = acquire(lock, mine, MAX_GUARDS)
  if (holder !== undefined) {
    throw new AgentError(`Another agent (process ${holder}) runs on the folder ${folder.dir}.`, [
      'berth agent status shows what it does; another folder is named with --dir.',
    ])
  }
  return {
    release: () => {
      if (readIfThere(lock) === mine) fs.rmSync(lock, { force: true })
    },
  }
}

/** Takes it and returns undefined, or returns the process that holds it or is about to. */
function acquire(file: string, mine: string, guardsLeft: number): string | undefined {
  if (createExclusively(file, mine)) return undefined
  const [pid = '', start = '', nonce = ''] = (readIfThere(file) ?? '').split('\n')
  if (start !== '' && processStart(Number(pid)) === start) return pid
  const guard = `${file}.${/^[0-9a-f]{12}$/.test(nonce) ? nonce : 'torn'}`
  const rival = guardsLeft === 0 ? pid : acquire(guard, mine, guardsLeft - 1)
  if (rival !== undefined) return rival
  // Under the guard nobody else replaces this lock, so what is read now stays true.
  const [, , nonceNow = ''] = (readIfThere(file) ?? '').split('\n')
  if (nonceNow === nonce) {
    fs.renameSync(guard, file)
    return undefined
  }
  fs.rmSync(guard, { force: true })
  return acquire(file, mine, guardsLeft)
}

/** The file appears with all of its text, or not at all. */
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
    // On a full disk what was begun would only be in the way.
    fs.rmSync(temporary, { force: true })
    throw error
  } finally {
    fs.closeSync(opened)
  }
  return temporary
}

/** A new name is on the disk only once its folder is. */
function syncFolder(dir: string): void {
  const opened = fs.openSync(dir, 'r')
  try {
    fs.fsyncSync(opened)
  } finally {
    fs.closeSync(opened)
  }
}

function readIfThere(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch (error) {
    // ESRCH: the process ended while its file was read.
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH'))
      return undefined
    throw error
  }
}

function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
