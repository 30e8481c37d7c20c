/**
 * The folder of each machine, `vms/<id>/`, and its process. There is no other state: the machines are those with a folder,
 * and the running ones those with a process whose arguments name the folder. So a stale pid file cannot mislead us.
 *
 *   spec.json     its tag and size; written first
 *   overlay.qcow2 its disk
 *   seed.iso      its name and keys
 *   booted        SSH has answered since QEMU started
 *   end.json      why it ended by itself; it is not restarted
 *   halted        it was turned off on request, so its end is not a failure
 *   reboots       the number of its reboots
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { rentalOutcomes, type RentalOutcome } from '../../contract/rental-outcome.ts'
import { z } from 'zod'

const spec = z.object({ tag: z.string(), sshUser: z.string() })
export type MachineSpec = z.output<typeof spec>

const end = z.object({
  failure: z.enum(Object.keys(rentalOutcomes) as RentalOutcome[]).catch('engine_failure'),
  message: z.string(),
})
export type MachineEnd = z.output<typeof end>

export interface MachineFiles {
  readonly folder: string
  readonly spec: string
  readonly overlay: string
  readonly seed: string
  readonly booted: string
  readonly end: string
  readonly halted: string
  readonly reboots: string
  readonly console: string
  /** Console output from before the truncation. */
  readonly oldConsole: string
  /** The sizes of `console` over time; `oldConsoleTimes` has those of `oldConsole` (console-times.ts). */
  readonly consoleTimes: string
  readonly oldConsoleTimes: string
  /** QEMU's stderr. */
  readonly stderr: string
  readonly pid: string
}

const PLAIN_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/
const TRASH_PREFIX = '.removing-'
const POLL_MS = 20
const removeOptions = { recursive: true, force: true, maxRetries: 5 } as const
/** The monitor socket, in the machine's folder. */
export const MONITOR_SOCKET = 'monitor'

/** Ids become file names, so they must not contain path separators or begin with a dot. */
export function isPlainName(id: string): boolean {
  return PLAIN_NAME.test(id)
}

export function machineFiles(root: string, id: string): MachineFiles {
  if (!isPlainName(id)) throw new Error(`${JSON.stringify(id)} is not a valid folder name`)
  const folder = path.join(root, 'vms', id)
  const file = (name: string): string => path.join(folder, name)
  return {
    folder,
    spec: file('spec.json'),
    overlay: file('overlay.qcow2'),
    seed: file('seed.iso'),
    booted: file('booted'),
    end: file('end.json'),
    halted: file('halted'),
    reboots: file('reboots'),
    console: file('console.log'),
    oldConsole: file('console.old.log'),
    consoleTimes: file('console.times'),
    oldConsoleTimes: file('console.old.times'),
    stderr: file('qemu.log'),
    pid: file('pid'),
  }
}

/**
 * Creates a folder that other users can traverse but not list. Its parent is closed to them, so only processes that
 * were started inside it get that far.
 */
export async function makeFolder(folder: string): Promise<void> {
  await fs.mkdir(folder, { recursive: true, mode: 0o711 })
  await fs.chmod(folder, 0o711)
}

/** Only the machine's user may traverse its folder, and only we may change it. */
export async function allowUser(files: MachineFiles, user: number): Promise<void> {
  await fs.chown(files.folder, 0, user)
  await fs.chmod(files.folder, 0o710)
}

/** Ids of all machines with a folder. Removes leftovers of earlier removals. */
export async function listMachineIds(root: string): Promise<string[]> {
  const names = await fs.readdir(path.join(root, 'vms')).catch(unlessGone<string[]>([]))
  for (const name of names.filter((entry) => entry.startsWith(TRASH_PREFIX))) {
    await fs.rm(path.join(root, 'vms', name), removeOptions)
  }
  return names.filter(isPlainName)
}

/**
 * Renames the folder first, so that a machine is never listed with half of its files. The removal retries, because a
 * dying process may still add a file.
 */
export async function removeMachine(root: string, id: string): Promise<void> {
  const trash = path.join(root, 'vms', `${TRASH_PREFIX}${id}`)
  await fs.rm(trash, removeOptions)
  await fs.rename(machineFiles(root, id).folder, trash).catch(unlessGone(undefined))
  await fs.rm(trash, removeOptions)
}

export async function readSpec(files: MachineFiles): Promise<MachineSpec | undefined> {
  const text = await fs.readFile(files.spec, 'utf8').catch(unlessGone(undefined))
  return text === undefined ? undefined : spec.parse(JSON.parse(text))
}

export async function readEnd(files: MachineFiles): Promise<MachineEnd | undefined> {
  const text = await fs.readFile(files.end, 'utf8').catch(unlessGone(undefined))
  return text === undefined ? undefined : end.parse(JSON.parse(text))
}

/** Keeps the reason that was recorded first. */
export async function writeEnd(files: MachineFiles, value: MachineEnd): Promise<void> {
  if ((await readEnd(files)) === undefined)
    await replaceFile(files.end, JSON.stringify(value)).catch(unlessGone(undefined))
}

export async function readReboots(files: MachineFiles): Promise<number> {
  return Number.parseInt(await fs.readFile(files.reboots, 'utf8').catch(unlessGone('0')), 10)
}

/** Replaces the file at once: a reader never sees half of it. */
export async function replaceFile(file: string, text: string): Promise<void> {
  await fs.writeFile(`${file}.new`, text, { mode: 0o600 })
  await fs.rename(`${file}.new`, file)
}

export async function isThere(file: string): Promise<boolean> {
  return (await fs.stat(file).catch(unlessGone(undefined))) !== undefined
}

/** Finds the processes of each machine, without zombies, which have no arguments. */
export async function findProcesses(root: string): Promise<Map<string, number[]>> {
  const machines = path.join(root, 'vms') + path.sep
  const pidsById = new Map<string, number[]>()
  for (const name of (await fs.readdir('/proc')).filter((entry) => /^\d+$/.test(entry))) {
    const args = (await fs.readFile(`/proc/${name}/cmdline`, 'utf8').catch(unlessGone(''))).split('\0')
    if (!path.basename(args[0] ?? '').startsWith('qemu-system-')) continue
    const pidFile = args[args.indexOf('-pidfile') + 1]
    if (pidFile === undefined || !pidFile.startsWith(machines)) continue
    const id = path.basename(path.dirname(pidFile))
    pidsById.set(id, [...(pidsById.get(id) ?? []), Number(name)])
  }
  return pidsById
}

/** Returns the uptime of a process by the host's clock. undefined: the process has ended. */
export async function processAgeMs(pid: number): Promise<number | undefined> {
  const stat = await fs.readFile(`/proc/${pid}/stat`, 'utf8').catch(unlessGone(undefined))
  if (stat === undefined) return undefined
  // The name in parentheses may contain spaces; the start time is the 20th field after it, in 1/100 s.
  const startedAt = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]) * 10
  const uptime = Number((await fs.readFile('/proc/uptime', 'utf8')).split(' ')[0]) * 1_000
  return Math.max(0, uptime - startedAt)
}

/**
 * Whether the process still has a live thread. A dying process loses its arguments long before it frees memory and files,
 * and its first thread may end before the others.
 */
export async function isRunning(pid: number): Promise<boolean> {
  const stat = await fs.readFile(`/proc/${pid}/stat`, 'utf8').catch(unlessGone(''))
  if (stat === '') return false
  const state = stat.charAt(stat.lastIndexOf(')') + 2)
  if (state !== 'Z' && state !== 'X') return true
  return (await fs.readdir(`/proc/${pid}/task`).catch(unlessGone<string[]>([]))).length > 1
}

/** Waits until all processes have ended. false: one still runs after the time limit. */
export async function waitForExit(pids: readonly number[], timeoutMs: number, signal: AbortSignal): Promise<boolean> {
  const deadline = performance.now() + timeoutMs
  for (const pid of pids) {
    while (await isRunning(pid)) {
      signal.throwIfAborted()
      if (performance.now() > deadline) return false
      await pause(POLL_MS)
    }
  }
  return true
}

/** Kills a process; one that has already ended is ignored. */
export function killNow(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    unlessGone(undefined)(error)
  }
}

/** A handler for `catch` that returns `value` if the file is missing or the process has ended. */
export function unlessGone<T>(value: T): (error: unknown) => T {
  return (error) => {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'ESRCH') return value
    throw error
  }
}

/** Identifies the current boot of the host. A pid is unique only within one boot. */
export async function bootId(): Promise<string> {
  return (await fs.readFile('/proc/sys/kernel/random/boot_id', 'utf8')).slice(0, 8)
}
