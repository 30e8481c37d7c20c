/**
 * Creates a machine's files and starts its process. QEMU runs in its own session and outlives us; its working folder is
 * the machine's, which holds the monitor socket and its stderr.
 */
import { spawn } from 'node:child_process'
import fs from 'node:fs/promises'
import os from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import type { BaseImage } from './base-image.ts'
import { qemuProgram, SANDBOX } from './command-line.ts'
import { isThere, MONITOR_SOCKET, unlessGone, type MachineFiles } from './machine-files.ts'
import { findProgram, programEnvironment, runProgram } from '../run-program.ts'
import { NeverStarts } from '../runtime.ts'

const IMAGE_MS = 60_000
const PROBE_MS = 15_000
const SOCKET_MS = 20_000
const POLL_MS = 20
const MAX_STDERR_CHARS = 500
const MIN_MIB = 192
const GIB = 1_073_741_824

/** The size of the machine, limited by the host. */
export function sizeOf(
  resources: { cpuCount: number; ramGb: number },
  most: { readonly maxMemoryMib?: number; readonly maxCpus?: number },
): { memoryMib: number; cpus: number } {
  const hostMib = Math.floor(os.totalmem() / 1_048_576)
  const maxMib = Math.min(hostMib, most.maxMemoryMib ?? hostMib)
  const maxCpus = Math.min(os.availableParallelism(), most.maxCpus ?? Number.POSITIVE_INFINITY)
  return {
    memoryMib: Math.max(MIN_MIB, Math.min(Math.floor(resources.ramGb * 1_024), maxMib)),
    cpus: Math.max(1, Math.min(Math.ceil(resources.cpuCount), maxCpus)),
  }
}

/** The machine's disk. An existing one is kept. */
export async function makeDisk(
  files: MachineFiles,
  base: BaseImage | null,
  { storageGb, hasRun }: { readonly storageGb: number; readonly hasRun: boolean },
  signal: AbortSignal,
): Promise<void> {
  if (await isThere(files.overlay)) return
  if (hasRun) throw new NeverStarts('vanished', 'The disk of the machine disappeared from its host.')
  const sizeBytes = Math.max(base?.sizeBytes ?? 0, Math.ceil(Math.max(1, storageGb)) * GIB)
  const backing = base === null ? [] : ['-b', base.file, '-F', base.format]
  const newOverlay = `${files.overlay}.new`
  const args = ['create', '-q', '-f', 'qcow2', ...backing, newOverlay, String(sizeBytes)]
  await runProgram('qemu-img', args, { signal, timeoutMs: IMAGE_MS })
  await fs.rename(newOverlay, files.overlay)
}

/** Starts QEMU and waits for its monitor. Throws with QEMU's stderr when it fails. */
export async function launch(
  arch: 'x64' | 'arm64',
  args: readonly string[],
  files: MachineFiles,
  connect: () => Promise<unknown>,
): Promise<void> {
  const socket = `${files.folder}/${MONITOR_SOCKET}`
  await fs.rm(socket, { force: true })
  await fs.rm(files.booted, { force: true })
  const stderrFile = await fs.open(files.stderr, 'w', 0o600)
  const child = spawn(findProgram(qemuProgram(arch)), args, {
    detached: true,
    cwd: files.folder,
    env: programEnvironment,
    stdio: ['ignore', stderrFile.fd, stderrFile.fd],
  })
  child.unref()
  let ended: string | undefined
  child.once('exit', (code, signal) => (ended = `ended with ${code ?? signal}`))
  child.once('error', (error) => (ended = error.message))
  try {
    const until = performance.now() + SOCKET_MS
    // QEMU answers once all devices exist.
    while (!(await isThere(socket)) || !(await isTaken(connect))) {
      if (ended !== undefined) throw new Error(`it ${ended}`)
      if (performance.now() > until) throw new Error(`its monitor did not open within ${SOCKET_MS} ms`)
      await pause(POLL_MS)
    }
  } catch (error) {
    child.kill('SIGKILL')
    const stderr = (await fs.readFile(files.stderr, 'utf8').catch(unlessGone(''))).trim().slice(-MAX_STDERR_CHARS)
    const cause = error instanceof Error ? error.message : String(error)
    throw new Error(`QEMU did not start: ${stderr === '' ? cause : stderr}`, { cause: error })
  } finally {
    await stderrFile.close()
  }
}

/** The socket file appears a moment before QEMU listens on it. */
async function isTaken(connect: () => Promise<unknown>): Promise<boolean> {
  try {
    await connect()
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED') return false
    throw error
  }
}

/** Builds without a sandbox reject the option only when they start. */
export async function hasSandbox(arch: 'x64' | 'arm64', signal: AbortSignal): Promise<boolean> {
  const args = ['-machine', 'none', '-nodefaults', '-display', 'none', '-sandbox', SANDBOX, '-qmp', 'stdio']
  const input = '{"execute":"qmp_capabilities"}{"execute":"quit"}'
  try {
    await runProgram(qemuProgram(arch), args, { signal, timeoutMs: PROBE_MS, input })
    return true
  } catch (error) {
    if (error instanceof Error && error.message.includes('sandbox')) return false
    throw error
  }
}
