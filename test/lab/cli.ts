/** The `berth` command next to a server whose keys are in its data folder. */
import { execFile, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { inject } from 'vitest'
import type { Keyring } from '../../src/cli/kit/keyring.ts'
import { runCli } from '../../src/cli/program.ts'
import { removeFolder } from '../harness/leftover.ts'
import { testServer, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

export interface Outcome {
  readonly code: number | null
  readonly out: string
  readonly error: string
}

/** The user of a command that runs in this process. */
export interface Front {
  /** Standard input. */
  readonly input?: string
  /** Answers to its prompts, in order; then the input ends. */
  readonly answers?: ReadonlyArray<string | (() => Promise<string>)>
  readonly keyring?: Keyring
  /** Gets the error output so far, as somebody who reads it while the command runs. */
  readonly onError?: (shown: string) => void
}

const SCREEN_COLUMNS = 80

/** Types this text when that output appears. */
export type Step = readonly [seen: string | RegExp, typed: string]

export interface CliTest {
  readonly server: TestServer
  /** The data folder, with operator.key and demo.key. */
  readonly folder: string
  /** The path to pass to `node`. */
  readonly program: string
  environment(more?: Readonly<Record<string, string>>): Record<string, string>
  /** Runs it to its end in this process, a hundred times faster than starting another one. */
  berth(args: readonly string[], env?: Readonly<Record<string, string>>, front?: Front): Promise<Outcome>
  /** The output of an 80-column terminal without colors. Throws unless it succeeds and fits. */
  onScreen(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<string>
  /** The same as users run it: the built command in its own process. */
  berthProcess(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Outcome>
  /** In a pseudo-terminal of 80 columns: `out` is the screen output without colors. */
  inTerminal(args: readonly string[], steps: readonly Step[], env?: Readonly<Record<string, string>>): Promise<Outcome>
  /** The --json output; throws unless it succeeds and prints nothing else. */
  json(...args: string[]): Promise<unknown>
  /** The command of a customer with this key. */
  as(key: string): CustomerCli
  close(): Promise<void>
}

export interface CustomerCli {
  readonly berth: (...args: string[]) => Promise<Outcome>
  /** The --json output; throws unless it succeeds and prints nothing else. */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: (...args: string[]) => Promise<any>
}

/** `serverEnv`: settings of the server. */
export async function startCliTest(serverEnv: Readonly<Record<string, string>> = {}): Promise<CliTest> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-cli-'))
  const program = path.join(path.dirname(inject('serverBundle')), 'cli.mjs')
  const server = await testServer({ env: serverEnv })
  await writeFile(path.join(folder, 'operator.key'), `${server.operatorKey}\n`)
  await writeFile(path.join(folder, 'demo.key'), `${server.demoKey}\n`)
  const environment: CliTest['environment'] = (more = {}) => ({
    BERTH_URL: server.url,
    BERTH_DATA_DIR: folder,
    XDG_CONFIG_HOME: path.join(folder, 'config'),
    ...more,
  })
  const berth: CliTest['berth'] = async (args, env, { input, answers, keyring, onError } = {}) => {
    let [out, error] = ['', '']
    const left = answers === undefined ? undefined : [...answers]
    const ask = async (question: string): Promise<string | undefined> => {
      error += `${question}\n`
      const answer = left?.shift()
      return typeof answer === 'function' ? answer() : answer
    }
    const code = await runCli(args, {
      env: environment(env),
      color: { out: false, error: false },
      write: (text) => void (out += text),
      writeError: (text) => {
        error += text
        onError?.(error)
      },
      readFile: readIfThere,
      readInput: () => input,
      ...(keyring === undefined ? {} : { keyring }),
      ...(left === undefined ? {} : { person: { ask } }),
    })
    return { code, out, error }
  }
  const json = async (args: readonly string[], env?: Readonly<Record<string, string>>) => {
    const { code, out, error } = await berth([...args, '--json'], env)
    if (code !== 0 || error !== '') throw new Error(`berth ${args.join(' ')} ended with ${code}: ${error}`)
    return JSON.parse(out)
  }
  const onScreen: CliTest['onScreen'] = async (args, env) => {
    let shown = ''
    const write = (text: string): void => void (shown += text)
    const code = await runCli(args, {
      env: environment(env),
      color: { out: true, error: true },
      write,
      writeError: write,
      columns: SCREEN_COLUMNS,
      readFile: readIfThere,
      readInput: () => undefined,
    })
    const plain = stripVTControlCharacters(shown)
    const width = Math.max(...plain.split('\n').map((line) => line.length))
    if (code === 0 && width <= SCREEN_COLUMNS) return plain
    throw new Error(`berth ${args.join(' ')} ended with ${code} and is ${width} columns wide:\n${plain}`)
  }
  const berthProcess: CliTest['berthProcess'] = (args, env) =>
    new Promise((resolve) => {
      const child = execFile(process.execPath, [program, ...args], { env: environment(env) }, (_, out, error) =>
        resolve({ code: child.exitCode, out, error }),
      )
    })
  return {
    server,
    folder,
    program,
    environment,
    berth,
    onScreen,
    berthProcess,
    inTerminal: (args, steps, env) => runInTerminal([process.execPath, program, ...args], steps, environment(env)),
    json: (...args) => json(args),
    as: (key) => ({
      berth: (...args) => berth(args, { BERTH_KEY: key }),
      json: (...args) => json(args, { BERTH_KEY: key }),
    }),
    close: async () => {
      await server.close()
      await removeFolder(folder)
    },
  }
}

async function runInTerminal(
  words: readonly string[],
  steps: readonly Step[],
  env: Readonly<Record<string, string>>,
): Promise<Outcome> {
  const command = words.map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`).join(' ')
  const child = spawn('script', ['-qec', `stty cols 80 rows 24; exec ${command}`, '/dev/null'], {
    env: { PATH: process.env['PATH'] ?? '', SHELL: '/bin/sh', TERM: 'xterm', ...env },
  })
  let [shown, error] = ['', '']
  let code: number | null | undefined
  child.stdout.on('data', (chunk: Buffer) => (shown += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (error += chunk.toString()))
  child.once('close', (exitCode) => (code = exitCode))
  let from = 0
  for (const [seen, typed] of steps) {
    from = await waitFor(`the terminal to show ${String(seen)}`, () => {
      const rest = stripVTControlCharacters(shown).slice(from)
      const at = rest.search(
        seen instanceof RegExp ? seen : new RegExp(seen.replaceAll(/[[\](){}.*+?^$|\\]/g, String.raw`\$&`)),
      )
      if (code !== undefined && at < 0) throw new Error(`It ended with ${code}: ${shown}${error}`)
      return at >= 0 && from + at + 1
    })
    child.stdin.write(typed)
  }
  await waitFor('the command to end', () => code !== undefined)
  return { code: code ?? null, out: stripVTControlCharacters(shown).replaceAll('\r\n', '\n'), error }
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
