/** A server process on its own database that can be killed and restarted in place. */
import { mkdtemp, readFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { testDatabase } from '../harness/database.ts'
import { ownPorts } from '../harness/own-port.ts'
import { succeed } from '../harness/journey.ts'
import { removeFolder } from '../harness/leftover.ts'
import type { MachineServer } from './machines.ts'
import { startServerProcess, type ServerProcess } from './process.ts'
import { caller } from '../harness/server.ts'

export interface ServerLab extends MachineServer {
  /** Process id; 0 while it is killed. */
  pid(): number
  /** SIGKILL. */
  kill(): Promise<void>
  /** Restarts it on the same port, database and folder. */
  start(): Promise<void>
  output(): string
  close(): Promise<void>
}

export async function startServerLab(env: Readonly<Record<string, string>>): Promise<ServerLab> {
  const database = await testDatabase()
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-server-'))
  const port = { BERTH_PORT: String(ownPorts()) }
  const settings = { ...env, ...port, DATABASE_URL: database.url, BERTH_DATA_DIR: folder }
  let child: ServerProcess | undefined
  const close = async (): Promise<void> => {
    await child?.killTree()
    await database.drop()
    await removeFolder(folder)
  }
  try {
    const first = await startServerProcess(settings)
    child = first
    const { url } = first
    const operator = caller(url, (await readFile(path.join(folder, 'operator.key'), 'utf8')).trim())
    let accounts = 0
    return {
      url,
      operator,
      anonymous: caller(url, null),
      account: async ({ usd, platformFeePercentage } = {}) => {
        const name = `Test ${(accounts += 1)}`
        const owner = { name, ownerEmail: `owner-${accounts}@example.test` }
        const fee = platformFeePercentage === undefined ? {} : { platformFeePercentage }
        const made = await succeed(operator, 'POST', '/v2/operator/accounts', { ...owner, ...fee })
        const { id } = made.account
        const credit = { amountUsd: usd, reason: 'for the test' }
        if (usd !== undefined) await succeed(operator, 'POST', `/v2/operator/accounts/${id}/credit`, credit)
        return { id, key: made.key, call: caller(url, made.key) }
      },
      pid: () => child?.pid ?? 0,
      kill: async () => {
        await child?.killTree()
        child = undefined
      },
      start: async () => {
        child = await startServerProcess(settings)
      },
      output: () => child?.output() ?? '',
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}
