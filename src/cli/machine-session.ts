/**
 * `berth logs`, `ssh`, `terminal` and `exec`. SSH is the system's own program; a terminal goes through the server, so it
 * needs neither an SSH key nor a route to the machine, and only containers have it.
 */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { fail } from '../contract/result.ts'
import { apiErrorOf, isRefusal, unreachable } from '../client/error.ts'
import type { OwnMachine } from '../view/own-machine.ts'
import { parsePast, parseWhole } from './flag.ts'
import { ownMachine, readDetail } from './own-machine.ts'
import { custom } from './row.ts'
import { printable, type Screen } from './screen.ts'
import { isLocal, type Session } from './session.ts'
import { CliError, exitCodes, type ExitCode, type Shell } from './shell.ts'
import type { Row } from './row-type.ts'

const MAX_LINES = 100_000
const LINES = 1_000
const CONNECT_TIMEOUT_S = 20
/** A longer line is printed in pieces. */
const MAX_LINE_CHARS = 65_536

const IDENTITY = '-i, --identity <file>'

interface LogOptions {
  readonly follow?: true
  readonly tail: number
  readonly since?: string
  readonly until?: string
  readonly search?: string
  readonly timestamps?: true
}

/** The account's machine that the first argument names. */
const onMachine = { target: ownMachine, who: 'customer' } as const

export const rows: readonly Row[] = [
  custom<LogOptions, OwnMachine>('logs', 'print the log of a machine; with -f, follow it', {
    ...onMachine,
    options: {
      '-f, --follow': 'keep printing until it ends or Ctrl-C',
      '--tail <n>': {
        help: 'number of last lines to start with',
        parse: parseWhole(0, MAX_LINES),
        default: LINES,
      },
      '--since <when>': { help: 'only lines from this time or span on, such as 30m', parse: parsePast },
      '--until <when>': { help: 'only lines before this time or span', parse: parsePast },
      '--search <text>': 'only lines that contain this text; --tail counts them',
      '--timestamps': 'start each line with its time',
    },
    run: async ({ session, options, found: machine }) => {
      const lines = await printLines(await openLogs(session, machine, options), session)
      const isFiltered = [options.since, options.until, options.search].some((one) => one !== undefined)
      if (lines === 0) session.screen.remark(isFiltered ? 'No lines match.' : 'The log is empty.')
    },
    examples: ['berth logs web --tail 100 -f', 'berth logs web --since 2h --search error --timestamps'],
  }),
  custom<{ identity?: string; print?: true }, OwnMachine>('ssh', 'log in to a machine, or run a command on it', {
    ...onMachine,
    args: { '[words...]': 'command to run there, or options for ssh' },
    options: {
      [IDENTITY]: 'private key to log in with',
      '--print': 'print the ssh command instead of running it',
    },
    passesWordsOn: true,
    run: async ({ session, shell, options, args, found: machine }) => {
      await rejectSimulated(session, machine)
      const words = sshWords(machine, options.identity ?? demoIdentity(session, shell), wordsIn(args))
      if (options.print !== true && !session.json) return runProgram(words)
      session.screen.show({ command: words }, () => [words.map(quote).join(' ')])
      return exitCodes.ok
    },
    examples: ['berth ssh web', 'berth ssh web -- nproc'],
  }),
  custom<unknown, OwnMachine>('terminal', 'open a terminal in a container, through the server', {
    ...onMachine,
    args: { '[command...]': 'command to run instead of a shell' },
    passesWordsOn: true,
    run: async ({ session, args, found: machine }) => {
      await rejectSimulated(session, machine)
      return openTerminal(session, machine, wordsIn(args))
    },
    examples: ['berth terminal web', 'berth terminal web -- top'],
  }),
  custom<{ identity?: string; ssh?: true }, OwnMachine>('exec', 'run a command on a machine and return its exit code', {
    ...onMachine,
    args: { '<command...>': 'command to run, with its arguments' },
    options: {
      '--ssh': 'use SSH for a container too: for pipes and files',
      [IDENTITY]: 'with SSH: private key to log in with',
    },
    passesWordsOn: true,
    run: async ({ session, shell, options, args, found: machine }) => {
      await rejectSimulated(session, machine)
      const words = wordsIn(args)
      if (machine.kind === 'container' && options.ssh !== true) {
        try {
          return await openTerminal(session, machine, words)
        } catch (error) {
          // Not every engine can open a terminal.
          if (!isRefusal(error, 'not_supported')) throw error
        }
      }
      // SSH passes a single text to the remote shell.
      const identity = options.identity ?? demoIdentity(session, shell)
      return runProgram(sshWords(machine, identity, [words.map(quote).join(' ')]))
    },
    examples: ['berth exec web -- nvidia-smi', 'berth exec web --ssh -- tar c /srv > srv.tar'],
  }),
]

function wordsIn(args: readonly unknown[]): string[] {
  return (args[1] ?? []) as string[]
}

export async function openLogs(
  { client, key }: Session,
  machine: { readonly id: string | number },
  options: LogOptions,
): Promise<Response> {
  const { follow = false, tail, since, until, search, timestamps } = options
  const query = new URLSearchParams({ follow: String(follow), tail: String(tail) })
  for (const [name, value] of Object.entries({ since, until, search, timestamps })) {
    if (value !== undefined) query.set(name, String(value))
  }
  const address = `${client.url}/v2/alpha/on-demand/rentals/${machine.id}/logs?${query.toString()}`
  const response = await fetch(address, { headers: { Authorization: `Bearer ${key}` } }).catch((error: unknown) => {
    throw unreachable(client.url, error)
  })
  if (!response.ok) throw apiErrorOf(response.status, response.headers, await response.text())
  return response
}

export async function printLines(response: Response, { client, screen }: Session): Promise<number> {
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
      if (rest.length > MAX_LINE_CHARS) {
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

/** Colours and tabs stay; other control characters are escaped. */
function showLine(screen: Screen, line: string): void {
  const text = line.replace(/\r$/, '')
  // eslint-disable-next-line no-control-regex
  const parts = text.split(/(\u001B\[[0-9;]{0,40}m|\t)/)
  screen.showLine({ line: text }, () => parts.map((part, index) => (index % 2 === 1 ? part : printable(part))).join(''))
}

/** Before anything waits for an address that never answers. */
async function rejectSimulated({ client }: Session, machine: OwnMachine): Promise<void> {
  const { simulated } = await readDetail(client, machine)
  if (simulated !== 'machine') return
  const { reason, message } = fail('simulated_machine', { lacks: 'login' })
  throw new CliError(exitCodes.failed, message, simulatedNext, { reason })
}

const simulatedNext = ['To try it on a real machine, offer this one: berth agent run --simulate-gpus rtx4090:2']

/** The SSH key of the demo account is in the data folder of a local server. ssh finds other keys itself. */
function demoIdentity({ client, key, dataDir }: Session, shell: Shell): string | undefined {
  const file = path.join(dataDir, 'demo_ssh_key')
  const isDemo = key !== undefined && key === shell.readFile(path.join(dataDir, 'demo.key'))?.trim()
  return isDemo && isLocal(client.url) && shell.readFile(file) !== undefined ? file : undefined
}

function sshWords(machine: OwnMachine, identity: string | undefined, words: readonly string[]): string[] {
  const { ssh, name } = machine
  if (ssh === undefined) {
    throw new CliError(exitCodes.failed, `${name} is ${machine.status}: you cannot log in.`, [
      'To check on it: berth ls',
    ])
  }
  return [
    'ssh',
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

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}

function runProgram([program = '', ...args]: readonly string[]): Promise<ExitCode> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: 'inherit' })
    child.once('error', () => reject(new CliError(exitCodes.failed, `${program} is not installed on this machine.`)))
    child.once('close', (code) => resolve((code ?? exitCodes.failed) as ExitCode))
  })
}

async function openTerminal(
  { client, key }: Session,
  { id }: OwnMachine,
  command: readonly string[],
): Promise<ExitCode> {
  // Instances are listed by name, and terminals are opened by number.
  const { rentalId } = await client.call('getRentalMetrics', { params: { id } })
  const { runTerminal } = await import('./terminal.ts')
  const exitCode = await runTerminal({ url: client.url, key: key ?? '', rentalId, command })
  return exitCode as ExitCode
}
