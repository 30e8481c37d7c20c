/**
 * One agent per machine: a second one would offer the same GPUs, which would be rented twice. The lock of the agent's
 * folder does not notice that, since each agent has a folder of its own, so this one is where all agents of a user meet.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { AgentError } from './agent-error.ts'
import { takeLock } from './folder.ts'

/** Emptied at a boot, so that it holds no process of an earlier one. */
const SHARED = '/run'

function claimsFolder(): string {
  const uid = process.getuid?.() ?? 0
  return uid === 0 && fs.existsSync(SHARED)
    ? path.join(SHARED, 'berth-agent')
    : path.join(os.tmpdir(), `berth-agent-${uid}`)
}

interface Claim {
  readonly isSimulated: boolean
  /** The socket of its container engine. undefined: virtual machines. */
  readonly socketPath: string | undefined
}

/** Claims the machine until this process ends. Returns notes for the owner. Throws if its GPUs would be offered twice. */
export function claimMachine({ isSimulated, socketPath }: Claim, folder = claimsFolder()): readonly string[] {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  const rival = isSimulated ? undefined : takeLock(path.join(folder, 'gpus.pid'))
  if (rival !== undefined) {
    throw new AgentError(`Another agent (process ${rival}) already offers the GPUs of this machine.`, [
      'One agent offers all GPUs of a machine. Stop the other one first: berth agent status --dir FOLDER shows what it does.',
    ])
  }
  const neighbor = socketPath === undefined ? undefined : takeLock(path.join(folder, `${engineName(socketPath)}.pid`))
  if (neighbor === undefined) return []
  return [
    `Another agent (process ${neighbor}) uses this container engine too: tenants of both share its CPUs, memory and disk, which are sold twice.`,
  ]
}

/** The same for all names of the socket, such as /run/docker.sock and /var/run/docker.sock. */
function engineName(socketPath: string): string {
  const { dev, ino } = fs.statSync(socketPath)
  return `engine-${dev}-${ino}`
}
