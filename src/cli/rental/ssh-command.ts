/** The system's own `ssh`, with what it needs to reach a machine. */
import { spawn } from 'node:child_process'
import path from 'node:path'
import type { OwnMachine } from '../../view/own-machine.ts'
import { isLocal, type Session } from './session.ts'
import { CliError, exitCodes, type ExitCode, type Shell } from '../kit/shell.ts'

const CONNECT_TIMEOUT_S = 20

/** The SSH key of the demo account is in the data folder of a local server. ssh finds other keys itself. */
export function demoIdentity({ client, key, dataDir }: Session, shell: Shell): string | undefined {
  const file = path.join(dataDir, 'demo_ssh_key')
  const isDemo = key !== undefined && key === shell.readFile(path.join(dataDir, 'demo.key'))?.trim()
  return isDemo && isLocal(client.url) && shell.readFile(file) !== undefined ? file : undefined
}

export function sshWords(
  machine: OwnMachine,
  identity: string | undefined,
  words: readonly string[],
  flags: readonly string[] = [],
): string[] {
  const { ssh, name } = machine
  if (ssh === undefined) throw noSsh(machine)
  return [
    'ssh',
    ...flags,
    '-p',
    String(ssh.port),
    ...(identity === undefined ? [] : ['-i', identity, '-o', 'IdentitiesOnly=yes']),
    // Addresses are reused by other machines and names are not, so host keys are remembered by name.
    '-o',
    `HostKeyAlias=berth-${name}`,
    '-o',
    `ConnectTimeout=${CONNECT_TIMEOUT_S}`,
    '-o',
    'StrictHostKeyChecking=accept-new',
    `${ssh.user}@${ssh.host}`,
    ...words,
  ]
}

function noSsh({ name, kind, status }: OwnMachine): CliError {
  if (kind !== 'container' || status !== 'Running') {
    return new CliError(exitCodes.failed, `${name} is ${status}: you cannot log in.`, ['To check on it: berth ls'])
  }
  return new CliError(exitCodes.failed, `${name} has no SSH server.`, [
    `To open a terminal: berth terminal ${name}`,
    `To run a command: berth exec ${name} -- COMMAND`,
    `To copy files: berth cp FILE ${name}:PATH`,
  ])
}

export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}

export function runProgram([program = '', ...args]: readonly string[]): Promise<ExitCode> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: 'inherit' })
    child.once('error', () => reject(notInstalled(program)))
    child.once('close', (code) => resolve((code ?? exitCodes.failed) as ExitCode))
  })
}

export function notInstalled(program: string): CliError {
  return new CliError(exitCodes.failed, `${program} is not installed on this machine.`)
}
