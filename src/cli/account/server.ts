/** `berth status` and `openapi`; and the help of `serve`, `backup` and `restore`, which are programs of their own. */
import { systemClock } from '../../base/instant.ts'
import type { Client, Readiness, Reply } from '../../client/client.ts'
import { ApiError } from '../../client/error.ts'
import { balanceLine } from '../billing/balance.ts'
import { custom } from '../kit/row.ts'
import { red, toned, type Content, type Fact } from '../kit/screen.ts'
import type { Session } from '../rental/session.ts'
import { CliError, exitCodes, type ExitCode } from '../kit/shell.ts'
import type { Details, Row } from '../kit/row-type.ts'

export const rows: readonly Row[] = [
  handedOver('serve', 'start a server; for settings, see berth serve --help', {
    examples: ['berth serve', 'BERTH_PORT=8421 berth serve'],
  }),
  handedOver('backup', 'back up the embedded database and keys of a running server', {
    args: { '<folder>': 'folder to create' },
    options: { '--data-dir <folder>': 'data folder of the server (BERTH_DATA_DIR; default: .berth)' },
    examples: ['berth backup /backups/monday', 'berth backup --data-dir /srv/berth /backups/monday'],
  }),
  handedOver('restore', 'create a data folder from a backup', {
    args: { '<backup>': 'folder created by berth backup', '<folder>': 'data folder to create' },
    examples: ['berth restore /backups/monday restored'],
  }),
  custom('status', 'show server health and your balance', {
    run: ({ session }) => showStatus(session),
    examples: ['berth status', 'berth status --url https://gpu.example.com'],
  }),
  custom('openapi', 'print the OpenAPI description of the API', {
    operation: 'getOpenApi',
    run: async ({ client, shell }) => shell.write(`${JSON.stringify(await client.call('getOpenApi'), null, 2)}\n`),
    examples: ['berth openapi > openapi.json'],
  }),
]

/** bin/berth.mjs starts these programs by the first word, before this one is loaded. */
function handedOver(command: string, description: string, row: Details): Row {
  return custom(command, description, {
    ...row,
    isOffline: true,
    run: () => {
      throw new CliError(exitCodes.usage, `Write "${command}" right after berth, and its options after that.`)
    },
  })
}

async function showStatus(session: Session): Promise<ExitCode> {
  const { client, screen, keyFrom } = session
  const readiness = await client.ready()
  const server = { url: client.url, ready: readiness.ok, checks: readiness.checks }
  const show = (more: readonly Fact[], account: unknown = null, balance: unknown = null): void =>
    screen.show({ server, account, balance }, () => [...describeServer(client.url, readiness), ...more])
  // Without its database a server cannot look up the key.
  if (keyFrom === undefined || !readiness.ok) {
    show([['Account', readiness.ok ? 'no API key' : 'unknown until the server is ready']])
    return readiness.ok ? exitCodes.ok : exitCodes.failed
  }
  try {
    const { me, balance } = await readAccount(client)
    const balanceText = balance === undefined ? 'not visible to this API key' : balanceLine(balance, systemClock.now())
    show(
      [
        ['Account', `${me.account.name} (${me.account.id})`],
        ['Key', `"${me.key.name}" from ${keyFrom}`],
        ['Balance', balanceText],
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

function describeServer(url: string, { ok, checks }: Readiness): Content[] {
  const parts = Object.entries(checks).map(([name, outcome]) => `${name} ${outcome}`)
  return [
    ['Server', url],
    ['State', ok ? toned('good', 'ready') : red('not ready')],
    ['Checks', parts.join(', ')],
  ]
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
