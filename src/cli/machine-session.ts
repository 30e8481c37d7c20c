/**
 * `berth logs`, `ssh`, `terminal` and `exec`: into a machine of one's own. SSH is that of the system; the terminal goes
 * through the server, so it needs neither a key nor a way to the machine, and only containers have it.
 */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { type Command } from 'commander'
import { fail } from '../contract/result.ts'
import { apiErrorOf, isRefusal, unreachable } from '../client/error.ts'
import { passWordsOn } from './command-line.ts'
import { findOwn, NAME_HELP, readDetail, type OwnMachine } from './own-machine.ts'
import { printable, type Screen } from './screen.ts'
import { isLocal, type Run, type Session } from './session.ts'
import { CliError, exitCodes, type ExitCode, type Shell } from './shell.ts'
import { parseWhole } from './supply.ts'

const MAX_LINES = 100_000
const LINES = 1_000
/** A machine that does not answer is reported, and not waited for. */
const CONNECT_S = 20
/** A line without end is printed in pieces of this size. */
const LINE_CHARS = 65_536

export function addMachineSessionCommands(program: Command, run: Run, shell: Shell): void {
  addLogs(program, run)
  addSsh(program, run, shell)
  addTerminal(program, run)
  addExec(program, run, shell)
}

function addLogs(program: Command, run: Run): void {
  const logs = program
    .command('logs')
    .description('what a machine has written; with -f, as it writes')
    .argument('<name>', NAME_HELP)
    .option('-f, --follow', 'keep printing, until it ends or Ctrl-C')
    .option('--tail <n>', 'how many of the last lines to begin with', parseWhole(0, MAX_LINES), LINES)
  logs.action(
    run('customer', async (session, name = '') => {
      const { follow = false, tail } = logs.opts<{ follow?: true; tail: number }>()
      const machine = await findOwn(session.client, name)
      const lines = await printLines(await openLogs(session, machine, { follow, tail }), session)
      if (lines === 0) session.screen.remark('It has written nothing.')
    }),
  )
}

async function openLogs(
  { client, key }: Session,
  machine: OwnMachine,
  { follow, tail }: { follow: boolean; tail: number },
): Promise<Response> {
  const address = `${client.url}/v2/alpha/on-demand/rentals/${machine.id}/logs?follow=${follow}&tail=${tail}`
  const response = await fetch(address, { headers: { Authorization: `Bearer ${key}` } }).catch((error: unknown) => {
    throw unreachable(client.url, error)
  })
  if (!response.ok) throw apiErrorOf(response.status, response.headers, await response.text())
  return response
}

async function printLines(response: Response, { client, screen }: Session): Promise<number> {
  const decoder = new TextDecoder()
  let rest = ''
  let printed = 0
  const print = (line: string): void => {
    printed += 1
    showLine(screen, line)
  }
  try {
    for await (const chunk of response.body ?? []) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      lines.forEach(print)
      if (rest.length > LINE_CHARS) {
        print(rest)
        rest = ''
      }
    }
  } catch (error) {
    throw unreachable(client.url, error)
  }
  if (rest !== '') print(rest)
  return printed
}

/** Colours and tabs stay; everything else that a terminal would obey is shown as what it is. */
function showLine(screen: Screen, line: string): void {
  const text = line.replace(/\r$/, '')
  // eslint-disable-next-line no-control-regex
  const parts = text.split(/(\u001B\[[0-9;]{0,40}m|\t)/)
  screen.showLine({ line: text }, () => parts.map((part, index) => (index % 2 === 1 ? part : printable(part))).join(''))
}

function addSsh(program: Command, run: Run, shell: Shell): void {
  const ssh = passWordsOn(program.command('ssh'))
    .description('log into a machine, or run a command on it')
    .argument('<name>', NAME_HELP)
    .argument('[words...]', 'a command to run there, or options of ssh')
    .option('-i, --identity <file>', 'the private key to log in with')
    .option('--print', 'print the command instead of running it')
  ssh.action(
    run('customer', async (session, name = '') => {
      const { identity, print } = ssh.opts<{ identity?: string; print?: true }>()
      const machine = await findOwn(session.client, name)
      await refuseSimulated(session, machine)
      const words = sshWords(machine, identity ?? demoIdentity(session, shell), ssh.args.slice(1))
      if (print === true || session.json) {
        session.screen.show({ command: words }, () => [words.map(quote).join(' ')])
        return exitCodes.ok
      }
      return runProgram(words)
    }),
  )
}

/** Before anything waits for an address where nobody will ever answer. */
async function refuseSimulated({ client }: Session, machine: OwnMachine): Promise<void> {
  const { simulated } = await readDetail(client, machine)
  if (simulated !== 'machine') return
  const { reason, message } = fail('simulated_machine', { lacks: 'login' })
  throw new CliError(exitCodes.failed, message, simulatedNext, { reason })
}

const simulatedNext = [
  'To try it with a real machine, put this one on the marketplace: berth agent run --simulate-gpus rtx4090:2',
]

/** The demo account's key lies in the data folder of a server on this machine. Others' keys are where ssh looks. */
function demoIdentity({ client, key, dataDir }: Session, shell: Shell): string | undefined {
  const file = path.join(dataDir, 'demo_ssh_key')
  const isDemo = key !== undefined && key === shell.readFile(path.join(dataDir, 'demo.key'))?.trim()
  return isDemo && isLocal(client.url) && shell.readFile(file) !== undefined ? file : undefined
}

function sshWords(machine: OwnMachine, identity: string | undefined, words: readonly string[]): string[] {
  const { ssh, name } = machine
  if (ssh === undefined) {
    throw new CliError(exitCodes.failed, `${name} is ${machine.status}: there is nothing to log into.`, [
      'berth ls shows how it is.',
    ])
  }
  return [
    'ssh',
    '-p',
    String(ssh.port),
    ...(identity === undefined ? [] : ['-i', identity, '-o', 'IdentitiesOnly=yes']),
    // Addresses are used again by other machines, names never: what is known of a host is known by its name.
    '-o',
    `HostKeyAlias=berth-${name}`,
    '-o',
    `ConnectTimeout=${CONNECT_S}`,
    '-o',
    'StrictHostKeyChecking=accept-new',
    `${ssh.user}@${ssh.host}`,
    ...words,
  ]
}

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}

function runProgram([program = '', ...args]: readonly string[]): Promise<ExitCode> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: 'inherit' })
    child.once('error', () => reject(new CliError(exitCodes.failed, `There is no ${program} on this machine.`)))
    // The command's own code, as ssh hands it on.
    child.once('close', (code) => resolve((code ?? exitCodes.failed) as ExitCode))
  })
}

function addTerminal(program: Command, run: Run): void {
  const terminal = passWordsOn(program.command('terminal'))
    .description('a terminal in a machine, through the server')
    .argument('<name>', NAME_HELP)
    .argument('[command...]', 'the command to run instead of a shell')
  terminal.action(
    run('customer', async (session, name = '') => {
      const machine = await findOwn(session.client, name)
      await refuseSimulated(session, machine)
      return openTerminal(session, machine, terminal.args.slice(1))
    }),
  )
}

async function openTerminal(
  { client, key }: Session,
  { id }: OwnMachine,
  command: readonly string[],
): Promise<ExitCode> {
  // Instances are known by their names, terminals are opened by number.
  const { rentalId } = await client.call('getRentalMetrics', { params: { id } })
  const { runTerminal } = await import('./terminal.ts')
  const exitCode = await runTerminal({ url: client.url, key: key ?? '', rentalId, command })
  return exitCode as ExitCode
}

/** Words arrive there as they stand here, and the exit code comes back. */
function addExec(program: Command, run: Run, shell: Shell): void {
  const exec = passWordsOn(program.command('exec'))
    .description('run a command on a machine; its exit code is passed on')
    .argument('<name>', NAME_HELP)
    .argument('<command...>', 'the command to run, with its arguments')
    .option('--ssh', 'by SSH also for a container: for pipes and files')
    .option('-i, --identity <file>', 'with SSH: the private key to log in with')
  exec.action(
    run('customer', async (session, name = '') => {
      const { identity, ssh } = exec.opts<{ identity?: string; ssh?: true }>()
      const machine = await findOwn(session.client, name)
      await refuseSimulated(session, machine)
      const words = exec.args.slice(1)
      if (machine.kind === 'container' && ssh !== true) {
        try {
          return await openTerminal(session, machine, words)
        } catch (error) {
          // Not every engine lets the server in.
          if (!isRefusal(error, 'not_supported')) throw error
        }
      }
      // SSH hands one text to a shell over there.
      return runProgram(sshWords(machine, identity ?? demoIdentity(session, shell), [words.map(quote).join(' ')]))
    }),
  )
}
