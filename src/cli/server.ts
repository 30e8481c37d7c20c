/** `berth status` and `openapi`; and the help of `serve`, `backup` and `restore`, which are programs of their own. */
import { systemClock } from '../base/instant.ts'
import type { Client, Readiness, Reply } from '../client/client.ts'
import { ApiError } from '../client/error.ts'
import { balanceLine } from './balance.ts'
import { custom, type CustomRow } from './row.ts'
import { fields, type Cell, type Screen } from './screen.ts'
import type { Session } from './session.ts'
import { CliError, exitCodes, type ExitCode } from './shell.ts'
import type { Row } from './row-type.ts'

export const rows: readonly Row[] = [
  handedOver({
    command: 'serve',
    description: 'start a server; for settings, see berth serve --help',
    examples: ['berth serve', 'BERTH_PORT=8421 berth serve'],
  }),
  handedOver({
    command: 'backup',
    description: 'back up the embedded database and keys of a running server',
    args: [{ name: '<folder>', help: 'folder to create' }],
    options: [{ flag: '--data-dir <folder>', help: 'data folder of the server (BERTH_DATA_DIR; default: .berth)' }],
    examples: ['berth backup /backups/monday', 'berth backup --data-dir /srv/berth /backups/monday'],
  }),
  handedOver({
    command: 'restore',
    description: 'create a data folder from a backup',
    args: [
      { name: '<backup>', help: 'folder created by berth backup' },
      { name: '<folder>', help: 'data folder to create' },
    ],
    examples: ['berth restore /backups/monday restored'],
  }),
  custom({
    command: 'status',
    description: 'show server health and your balance',
    run: ({ session }) => showStatus(session),
    examples: ['berth status', 'berth status --url https://gpu.example.com'],
  }),
  custom({
    command: 'openapi',
    operation: 'getOpenApi',
    description: 'print the OpenAPI description of the API',
    run: async ({ client, shell }) => shell.write(`${JSON.stringify(await client.call('getOpenApi'), null, 2)}\n`),
    examples: ['berth openapi > openapi.json'],
  }),
]

/** bin/berth.mjs starts these programs by the first word, before this one is loaded. */
function handedOver(row: Omit<CustomRow<unknown, unknown>, 'run'>): Row {
  return custom({
    ...row,
    isOffline: true,
    run: () => {
      throw new CliError(exitCodes.usage, `Write "${row.command}" right after berth, and its options after that.`)
    },
  })
}

async function showStatus(session: Session): Promise<ExitCode> {
  const { client, screen, keyFrom } = session
  const readiness = await client.ready()
  const server = { url: client.url, ready: readiness.ok, checks: readiness.checks }
  const show = (
    more: ReadonlyArray<readonly [string, string]>,
    account: unknown = null,
    balance: unknown = null,
  ): void =>
    screen.show({ server, account, balance }, () => [
      ...serverLines(screen, client.url, readiness),
      ...fields(screen, more),
    ])
  // Without its database a server cannot look up the key.
  if (keyFrom === undefined || !readiness.ok) {
    show([['Account', readiness.ok ? 'no API key' : 'unknown until the server is ready']])
    return readiness.ok ? exitCodes.ok : exitCodes.failed
  }
  try {
    const { me, balance } = await readAccount(client)
    const left = balance === undefined ? 'not visible to this API key' : balanceLine(balance, systemClock.now())
    const account = `${me.account.name} (${me.account.id})`
    const key = `"${me.key.name}" from ${keyFrom}`
    show(
      [
        ['Account', account],
        ['Key    ', key],
        ['Balance', left],
      ],
      me.account,
      balance,
    )
    return exitCodes.ok
  } catch (error) {
    // The server is up all the same; the error about the key follows.
    show([])
    throw error
  }
}

function serverLines(screen: Screen, url: string, { ok, checks }: Readiness): string[] {
  const state: Cell = ok ? { text: 'ready', style: 'green' } : { text: 'not ready', style: 'red' }
  const parts = Object.entries(checks).map(([name, outcome]) => `${name} ${outcome}`)
  return fields(screen, [
    ['Server ', url],
    ['State  ', state],
    ['Checks ', parts.join(', ')],
  ])
}

async function readAccount(client: Client): Promise<{ me: Reply<'getMe'>; balance?: Reply<'getCustomerBalance'> }> {
  const me = await client.call('getMe')
  try {
    return { me, balance: await client.call('getCustomerBalance') }
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return { me }
    throw error
  }
}
