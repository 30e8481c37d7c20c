/** `berth operator accounts`: who has one, how each stands, and what it may hold. Each change says why. */
import { randomUUID } from 'node:crypto'
import { InvalidArgumentError, Option, type Command } from 'commander'
import { defaultQuota, limits, type Quota } from '../base/limits.ts'
import type { CallInput, Reply } from '../client/client.ts'
import { scopes, type Scope } from '../contract/endpoint.ts'
import { reasonText } from '../contract/shared.ts'
import { count } from '../view/number.ts'
import { money } from '../view/money.ts'
import { utcTime } from '../view/time.ts'
import { parseAmountOrZero } from './amount.ts'
import { creditFacts, creditWords } from './billing.ts'
import { withWayAgain } from './failure.ts'
import { recordLines } from './operator-log.ts'
import { kindWord } from './operator-price-row.ts'
import { fields, table, type Cell, type Screen } from './screen.ts'
import type { Run } from './session.ts'
import { CliError, exitCodes } from './shell.ts'
import { moreOr, parseWhole } from './supply.ts'

type Account = Reply<'getAccount'>
type Rental = Reply<'listAllRentals'>['rentals'][number]

/** Of its rentals, and of what was done with it. */
const LAST_SHOWN = 5
/** Commander takes null for no value at all. */
const NONE = 'none'

export function addAccountCommands(operator: Command, run: Run): void {
  const accounts = addList(operator, run)
  addShow(accounts, run)
  addCreate(accounts, run)
  addChange(accounts, run)
  addRestoreOwner(accounts, run)
}

function addList(operator: Command, run: Run): Command {
  const accounts = operator
    .command('accounts')
    .description('list the accounts')
    .commandsGroup('Operators:')
    .usage('[options] [show|create|change|restore-owner]')
    .option('--cursor <cursor>', 'go on where a long list was cut')
  accounts.action(
    run('operator', async ({ client, screen }) => {
      const { cursor } = accounts.opts<{ cursor?: string }>()
      const page = await client.call('listAccounts', { query: cursor === undefined ? {} : { cursor } })
      screen.show(page, () => [
        ...table(
          screen,
          [{ title: 'ID' }, { title: 'NAME', shrink: true }, ...amounts, { title: 'STANDING' }],
          page.accounts.map((account): Cell[] => [
            account.id,
            account.name,
            money(account.balanceUsd),
            money(account.availableUsd),
            money(account.heldUsd),
            account.supplier ? money(account.earningsUsd) : '',
            standingCell(account),
          ]),
        ),
        '',
        moreOr(page.nextCursor, 'berth operator accounts', count(page.accounts.length, 'account')),
      ])
    }),
  )
  return accounts
}

const amounts = [
  { title: 'BALANCE', right: true },
  { title: 'AVAILABLE', right: true },
  { title: 'ON HOLD', right: true },
  { title: 'EARNINGS', right: true },
] as const

function standingCell({ suspended }: Account): Cell {
  return suspended ? { text: 'suspended', style: 'red' } : 'good'
}

function addShow(accounts: Command, run: Run): void {
  accounts
    .command('show')
    .description('its money, quota, rentals, and what was done')
    .argument('<id>', 'as berth operator accounts shows it', parseAccount)
    .action(
      run('operator', async ({ client, screen }, id = '') => {
        const account = await client.call('getAccount', { params: { id } })
        const query = { accountId: id, limit: LAST_SHOWN }
        const [{ rentals }, { records }] = await Promise.all([
          client.call('listAllRentals', { query }),
          client.call('listAudit', { query }),
        ])
        screen.show({ ...account, rentals, records }, () => [
          ...accountLines(screen, account),
          '',
          ...fields(screen, [...quotaFacts(account)]),
          '',
          ...rentalLines(screen, rentals),
          '',
          ...(records.length === 0 ? ['Nothing was done with it yet.'] : records.flatMap(lineOf(screen))),
          '',
          `More: berth operator rentals --account ${id}`,
          `      berth operator log --account ${id}`,
        ])
      }),
    )
}

function lineOf(screen: Screen) {
  return (record: Reply<'listAudit'>['records'][number]): string[] => recordLines(screen, record, false)
}

function accountLines(screen: Screen, account: Account): string[] {
  return fields(screen, [
    ['Account', { text: `${account.name} (${account.id})`, style: 'bold' }],
    ['Standing', account.suspended ? { text: 'suspended: its keys are refused', style: 'red' } : 'good'],
    ['Opened', utcTime(account.createdAt)],
    ['Balance', money(account.balanceUsd)],
    ['Available', money(account.availableUsd)],
    ['On hold', `${money(account.heldUsd)}, for what runs and for reserved terms`],
    ...creditFacts(account),
    ['Earnings', account.supplier ? `${money(account.earningsUsd)} unpaid, its fee taken off` : undefined],
    ['Supplier fee', feeWords(account)],
    ['Request texts', account.keepsBodies ? 'kept, sealed' : 'not kept'],
  ])
}

function rentalLines(screen: Screen, rentals: readonly Rental[]): string[] {
  if (rentals.length === 0) return ['It has rented nothing yet.']
  return table(
    screen,
    [
      { title: 'RENTAL', right: true },
      { title: 'NAME', shrink: true },
      { title: 'KIND' },
      { title: 'GPUS', right: true },
      { title: 'STATUS' },
      { title: 'SINCE' },
    ],
    rentals.map((rental): Cell[] => [
      String(rental.id),
      rental.name,
      rental.kind === 'container' ? rental.kind : kindWord(rental.kind),
      String(rental.gpuCount),
      rental.status,
      utcTime(rental.statusSince),
    ]),
  )
}

interface NewAccount {
  readonly name: string
  readonly ownerEmail: string
  readonly ownerName?: string
  readonly scope?: Scope[]
  readonly platformFee?: number
}

function addCreate(accounts: Command, run: Run): void {
  const create = accounts
    .command('create')
    .description('open an account with a first API key')
    .requiredOption('--name <name>', 'name of the account')
    .requiredOption('--owner-email <email>', 'who owns it')
    .option('--owner-name <name>', "the owner's name")
    .addOption(
      new Option('--scope <scope...>', 'scopes of the first key (default: all that it may need)').choices(scopes),
    )
    .option('--platform-fee <percent>', 'makes it a supplier: what the house keeps of its prices', parsePercent)
  create.action(
    run('operator', async (session) => {
      const { client, screen } = session
      const { name, ownerEmail, ownerName, scope, platformFee } = create.opts<NewAccount>()
      const body = {
        name,
        ownerEmail,
        ...(ownerName === undefined ? {} : { ownerName }),
        ...(scope === undefined ? {} : { scopes: scope }),
        ...(platformFee === undefined ? {} : { platformFeePercentage: platformFee }),
      }
      const call = client.call('createAccount', { body, idempotencyKey: randomUUID() })
      const made = await withWayAgain(call, session, 'berth operator accounts shows whether it is there.')
      screen.show(made, () => [
        ...fields(screen, [
          ['Account', `${made.account.name} (${made.account.id})`],
          ['API key', { text: made.key, style: 'bold' }],
        ]),
        '',
        'The key is not shown again. The account is empty; add money with:',
        `  berth operator credit ${made.account.id} 100 --reason "first purchase"`,
      ])
    }),
  )
}

/** The way back into an account whose owners have no working key. */
function addRestoreOwner(accounts: Command, run: Run): void {
  const restore = accounts
    .command('restore-owner')
    .description('make a person an owner and issue them a new key')
    .argument('<id>', 'as berth operator accounts shows it', parseAccount)
    .requiredOption('--owner-email <email>', 'the person to make an owner')
    .option('--owner-name <name>', 'their name, if they are new')
  withReason(restore).action(
    run('operator', async (session, id = '') => {
      const { client, screen } = session
      const { ownerEmail, ownerName, reason } = restore.opts<{
        ownerEmail: string
        ownerName?: string
        reason: string
      }>()
      const body = { ownerEmail, reason, ...(ownerName === undefined ? {} : { ownerName }) }
      const call = client.call('restoreOwner', { params: { id }, body, idempotencyKey: randomUUID() })
      const made = await withWayAgain(call, session, 'berth operator log shows whether it was done.')
      screen.show(made, () => [
        ...fields(screen, [
          ['Account', `${made.account.name} (${made.account.id})`],
          ['Owner', ownerEmail],
          ['API key', { text: made.key, style: 'bold' }],
        ]),
        '',
        'The key is not shown again.',
      ])
    }),
  )
}

interface QuotaOption {
  readonly name: keyof Quota
  /** What Commander calls its value. */
  readonly option: string
  readonly flag: string
  readonly words: string
  readonly most: number
}

const quotas: readonly QuotaOption[] = [
  { name: 'gpus', option: 'gpus', flag: '--gpus', words: 'GPUs in use', most: 1_000_000 },
  { name: 'volumes', option: 'volumes', flag: '--volumes', words: 'Volumes', most: 1_000_000 },
  { name: 'volumeGb', option: 'volumeGb', flag: '--volume-gb', words: 'GB of volumes', most: 999_999_999 },
  { name: 'keys', option: 'apiKeys', flag: '--api-keys', words: 'API keys', most: 100_000 },
  { name: 'sshKeys', option: 'sshKeys', flag: '--ssh-keys', words: 'SSH keys', most: 100_000 },
  { name: 'webhooks', option: 'webhooks', flag: '--webhooks', words: 'Webhooks', most: 10_000 },
  {
    name: 'requestsPerMinute',
    option: 'requestsPerMinute',
    flag: '--requests-per-minute',
    words: 'Model requests a minute',
    most: 100_000_000,
  },
  {
    name: 'tokensPerMinute',
    option: 'tokensPerMinute',
    flag: '--tokens-per-minute',
    words: 'Tokens a minute',
    most: 999_999_999,
  },
  { name: 'streams', option: 'streams', flag: '--streams', words: 'Model requests at a time', most: 1_000_000 },
]

interface ChangeOptions {
  readonly suspend?: true
  readonly resume?: true
  readonly platformFee?: number | typeof NONE
  readonly creditLine?: string
  readonly reason: string
  /** Quotas, by their option. */
  readonly [quota: string]: unknown
}

function addChange(accounts: Command, run: Run): void {
  const change = accounts
    .command('change')
    .description('suspend or resume it; change its quota, fee or credit line')
    .argument('<id>', 'as berth operator accounts shows it', parseAccount)
    .addOption(new Option('--suspend', 'refuse its keys; what it runs goes on').conflicts('resume'))
    .addOption(new Option('--resume', 'let its keys in again').conflicts('suspend'))
    .option('--platform-fee <percent>', 'what the house keeps of its prices; none: no supplier', parseFee)
    .option('--credit-line <usd>', 'what reserved orders may hold beyond the balance; 0: none', parseAmountOrZero)
  for (const { name, flag, words, most } of quotas) {
    // Words begin small in help, but for those that are written large.
    const noun = words.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())
    change.option(`${flag} <n>`, `${noun}; usually ${grouped(defaultQuota[name])}`, parseWhole(0, most))
  }
  withReason(change).action(
    run('operator', async ({ client, screen }, id = '') => {
      const body = bodyOf(change.opts<ChangeOptions>())
      if (Object.keys(body).length === 1) {
        throw new CliError(exitCodes.usage, 'Say what to change.', [
          `Such as: berth operator accounts change ${id} --gpus 16 --reason "new customer"`,
        ])
      }
      const before = await client.call('getAccount', { params: { id } })
      const after = await client.call('changeAccount', { params: { id }, body })
      screen.show(after, () => changeLines(screen, before, after))
    }),
  )
}

/** `toLocaleString` would load the locales for every help. */
function grouped(n: number): string {
  return String(n).replaceAll(/\B(?=(\d{3})+$)/g, ',')
}

function bodyOf(options: ChangeOptions): CallInput<'changeAccount'>['body'] {
  const { suspend, resume, platformFee, creditLine, reason } = options
  const quota = Object.fromEntries(
    quotas.flatMap(({ name, option }) => {
      const value = options[option]
      return typeof value === 'number' ? [[name, value] as const] : []
    }),
  )
  return {
    ...(suspend === undefined && resume === undefined ? {} : { suspended: suspend === true }),
    ...(platformFee === undefined ? {} : { platformFeePercentage: platformFee === NONE ? null : platformFee }),
    ...(creditLine === undefined ? {} : { creditLineUsd: creditLine }),
    ...(Object.keys(quota).length === 0 ? {} : { quota }),
    reason,
  }
}

/** What is another one now; the rest is in `berth operator accounts show`. */
function changeLines(screen: Screen, before: Account, after: Account): string[] {
  const old = new Map(factsOf(before))
  const rows = factsOf(after).flatMap(([name, value]) =>
    old.get(name) === value ? [] : [[name, `${old.get(name)} → ${value}`] as const],
  )
  if (rows.length === 0) return [`${after.id} was like that already.`]
  const lines = fields(screen, [['Account', `${after.name} (${after.id})`], ...rows])
  if (before.suspended === after.suspended) return lines
  const next = after.suspended
    ? [
        'Its keys are refused on every server within a second.',
        'What it runs goes on and is charged; end that by hand if you want to.',
        ...(after.platformFeePercentage === null ? [] : ['Its machines stay on sale: berth operator machine --unlist']),
      ]
    : ['Its keys work again on every server within a second.']
  return [...lines, '', ...next]
}

function factsOf(account: Account): Array<readonly [string, string]> {
  const standing = account.suspended ? 'suspended' : 'good'
  const credit = creditWords(account) ?? 'none'
  return [['Standing', standing], ['Supplier fee', feeWords(account)], ['Credit line', credit], ...quotaFacts(account)]
}

function feeWords({ platformFeePercentage: fee }: Account): string {
  return fee === null ? 'none, not a supplier' : `${fee} %`
}

function quotaFacts({ quota }: Account): Array<readonly [string, string]> {
  return quotas.map(({ name, words }) => {
    const most = quota[name] ?? defaultQuota[name]
    const usual = most === defaultQuota[name] ? '' : ` (default ${defaultQuota[name].toLocaleString('en-US')})`
    return [words, `${most.toLocaleString('en-US')}${usual}`]
  })
}

/** Every change of an operator says why. */
export function withReason(command: Command): Command {
  return command.requiredOption('--reason <text>', 'why; it stands in the audit log', parseReason)
}

function parseReason(text: string): string {
  if (!reasonText.safeParse(text).success) {
    throw new InvalidArgumentError(`Say why, in at most ${limits.reasonChars} characters.`)
  }
  return text
}

export function parseAccount(text: string): string {
  if (!/^[\w-]+$/.test(text)) throw new InvalidArgumentError('An id has letters, digits, - and _ only.')
  return text
}

function parsePercent(text: string): number {
  const percent = /^\d{1,3}(\.\d{1,2})?$/.test(text) ? Number.parseFloat(text) : Number.NaN
  if (!(percent >= 0 && percent <= 100)) throw new InvalidArgumentError('From 0 to 100, such as 12.5.')
  return percent
}

function parseFee(text: string): number | typeof NONE {
  return text === NONE ? NONE : parsePercent(text)
}
