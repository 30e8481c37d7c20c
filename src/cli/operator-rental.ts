/** `berth operator rentals`: those of everyone, newest first. Those that hang come with what can be done about them. */
import { Option, type Command } from 'commander'
import { systemClock } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { Client, Reply } from '../client/client.ts'
import { rentalStatus, type RentalStatus } from '../contract/rental.ts'
import { age, utcTime } from '../view/time.ts'
import { count } from '../view/number.ts'
import type { OfferKind } from './offer.ts'
import { table, type Cell, type Screen, type Style } from './screen.ts'
import type { Run } from './session.ts'
import { moreOr, parseName, parseWhole } from './supply.ts'

const SHOWN = 20
const ACCOUNT_PAGES = 50
/** More are as bad. */
const STUCK_COUNTED = 100

type Rental = Reply<'listAllRentals'>['rentals'][number]
type Names = ReadonlyMap<string, string>

interface RentalOptions {
  readonly stuck?: true
  readonly status?: RentalStatus
  readonly account?: string
  readonly wide?: true
  readonly limit: number
  readonly cursor?: string
}

export function readStuck(client: Client): Promise<Reply<'listAllRentals'>> {
  return client.call('listAllRentals', { query: { stuck: true, limit: STUCK_COUNTED } })
}

/** One line, beside what else an operator looks at; none where none hangs. */
export function stuckLines(screen: Screen, { rentals, nextCursor }: Reply<'listAllRentals'>): string[] {
  if (rentals.length === 0) return []
  const words = `${count(rentals.length, 'rental')}${nextCursor === null ? '' : ' and more'}`
  const hang = rentals.length === 1 ? 'hangs' : 'hang'
  return [screen.paint('red', `${words} ${hang}: berth operator rentals --stuck says what can be done.`)]
}

/** Under `berth operator`. */
export function addOperatorRentalCommand(operator: Command, run: Run): void {
  const command = operator
    .command('rentals')
    .description('rentals of everyone, and those that hang')
    .option('--stuck', 'only those that hang')
    .addOption(new Option('--status <status>', 'only those in this state').choices(rentalStatus.options))
    .option('--account <id>', 'only those of this account', parseName)
    .option('--wide', 'everything that is known of them')
    .option('-n, --limit <count>', 'how many', parseWhole(1, limits.pageRows), SHOWN)
    .option('--cursor <cursor>', 'go on where a long list was cut')
  command.action(
    run('operator', async ({ client, screen, json }) => {
      const options = command.opts<RentalOptions>()
      const { stuck, status, account, limit, cursor } = options
      const page = await client.call('listAllRentals', {
        query: {
          limit,
          ...(stuck === undefined ? {} : { stuck }),
          ...(status === undefined ? {} : { status }),
          ...(account === undefined ? {} : { accountId: account }),
          ...(cursor === undefined ? {} : { cursor }),
        },
      })
      const owners = new Set(page.rentals.map(({ accountId }) => accountId))
      const names = json ? new Map<string, string>() : await readNames(client, owners)
      screen.show(page, () => {
        if (page.rentals.length === 0) return nothingFound(options)
        return [
          ...listLines(screen, page.rentals, names, options),
          ...(options.stuck === true ? page.rentals.flatMap(errorLines) : []),
          '',
          moreOr(page.nextCursor, commandOf(options), count(page.rentals.length, 'rental')),
          ...adviceOn(page.rentals, options),
        ]
      })
    }),
  )
}

function nothingFound({ stuck, status, account }: RentalOptions): string[] {
  if (stuck === true) return ['No rental hangs.']
  if (status === undefined && account === undefined) return ['Nothing was rented yet.']
  return ['There is no such rental.', 'Fewer options show more; berth operator accounts lists the accounts.']
}

function listLines(screen: Screen, rentals: readonly Rental[], names: Names, options: RentalOptions): string[] {
  const nameOf = ({ accountId }: Rental): string => names.get(accountId) ?? accountId
  if (options.wide === true) {
    return table(
      screen,
      wideColumns,
      rentals.map((rental) => wideCells(rental, nameOf(rental))),
    )
  }
  return options.stuck === true
    ? table(
        screen,
        stuckColumns,
        rentals.map((rental) => stuckCells(rental, nameOf(rental))),
      )
    : table(
        screen,
        columns,
        rentals.map((rental) => cellsOf(rental, nameOf(rental))),
      )
}

const columns = [
  { title: 'ID', right: true },
  { title: 'NAME' },
  { title: 'ACCOUNT', shrink: true },
  { title: 'KIND' },
  { title: 'STATE' },
  { title: 'FOR' },
  { title: 'WHY', shrink: true },
] as const

function cellsOf(rental: Rental, account: string): Cell[] {
  return [
    String(rental.id),
    rental.name,
    account,
    kindWords[rental.kind],
    stateCell(rental),
    age(rental.statusSince, systemClock.now()),
    whyWords(rental),
  ]
}

const stuckColumns = [
  { title: 'ID', right: true },
  { title: 'NAME', shrink: true },
  { title: 'ACCOUNT', shrink: true },
  { title: 'STATE' },
  { title: 'FOR' },
  { title: 'ASKED', right: true },
  { title: 'ENGINE' },
  { title: 'ITS ID THERE' },
] as const

function stuckCells(rental: Rental, account: string): Cell[] {
  return [
    String(rental.id),
    rental.name,
    account,
    stateCell(rental),
    age(rental.statusSince, systemClock.now()),
    rental.attempts.toLocaleString('en-US'),
    rental.driver,
    rental.externalId ?? 'not known',
  ]
}

function errorLines({ id, lastError, lastErrorAt }: Rental): string[] {
  return lastError === null ? [] : [`Last error of rental ${id}, at ${utcTime(lastErrorAt)}: ${lastError}`]
}

const wideColumns = [
  { title: 'ID', right: true },
  { title: 'NAME' },
  { title: 'ACCOUNT' },
  { title: 'ACCOUNT ID' },
  { title: 'KIND' },
  { title: 'GPUS', right: true },
  { title: 'REGION' },
  { title: 'STATE' },
  { title: 'SINCE' },
  { title: 'HANGS SINCE' },
  { title: 'WHY' },
  { title: 'ENGINE' },
  { title: 'ASKED', right: true },
  { title: 'ITS ID THERE' },
  { title: 'LAST ERROR' },
  { title: 'AT' },
] as const

function wideCells(rental: Rental, account: string): Cell[] {
  return [
    String(rental.id),
    rental.name,
    account,
    rental.accountId,
    kindWords[rental.kind],
    String(rental.gpuCount),
    rental.region,
    stateCell(rental),
    utcTime(rental.statusSince),
    utcTime(rental.stuckSince),
    whyWords(rental),
    rental.driver,
    rental.attempts.toLocaleString('en-US'),
    rental.externalId ?? '',
    rental.lastError ?? '',
    utcTime(rental.lastErrorAt),
  ]
}

const kindWords = {
  'virtual-machine': 'vm',
  'bare-metal': 'metal',
  container: 'container',
} as const satisfies Record<Rental['kind'], OfferKind>

function stateCell({ status, stuckSince }: Rental): Cell {
  return { text: status, style: stuckSince === null ? styles[status] : 'red' }
}

const styles = {
  Failed: 'red',
  Pending: 'yellow',
  Running: 'green',
  Terminating: 'yellow',
  Terminated: 'dim',
  Unknown: 'red',
} as const satisfies Record<RentalStatus, Style>

/** While a rental waits for its engine, what the engine said is why. */
function whyWords({ statusReason, lastError }: Rental): string {
  return statusReason === null ? (lastError ?? '') : statusReason.replaceAll('_', ' ')
}

/** What is left to do is at the engine. */
function adviceOn(rentals: readonly Rental[], { stuck }: RentalOptions): string[] {
  const hanging = rentals.filter(({ stuckSince }) => stuckSince !== null).length
  if (hanging === 0) return []
  const they = hanging === 1 ? 'hangs' : 'hang'
  if (stuck !== true) return [`${hanging} of them ${they}: berth operator rentals --stuck`]
  return [
    '',
    'The engine was asked to end each of these and still shows it. It is asked',
    'again by itself, and nobody pays meanwhile. berth audit says what the engine',
    'shows; end there by hand what stays.',
  ]
}

/** What goes on with the list, but for the cursor. */
function commandOf({ stuck, status, account, wide, limit }: RentalOptions): string {
  return [
    'berth operator rentals',
    ...(stuck === undefined ? [] : ['--stuck']),
    ...(status === undefined ? [] : [`--status ${status}`]),
    ...(account === undefined ? [] : [`--account ${account}`]),
    ...(wide === undefined ? [] : ['--wide']),
    ...(limit === SHOWN ? [] : [`--limit ${limit}`]),
  ].join(' ')
}

/** Names of accounts by their ids, read until all that are wanted are there. */
async function readNames(client: Client, wanted: ReadonlySet<string>): Promise<Names> {
  const names = new Map<string, string>()
  let cursor: string | undefined
  for (let n = 0; n < ACCOUNT_PAGES && names.size < wanted.size; n += 1) {
    const query = { limit: limits.pageRows, ...(cursor === undefined ? {} : { cursor }) }
    const page = await client.call('listAccounts', { query })
    for (const { id, name } of page.accounts) if (wanted.has(id)) names.set(id, name)
    if (page.nextCursor === null) break
    cursor = page.nextCursor
  }
  return names
}
