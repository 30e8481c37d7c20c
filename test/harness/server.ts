/** A whole server in this process, on its own database, with a plain HTTP client. */
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { pino, type Logger } from 'pino'
import type { App } from '../../src/app/app.ts'
import { systemClock, toDate, type Clock } from '../../src/base/instant.ts'
import type { Scope } from '../../src/contract/endpoint.ts'
import { readPrivateFile } from '../../src/server/data/data-folder.ts'
import { ensureDemo } from '../../src/server/data/first-run.ts'
import { serve } from '../../src/server/serve.ts'
import { readSettings } from '../../src/server/settings.ts'
import { testDatabase } from './database.ts'
import { exchange, type Reply } from './exchange.ts'
import { removeFolder } from './leftover.ts'
import { relayPorts } from './own-port.ts'

export type Call = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Reply>

export interface TestServer {
  readonly url: string
  readonly app: App
  readonly databaseUrl: string
  readonly dataDir: string
  readonly operatorKey: string
  readonly demoKey: string
  /** As printed at start-up. undefined: this is not a trial server. */
  readonly demoLinkToken: string | undefined
  /** Calls with a key; null sends none. */
  as(key: string | null): Call
  readonly operator: Call
  readonly demo: Call
  readonly anonymous: Call
  /** A new account with a key, money and an SSH key. */
  account(options?: {
    usd?: string
    scopes?: Scope[]
    sshKey?: boolean
    platformFeePercentage?: number
  }): Promise<{ id: string; key: string; call: Call }>
  close(): Promise<void>
}

export interface TestServerOptions {
  readonly clock?: Clock
  /** False: tests run the reconcilers themselves. */
  readonly runLoops?: boolean
  readonly databaseUrl?: string
  /** A built console of the test. */
  readonly consoleDir?: string
  /** Whether the demo account has a sign-in link, as with embedded defaults. */
  readonly isTrial?: boolean
  readonly env?: Readonly<Record<string, string>>
  /** For tests of what is logged. undefined: silent. */
  readonly log?: Logger
}

/** The time of the machine. Rate limits of clouds cause no pauses, since their simulators have none unless a test asks for them. */
const unpacedClock: Clock = { now: () => systemClock.now(), wait: async (_ms, signal) => signal.throwIfAborted() }

export async function testServer(options: TestServerOptions = {}): Promise<TestServer> {
  const database = options.databaseUrl === undefined ? await testDatabase() : undefined
  const databaseUrl = options.databaseUrl ?? database?.url ?? ''
  const dataDir = await mkdtemp(path.join(os.tmpdir(), 'berth-server-'))
  const settings = readSettings({
    BERTH_PORT: '0',
    BERTH_DATA_DIR: dataDir,
    DATABASE_URL: databaseUrl,
    BERTH_DRIVERS: 'mock',
    BERTH_SECRET_KEY: 'the secret key of every test server',
    BERTH_MOCK_BOOT_MS: '0',
    BERTH_MOCK_DESTROY_MS: '0',
    BERTH_ALLOW_PRIVATE_ADDRESSES: 'true',
    BERTH_LOCAL_ENGINES: 'false',
    // Test hosts have small disks and no GPUs.
    BERTH_SELL_SIMULATED: 'true',
    BERTH_STORAGE_OVERCOMMIT: '1000',
    // Several servers run at once.
    BERTH_RELAY_PORTS: relayPorts(),
    ...options.env,
  })
  const server = await serve(settings, {
    log: options.log ?? pino({ level: 'silent' }),
    checkResponses: true,
    clock: options.clock ?? unpacedClock,
    ...(options.runLoops === undefined ? {} : { runLoops: options.runLoops }),
    ...(options.consoleDir === undefined ? {} : { consoleDir: options.consoleDir }),
    ...(options.isTrial === undefined ? {} : { isTrial: options.isTrial }),
  })
  await ensureDemo(server.app.database, dataDir)
  const as = (key: string | null): Call => caller(server.url, key)
  const operatorKey = readPrivateFile(dataDir, 'operator.key') ?? ''
  const demoKey = readPrivateFile(dataDir, 'demo.key') ?? ''
  const operator = as(operatorKey)
  let accounts = 0
  return {
    url: server.url,
    app: server.app,
    databaseUrl,
    dataDir,
    operatorKey,
    demoKey,
    demoLinkToken: server.demoLinkToken,
    as,
    operator,
    demo: as(demoKey),
    anonymous: as(null),
    account: async ({ usd, scopes, sshKey = true, platformFeePercentage } = {}) => {
      accounts += 1
      const made = await operator('POST', '/v2/operator/accounts', {
        name: `Test ${accounts}`,
        ownerEmail: `owner-${accounts}@example.test`,
        ...(scopes === undefined ? {} : { scopes }),
        ...(platformFeePercentage === undefined ? {} : { platformFeePercentage }),
      })
      if (made.status !== 200) throw new Error(`no account: ${JSON.stringify(made.body)}`)
      const { id } = made.body.account as { id: string }
      const key = made.body.key as string
      if (usd !== undefined)
        await operator('POST', `/v2/operator/accounts/${id}/credit`, { amountUsd: usd, reason: 'for the test' })
      if (sshKey) await insertTestSshKey(server.app, id)
      return { id, key, call: as(key) }
    },
    close: async () => {
      await server.close()
      await database?.drop()
      await removeFolder(dataDir)
    },
  }
}

export const testSshKey =
  'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f test@example.test'

async function insertTestSshKey(app: App, accountId: string): Promise<void> {
  await app.database.db
    .insertInto('ssh_key')
    .values({
      id: `ssh_${accountId}`,
      account_id: accountId,
      name: 'test',
      public_key: testSshKey,
      fingerprint: 'SHA256:test',
      created_at: toDate(app.clock.now()),
    })
    .execute()
}

export function caller(url: string, key: string | null): Call {
  const authorization = key === null ? {} : { Authorization: `Bearer ${key}` }
  return (method, pathname, body, headers = {}) =>
    exchange(`${url}${pathname}`, { method, headers: { ...authorization, ...headers }, body })
}
