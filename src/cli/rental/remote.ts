/**
 * A command on a machine, with or without a terminal. Containers are reached through the server; machines whose engine
 * has no terminals, and those with `--ssh`, by SSH.
 */
import { fail } from '../../contract/result.ts'
import { isRefusal } from '../../client/error.ts'
import type { OwnMachine } from '../../view/own-machine.ts'
import { readDetail } from './own-machine.ts'
import { runOverServer, runOverSsh, type CommandStreams } from './remote-command.ts'
import type { Session } from './session.ts'
import type { SessionTarget } from './session-socket.ts'
import { CliError, exitCodes, type Shell } from '../kit/shell.ts'
import { demoIdentity, quote, runProgram, sshWords } from './ssh-command.ts'

export const IDENTITY = '-i, --identity <file>'

export interface RemoteOptions {
  readonly identity?: string
  readonly ssh?: true
}

export const remoteOptions = {
  '--ssh': 'use SSH for a container too',
  [IDENTITY]: 'with SSH: private key to log in with',
}

export interface Remote {
  readonly session: Session
  readonly shell: Shell
  readonly machine: OwnMachine
  readonly options: RemoteOptions
}

/** Resolves with the exit code. */
export function runRemote(remote: Remote, command: readonly string[], streams: CommandStreams): Promise<number> {
  return eitherWay(remote, command, {
    overServer: (target) => runOverServer(target, streams),
    overSsh: (words) => runOverSsh(words, streams),
    sshFlag: '-T',
  })
}

/** Runs a command with this terminal as its terminal. */
export function runWithTerminal(remote: Remote, command: readonly string[]): Promise<number> {
  return eitherWay(remote, command, {
    overServer: async (target) => (await import('./terminal.ts')).runTerminal(target),
    overSsh: runProgram,
    sshFlag: '-t',
  })
}

interface Ways {
  readonly overServer: (target: SessionTarget) => Promise<number>
  readonly overSsh: (words: readonly string[]) => Promise<number>
  readonly sshFlag: string
}

async function eitherWay(remote: Remote, command: readonly string[], ways: Ways): Promise<number> {
  const { session, shell, machine, options } = remote
  if (machine.kind === 'container' && options.ssh !== true) {
    try {
      return await ways.overServer(await sessionTarget(session, machine, command))
    } catch (error) {
      // Not every engine can run commands.
      if (!isRefusal(error, 'not_supported')) throw error
    }
  }
  const identity = options.identity ?? demoIdentity(session, shell)
  // SSH passes a single text to the remote shell.
  return ways.overSsh(sshWords(machine, identity, [command.map(quote).join(' ')], [ways.sshFlag]))
}

export async function openTerminal(session: Session, machine: OwnMachine, command: readonly string[]): Promise<number> {
  const { runTerminal } = await import('./terminal.ts')
  return runTerminal(await sessionTarget(session, machine, command))
}

async function sessionTarget(
  { client, key = '' }: Session,
  { id }: OwnMachine,
  command: readonly string[],
): Promise<SessionTarget> {
  // Instances are listed by name, and terminals are opened by number.
  const { rentalId } = await client.call('getRentalMetrics', { params: { id } })
  return { url: client.url, key, rentalId, command }
}

/** Before anything waits for an address that never answers. */
export async function rejectSimulated({ client }: Session, machine: OwnMachine): Promise<void> {
  const { simulated } = await readDetail(client, machine)
  if (simulated !== 'machine') return
  const { reason, message } = fail('simulated_machine', { lacks: 'login' })
  throw new CliError(exitCodes.failed, message, simulatedNext, { reason })
}

const simulatedNext = ['To try it on a real machine, offer this one: berth agent run --simulate-gpus rtx4090:2']
