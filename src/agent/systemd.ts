/** The agent as a systemd service. */
import fs from 'node:fs'
import { SECOND_MS } from '../base/instant.ts'
import { runProgram } from '../runtimes/run-program.ts'
import { AgentError } from './agent-error.ts'
import type { AgentFolder } from './folder.ts'
import { programWords } from './installation.ts'

export const UNIT = 'berth-agent.service'
export const UNIT_FILE = `/etc/systemd/system/${UNIT}`
/** Exists while systemd is the init system. */
const SYSTEMD_FOLDER = '/run/systemd/system'
const SYSTEMCTL_MS = 90 * SECOND_MS

/** Why no service can be installed here; undefined: it can. */
export function whyNoService(): string | undefined {
  if (process.getuid?.() !== 0) return 'only root can install a service'
  return fs.existsSync(SYSTEMD_FOLDER) ? undefined : 'systemd is not running here'
}

/** Starts the agent of this folder, without a service. */
export function runWords(folder: AgentFolder): readonly string[] {
  return [...programWords(), 'agent', 'run', '--dir', folder.dir]
}

/** Exit codes of an agent that was updated, and of one that its server does not know. */
interface ExitCodes {
  readonly restart: number
  readonly refused: number
}

export function unitText(folder: AgentFolder, { restart, refused }: ExitCodes): string {
  return `[Unit]
Description=Berth agent
Wants=network-online.target
After=network-online.target docker.service
StartLimitIntervalSec=0

[Service]
ExecStart=${runWords(folder).map(unitWord).join(' ')}
Restart=on-failure
RestartSec=2
# After an update, the agent ends with this status to be started again.
RestartForceExitStatus=${restart}
# The server does not know this machine: another start cannot succeed.
RestartPreventExitStatus=${refused}
# Stop only the agent: virtual machines are its children and must survive a restart.
KillMode=process

[Install]
WantedBy=multi-user.target
`
}

/** systemd expands specifiers and variables in a command. */
function unitWord(word: string): string {
  if (/^[\w./@+:,=-]+$/.test(word)) return word
  throw new AgentError(`A service cannot use the path ${word}.`, ['Use letters, digits, dots, slashes and hyphens.'])
}

/** Starts it, also after a boot. */
export async function installService(unit: string): Promise<void> {
  fs.writeFileSync(UNIT_FILE, unit)
  await systemctl('daemon-reload')
  await systemctl('enable', UNIT)
  await systemctl('restart', UNIT)
}

/** false: there is none. */
export async function removeService(): Promise<boolean> {
  if (!fs.existsSync(UNIT_FILE)) return false
  const isRunning = fs.existsSync(SYSTEMD_FOLDER)
  if (isRunning) await systemctl('disable', '--now', UNIT)
  fs.rmSync(UNIT_FILE)
  if (isRunning) await systemctl('daemon-reload')
  return true
}

async function systemctl(...args: string[]): Promise<void> {
  const options = { signal: AbortSignal.timeout(SYSTEMCTL_MS), timeoutMs: SYSTEMCTL_MS }
  try {
    await runProgram('systemctl', args, options)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new AgentError(`systemctl ${args.join(' ')} failed: ${why}`, [`See: journalctl -u ${UNIT}`], error)
  }
}
