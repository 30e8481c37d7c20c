/**
 * `berth logs`, `ssh`, `terminal` and `exec`. SSH is the system's own program; the terminals and commands of containers go
 * through the server, so they need neither an SSH key nor a route to the machine.
 */
import { isatty } from 'node:tty'
import { unreachable } from '../../client/error.ts'
import type { OwnMachine } from '../../view/own-machine.ts'
import { parsePast, parseWhole } from '../kit/flag.ts'
import { openDownload } from './download.ts'
import { ownMachine } from './own-machine.ts'
import {
  IDENTITY,
  openTerminal,
  rejectSimulated,
  remoteOptions,
  runRemote,
  runWithTerminal,
  type RemoteOptions,
} from './remote.ts'
import { custom } from '../kit/row.ts'
import { printable, type Screen } from '../kit/screen.ts'
import type { Session } from './session.ts'
import { exitCodes, type ExitCode } from '../kit/shell.ts'
import { demoIdentity, quote, runProgram, sshWords } from './ssh-command.ts'
import type { Row } from '../kit/row-type.ts'

const MAX_LINES = 100_000
const LINES = 1_000
/** A longer line is printed in pieces. */
const MAX_LINE_CHARS = 65_536

const STDIN = 0

interface LogOptions {
  readonly follow?: true
  readonly tail: number
  readonly since?: string
  readonly until?: string
  readonly search?: string
  readonly timestamps?: true
}

interface ExecOptions extends RemoteOptions {
  /** undefined: neither flag was given. */
  readonly tty?: boolean
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
    run: async ({ session, options, target: machine }) => {
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
    passesWordsOn: 'with options',
    run: async ({ session, shell, options, args, target: machine }) => {
      await rejectSimulated(session, machine)
      const words = sshWords(machine, options.identity ?? demoIdentity(session, shell), wordsIn(args))
      if (options.print !== true && !session.json) return runProgram(words)
      session.screen.show({ command: words }, () => [words.map(quote).join(' ')])
      return exitCodes.ok
    },
    notes: 'To reach a port of the machine: berth forward NAME PORT',
    examples: ['berth ssh web', 'berth ssh web nproc', 'berth ssh web -L 8080:localhost:80'],
  }),
  custom<unknown, OwnMachine>('terminal', 'open a terminal in a container, through the server', {
    ...onMachine,
    args: { '[command...]': 'command to run instead of a shell' },
    passesWordsOn: true,
    run: async ({ session, args, target: machine }) => {
      await rejectSimulated(session, machine)
      return (await openTerminal(session, machine, wordsIn(args))) as ExitCode
    },
    examples: ['berth terminal web', 'berth terminal web -- top'],
  }),
  custom<ExecOptions, OwnMachine>('exec', 'run a command on a machine and return its exit code', {
    ...onMachine,
    args: { '<command...>': 'command to run, with its arguments' },
    options: {
      '-t, --tty': 'with a terminal (default: if input and output are terminals)',
      '-T, --no-tty': 'without a terminal: input and output pass unchanged, errors apart from output',
      ...remoteOptions,
    },
    passesWordsOn: true,
    run: async ({ session, shell, options, args, target: machine }) => {
      await rejectSimulated(session, machine)
      const tty = options.tty ?? (isatty(STDIN) && process.stdout.isTTY)
      const place = { session, shell, machine, options }
      const { stdin: input, stdout: output, stderr: errors } = process
      return (await (tty
        ? runWithTerminal(place, wordsIn(args))
        : runRemote(place, wordsIn(args), { input, output, errors }))) as ExitCode
    },
    notes: 'Without a terminal, the end of input is passed on. To copy files: berth cp.',
    examples: [
      'berth exec web -- nvidia-smi',
      'berth exec web -- tar cz /srv > srv.tar.gz',
      'berth exec web -- sh -c "cat > model.bin" < model.bin',
    ],
  }),
]

function wordsIn(args: readonly unknown[]): string[] {
  return (args[1] ?? []) as string[]
}

/** The log as it comes. Without the limits of `fetch`, which gives up on an answer that is silent for five minutes. */
export async function openLogs(
  { client, key }: Session,
  machine: { readonly id: string | number },
  options: LogOptions,
): Promise<AsyncIterable<Buffer>> {
  const { follow = false, tail, since, until, search, timestamps } = options
  const query = new URLSearchParams({ follow: String(follow), tail: String(tail) })
  for (const [name, value] of Object.entries({ since, until, search, timestamps })) {
    if (value !== undefined) query.set(name, String(value))
  }
  return openDownload({ client, key }, `/v2/rentals/${machine.id}/logs?${query.toString()}`)
}

export async function printLines(log: AsyncIterable<Buffer>, { client, screen }: Session): Promise<number> {
  const decoder = new TextDecoder()
  let partialLine = ''
  let printed = 0
  const print = (line: string): void => {
    printed += 1
    showLine(screen, line)
  }
  try {
    for await (const chunk of log) {
      const lines = (partialLine + decoder.decode(chunk, { stream: true })).split('\n')
      partialLine = lines.pop() ?? ''
      lines.forEach(print)
      if (partialLine.length > MAX_LINE_CHARS) {
        print(partialLine)
        partialLine = ''
      }
    }
  } catch (error) {
    throw unreachable(client.url, error)
  }
  if (partialLine !== '') print(partialLine)
  return printed
}

/** Colors and tabs stay; other control characters are escaped. */
function showLine(screen: Screen, line: string): void {
  const content = line.replace(/\r$/, '')
  // eslint-disable-next-line no-control-regex
  const parts = content.split(/(\u001B\[[0-9;]{0,40}m|\t)/)
  screen.showLine({ line: content }, () =>
    parts.map((part, index) => (index % 2 === 1 ? part : printable(part))).join(''),
  )
}
