/** The `berth` command, beside a server whose keys lie in its data folder. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { inject } from 'vitest'
import { runCli } from '../../src/cli/program.ts'
import { removeFolder } from './leftover.ts'
import { testServer, type TestServer } from './server.ts'

export interface Outcome {
  readonly code: number | null
  readonly out: string
  readonly error: string
}

export interface CliTest {
  readonly server: TestServer
  /** The data folder, with operator.key and demo.key. */
  readonly folder: string
  /** For `node`. */
  readonly program: string
  environment(more?: Readonly<Record<string, string>>): Record<string, string>
  /** Runs it to its end, in this process: to start another one takes a hundred times as long as most commands. */
  berth(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Outcome>
  /** The same as people run it: what was built, in a process of its own. */
  berthProcess(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Outcome>
  /** What it prints with --json; throws unless it succeeds and says nothing else. */
  json(...args: string[]): Promise<unknown>
  close(): Promise<void>
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
    ...more,
  })
  const berth: CliTest['berth'] = async (args, env) => {
    let [out, error] = ['', '']
    const code = await runCli(args, {
      env: environment(env),
      colour: { out: false, error: false },
      write: (text) => void (out += text),
      writeError: (text) => void (error += text),
      readFile: readIfThere,
      readInput: () => undefined,
    })
    return { code, out, error }
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
    berthProcess,
    json: async (...args) => {
      const { code, out, error } = await berth([...args, '--json'])
      if (code !== 0 || error !== '') throw new Error(`berth ${args.join(' ')} ended with ${code}: ${error}`)
      return JSON.parse(out)
    },
    close: async () => {
      await server.close()
      await removeFolder(folder)
    },
  }
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
