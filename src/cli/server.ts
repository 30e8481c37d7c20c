/** `berth serve`, `berth backup`, `berth restore` and `berth status`. */
import type { Command } from 'commander'
import { systemClock } from '../base/instant.ts'
import type { Client, Readiness, Reply } from '../client/client.ts'
import { ApiError } from '../client/error.ts'
import { balanceWords } from './billing.ts'
import { fields, type Cell, type Screen } from './screen.ts'
import type { Run, Session } from './session.ts'
import { CliError, exitCodes, type ExitCode } from './shell.ts'

export function addServerCommands(program: Command, run: Run): void {
  program
    .command('serve')
    .description('start a server (serve --help: its settings)')
    .allowUnknownOption()
    .allowExcessArguments()
    .action(() => {
      // bin/berth.mjs knows it as the first word only.
      throw new CliError(exitCodes.usage, 'berth serve takes no options in front.', [
        'Its settings come from the environment, such as: BERTH_PORT=8421 berth serve',
      ])
    })
  program
    .command('backup')
    .description('back up the embedded database and keys while the server runs')
    .argument('<folder>', 'folder to make')
    .option('--data-dir <folder>', 'data folder of the server (BERTH_DATA_DIR, .berth)')
    .action(refuseOptionsInFront('backup'))
  program
    .command('restore')
    .description('make a new data folder from a backup')
    .argument('<backup>', 'folder that berth backup made')
    .argument('<folder>', 'data folder to make')
    .action(refuseOptionsInFront('restore'))
  program
    .command('status')
    .description('is the server ready, and what is the balance')
    .action(run('anyone', showStatus))
}

/** bin/berth.mjs starts these programs by the first word. */
function refuseOptionsInFront(command: string): () => never {
  return () => {
    throw new CliError(exitCodes.usage, `Write "${command}" right after berth, and its options behind.`)
  }
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
  // Without its database a server cannot tell whose key it is.
  if (keyFrom === undefined || !readiness.ok) {
    show([['Account', readiness.ok ? 'no key, so nothing about an account' : 'known when the server is ready']])
    return readiness.ok ? exitCodes.ok : exitCodes.failed
  }
  try {
    const { me, balance } = await readAccount(client)
    const left = balance === undefined ? 'not for this key to see' : balanceWords(balance, systemClock.now())
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
    // The server is up all the same; what is wrong with the key follows on the error side.
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
