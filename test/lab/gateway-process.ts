/**
 * A gateway in its own process on a database that outlives it: it can be killed and restarted, always on the same data
 * folder, which has its journal.
 */
import { spawn } from 'node:child_process'
import { mkdtemp } from 'node:fs/promises'
import { randomInt } from 'node:crypto'
import os from 'node:os'
import path from 'node:path'
import { inject } from 'vitest'
import { forgetServer } from '../harness/chat-client.ts'
import { removeFolder } from '../harness/leftover.ts'
import { startServerProcess, type ServerProcess } from './process.ts'
import { waitFor } from '../harness/wait.ts'

export interface GatewayProcess {
  /** undefined while it is down. */
  readonly url: string | undefined
  start(): Promise<void>
  /** SIGKILL. */
  kill(): Promise<void>
  /** Starts it and kills it at a random time before or after it is ready, for example during a replay. */
  killAtStart(): Promise<void>
  /** Sends SIGTERM and returns the exit code. */
  stop(): Promise<number | null>
  /** Kills any remaining process. */
  close(): Promise<void>
}

/** Roughly the duration of a start. */
const START_MS = 1_000

export async function makeGatewayProcess(options: { databaseUrl: string; secretKey: string }): Promise<GatewayProcess> {
  const dir = await mkdtemp(path.join(os.tmpdir(), 'berth-gateway-'))
  const env = {
    BERTH_DATA_DIR: dir,
    DATABASE_URL: options.databaseUrl,
    BERTH_SECRET_KEY: options.secretKey,
    BERTH_ROLE: 'gateway',
    BERTH_DRIVERS: '',
    BERTH_LOCAL_ENGINES: 'false',
    // Two gateways, the test server and its own queries share one PostgreSQL with other tests.
    BERTH_DATABASE_CONNECTIONS: '6',
  }
  let server: ServerProcess | undefined
  const gone = (): void => {
    if (server !== undefined) forgetServer(server.url)
    server = undefined
  }
  return {
    get url() {
      return server?.url
    },
    start: async () => {
      server = await startServerProcess(env)
    },
    kill: async () => {
      const dying = server?.killTree()
      gone()
      await dying
    },
    killAtStart: () => killAtStart(env),
    stop: async () => {
      const stopping = server?.stop()
      gone()
      return (await stopping)?.code ?? null
    },
    close: async () => {
      await server?.killTree()
      gone()
      await removeFolder(dir)
    },
  }
}

async function killAtStart(env: Readonly<Record<string, string>>): Promise<void> {
  const child = spawn(process.execPath, [inject('serverBundle')], {
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', BERTH_PORT: '0', ...env },
    stdio: 'ignore',
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const until = performance.now() + randomInt(START_MS)
  await waitFor('the time of the kill', () => performance.now() >= until)
  child.kill('SIGKILL')
  await ended
}
