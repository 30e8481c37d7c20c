/** `berth operator accounts`, and the money that an operator moves. Each change is recorded with its reason. */
import { quotaLabels, quotaNames } from '../view/account.ts'
import { money } from '../view/money.ts'
import { number } from '../view/number.ts'
import { utcTime } from '../view/time.ts'
import { defaultQuota } from '../base/limits.ts'
import { formatUsdForPeople, nanoUsdOf, parseUsd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import { shortRentalKinds } from '../view/rental.ts'
import { recordLines } from './audit-record.ts'
import { creditLine } from './balance.ts'
import { parserOf } from './flag.ts'
import { fieldOf } from './operation-field.ts'
import { act, list, show } from './row.ts'
import { fields, table, type Fact, type Screen } from './screen.ts'
import { CliError, exitCodes } from './shell.ts'
import type { Call, Row } from './row-type.ts'

type Account = Reply<'getAccount'>

/** Of its rentals and of the audit log. */
const LAST_SHOWN = 5

const ID = { name: '<id>', help: 'id, as shown by berth operator accounts', field: 'id' }
const ACCOUNT = { ...ID, name: '<account>' }
const REASON = { reason: { help: 'reason, recorded in the audit log' } }
const OWNER = {
  ownerEmail: { flag: '--owner-email <email>', help: 'email address of the owner' },
  ownerName: { flag: '--owner-name <name>', help: 'name of the owner' },
}

const accountRows: readonly Row[] = [
  list({
    command: 'operator accounts',
    operation: 'listAccounts',
    rows: 'accounts',
    description: 'list accounts and their balances',
    noun: 'account',
    empty: ['There are no accounts.'],
    columns: [
      { title: 'ID', of: (account) => account.id },
      { title: 'NAME', shrink: true, of: (account) => account.name },
      { title: 'BALANCE', right: true, of: (account) => money(account.balanceUsd) },
      { title: 'AVAILABLE', right: true, of: (account) => money(account.availableUsd) },
      { title: 'ON HOLD', right: true, of: (account) => money(account.heldUsd) },
      { title: 'EARNINGS', right: true, of: ({ supplier, earningsUsd }) => (supplier ? money(earningsUsd) : '') },
      { title: 'STATUS', of: ({ suspended }) => (suspended ? { text: 'suspended', style: 'red' } : 'active') },
    ],
    examples: ['berth operator accounts', 'berth operator accounts --all'],
  }),
  show({
    command: 'operator accounts show',
    operation: 'getAccount',
    description: 'show an account: money, quota, rentals, audit log',
    args: [ID],
    onWire: async (account, { client }) => ({ ...account, ...(await readRecent(client, account)) }),
    lines: async (account, { client, screen }) => {
      const { rentals, records } = await readRecent(client, account)
      return [
        ...fields(screen, accountFacts(account)),
        '',
        ...fields(screen, quotaFacts(account)),
        '',
        ...rentalLines(screen, rentals),
        '',
        ...(records.length === 0 ? ['No changes yet.'] : records.flatMap((one) => recordLines(screen, one, false))),
        '',
        `More: berth operator rentals --account ${account.id}`,
        `      berth operator log --account ${account.id}`,
      ]
    },
    examples: ['berth operator accounts show acc_ID'],
  }),
  act({
    command: 'operator accounts create',
    operation: 'createAccount',
    description: 'create an account with a first API key',
    flags: {
      name: { flag: '--name <name>', help: 'name of the account' },
      ...OWNER,
      scopes: { flag: '--scope <scope...>', help: 'scopes of the first API key (default: all a customer needs)' },
      platformFeePercentage: { help: 'platform fee in percent; makes the account a supplier' },
    },
    done: (made, { screen }) => [
      ...fields(screen, [
        ['Account', `${made.account.name} (${made.account.id})`],
        ['API key', { text: made.key, style: 'bold' }],
      ]),
      '',
      'Save the key now: it is not shown again. To add money:',
      `  berth operator credit ${made.account.id} 100 --reason "first purchase"`,
    ],
    examples: ['berth operator accounts create --name Acme --owner-email owner@example.com'],
  }),
  act<'changeAccount', unknown, Account>({
    command: 'operator accounts change',
    operation: 'changeAccount',
    description: 'suspend or resume an account; change its quota, fee or credit line',
    target: { arg: 'id', help: ID.help, find: readAccount, idOf: ({ id }) => id },
    flags: {
      ...quotaFlags(),
      suspended: {
        flag: '--suspend',
        help: 'reject its API keys; running machines continue',
        off: ['--resume', 'accept its API keys again'],
      },
      platformFeePercentage: { help: 'platform fee in percent, or none: not a supplier' },
      creditLineUsd: { help: 'credit line for reserved terms; 0 for none' },
      ...REASON,
    },
    done: (after, { screen, found }) => changeLines(screen, found, after),
    examples: [
      'berth operator accounts change acc_ID --gpus 16 --reason "new customer"',
      'berth operator accounts change acc_ID --suspend --reason "charge disputed"',
      'berth operator accounts change acc_ID --platform-fee 12.5 --reason contract',
    ],
  }),
  act({
    command: 'operator accounts restore-owner',
    operation: 'restoreOwner',
    description: 'make a person an owner and issue them a new API key',
    args: [ID],
    flags: { ...OWNER, ...REASON },
    done: (made, { screen, input }) => [
      ...fields(screen, [
        ['Account', `${made.account.name} (${made.account.id})`],
        ['Owner', String(input.parts.body?.['ownerEmail'])],
        ['API key', { text: made.key, style: 'bold' }],
      ]),
      '',
      'Save the key now: it is not shown again.',
    ],
    examples: [
      'berth operator accounts restore-owner acc_ID \\',
      '    --owner-email owner@example.com --reason "lost key"',
    ],
  }),
]

function readAccount(client: Client, id: string): Promise<Account> {
  return client.call('getAccount', { params: { id } })
}

async function readRecent(client: Client, { id }: Account) {
  const query = { accountId: id, limit: LAST_SHOWN }
  const [{ rentals }, { records }] = await Promise.all([
    client.call('listAllRentals', { query }),
    client.call('listAudit', { query }),
  ])
  return { rentals, records }
}

function accountFacts(account: Account): Fact[] {
  return [
    ['Account', { text: `${account.name} (${account.id})`, style: 'bold' }],
    ['Status', account.suspended ? { text: 'suspended: its API keys are rejected', style: 'red' } : 'active'],
    ['Created', utcTime(account.createdAt)],
    ['Balance', money(account.balanceUsd)],
    ['Available', money(account.availableUsd)],
    ['On hold', `${money(account.heldUsd)}, for running machines and reserved terms`],
    ['Credit line', creditLine(account)],
    ['Earnings', account.supplier ? `${money(account.earningsUsd)} unpaid, fee deducted` : undefined],
    ['Platform fee', feeOf(account)],
    ['Bodies', account.keepsBodies ? 'stored' : 'not stored'],
  ]
}

function feeOf({ platformFeePercentage: fee }: Account): string {
  return fee === null ? 'none, not a supplier' : `${fee}%`
}

function quotaFlags() {
  return Object.fromEntries(
    quotaNames.map((name) => {
      const label = quotaLabels[name].replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())
      const help = `quota: ${label} (default: ${grouped(defaultQuota[name])})`
      return [name, name === 'keys' ? { flag: '--api-keys <n>', help } : { help }]
    }),
  )
}

/** `toLocaleString` would load the locales for every help. */
function grouped(n: number): string {
  return String(n).replaceAll(/\B(?=(\d{3})+$)/g, ',')
}

function quotaFacts({ quota }: Account): Array<readonly [string, string]> {
  return quotaNames.map((name) => {
    const max = quota[name] ?? defaultQuota[name]
    const usual = max === defaultQuota[name] ? '' : ` (default: ${number(defaultQuota[name])})`
    return [quotaLabels[name], `${number(max)}${usual}`]
  })
}

function rentalLines(screen: Screen, rentals: Reply<'listAllRentals'>['rentals']): string[] {
  if (rentals.length === 0) return ['No rentals yet.']
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
    rentals.map((rental) => [
      String(rental.id),
      rental.name,
      shortRentalKinds[rental.kind],
      String(rental.gpuCount),
      rental.status,
      utcTime(rental.statusSince),
    ]),
  )
}

/** Only what has changed; the rest is in `berth operator accounts show`. */
function changeLines(screen: Screen, before: Account, after: Account): string[] {
  const old = new Map(changeableFacts(before))
  const changed = changeableFacts(after).flatMap(([name, value]) =>
    old.get(name) === value ? [] : [[name, `${old.get(name)} → ${value}`] as const],
  )
  if (changed.length === 0) return [`${after.id}: no change.`]
  const lines = fields(screen, [['Account', `${after.name} (${after.id})`], ...changed])
  if (before.suspended === after.suspended) return lines
  if (!after.suspended) return [...lines, '', 'Its API keys work again within a second.']
  return [
    ...lines,
    '',
    'Its API keys are rejected within a second. Running machines continue and are charged;',
    'terminate them yourself if needed.',
    ...(after.platformFeePercentage === null
      ? []
      : ['Its own machines stay on sale. To take one off: berth operator machine MACHINE --unlist']),
  ]
}

function changeableFacts(account: Account): Array<readonly [string, string]> {
  return [
    ['Status', account.suspended ? 'suspended' : 'active'],
    ['Platform fee', feeOf(account)],
    ['Credit line', creditLine(account) ?? 'none'],
    ...quotaFacts(account),
  ]
}

const AMOUNT = { name: '<usd>', help: 'amount, such as 25 or 12.50', field: 'amountUsd' }
const HELD_KEY = 'That idempotency key was used before: no money was moved.'

const moneyRows: readonly Row[] = [
  act({
    command: 'operator credit',
    operation: 'creditAccount',
    description: 'add money to an account',
    args: [ACCOUNT, AMOUNT],
    flags: { ...REASON, kind: { help: 'purchase: a payment; credit: a gift' } },
    done: (reply, call) =>
      isReplay(reply, call)
        ? `${HELD_KEY} Available: ${money(reply.availableUsd)}`
        : `Added ${money(amountOf(call))} to ${accountOf(call)}. Available: ${money(reply.availableUsd)}`,
    examples: ['berth operator credit acc_ID 100 --reason "first purchase"'],
  }),
  // The direction has no default and the amount no sign, so that neither can be mistaken.
  act<'adjustAccount', { up?: true; down?: true }>({
    command: 'operator adjust',
    operation: 'adjustAccount',
    description: 'correct a balance, up or down',
    args: [ACCOUNT, { ...AMOUNT, parse: parserOf(fieldOf('creditAccount', 'amountUsd')) }],
    flags: REASON,
    options: [
      { flag: '--up', help: 'add the amount', conflicts: ['down'] },
      { flag: '--down', help: 'take the amount away' },
    ],
    prepare: ({ input, options, args }) => {
      if (options.up === undefined && options.down === undefined) {
        throw new CliError(exitCodes.usage, 'Give the direction: --up or --down.', [
          `Example: berth operator adjust ${String(args[0])} ${String(args[1])} --down --reason "credited twice"`,
        ])
      }
      const amountUsd = `${options.down === true ? '-' : ''}${String(args[1])}`
      return { ...input, parts: { ...input.parts, body: { ...input.parts.body, amountUsd } } }
    },
    done: (reply, call) =>
      isReplay(reply, call)
        ? replayed(call)
        : `Adjusted the balance of ${accountOf(call)} by ${money(amountOf(call))}: ${stepOf(reply.availableUsd, amountOf(call))}.`,
    examples: ['berth operator adjust acc_ID 5.50 --down --reason "credited twice"'],
  }),
  act({
    command: 'operator refund',
    operation: 'refundCharge',
    description: 'refund charges of a rental',
    args: [ACCOUNT, { ...AMOUNT, help: `${AMOUNT.help}; at most what was charged` }],
    flags: { ...REASON, rentalId: { help: 'id of the rental, as shown by berth operator rentals' } },
    done: (reply, call) =>
      isReplay(reply, call)
        ? replayed(call)
        : [
            `Refunded ${money(amountOf(call))} to ${accountOf(call)}: ${stepOf(reply.availableUsd, amountOf(call))}.`,
            'A supplier keeps its share.',
          ],
    examples: ['berth operator refund acc_ID 0.25 --rental 12 --reason "slow disk"'],
  }),
  act<'payOutSupplier', { idempotencyKey?: string }>({
    command: 'operator payout',
    operation: 'payOutSupplier',
    description: 'record a payout of earnings',
    args: [ACCOUNT, { ...AMOUNT, name: '[usd]', help: 'amount (default: everything that is unpaid)' }],
    flags: REASON,
    prepare: async ({ client, input, options, args, command }) => {
      if (args[1] !== undefined) return input
      const id = String(args[0])
      if (options.idempotencyKey !== undefined) {
        throw new CliError(exitCodes.usage, 'With --idempotency-key, give the amount: the unpaid amount changes.', [
          `To see it: berth operator accounts show ${id}`,
        ])
      }
      const amountUsd = await readUnpaid(client, id)
      // A retry has to name the same amount.
      command.args.push(amountUsd)
      return { ...input, parts: { ...input.parts, body: { ...input.parts.body, amountUsd } } }
    },
    done: (reply, call) =>
      isReplay(reply, call)
        ? replayed(call)
        : [
            `Recorded a payout of ${money(amountOf(call))} to ${accountOf(call)}. Unpaid: ${money(reply.unpaidUsd)}`,
            'Transfer the money itself at your bank.',
          ],
    examples: [
      'berth operator payout acc_ID --reason "payout for November"',
      'berth operator payout acc_ID 250 --reason "partial payout"',
    ],
  }),
]

function accountOf({ args }: Call): string {
  return String(args[0])
}

function amountOf({ input }: Call): string {
  return String(input.parts.body?.['amountUsd'])
}

/** With a key of our own, a replay is the second attempt of this very command. */
function isReplay({ replayed: isOld }: { readonly replayed: boolean }, { options }: Call): boolean {
  return isOld && (options as { idempotencyKey?: string }).idempotencyKey !== undefined
}

function replayed(call: Call): string[] {
  return [HELD_KEY, `To see the balance: berth operator accounts show ${accountOf(call)}`]
}

/** The answer has the balance right after the move. */
function stepOf(after: string, moved: string): string {
  const [end, by] = [parseUsd(after), parseUsd(moved)]
  if (end === undefined || by === undefined) return `now ${money(after)}`
  // An account that owes credit has nothing available: a payment repays that first.
  if (end < by) return `now ${money(after)}; the rest repaid the credit line`
  return `${formatUsdForPeople(nanoUsdOf(end - by))} → ${formatUsdForPeople(end)}`
}

async function readUnpaid(client: Client, id: string): Promise<string> {
  const { supplier, earningsUsd } = await readAccount(client, id)
  if (parseUsd(earningsUsd) !== 0n) return earningsUsd
  if (supplier) throw new CliError(exitCodes.failed, `${id} has no unpaid earnings.`)
  throw new CliError(exitCodes.failed, `${id} is not a supplier, so it has no earnings.`, [
    `To make it one: berth operator accounts change ${id} --platform-fee 15 --reason TEXT`,
  ])
}

export const rows: readonly Row[] = [...accountRows, ...moneyRows]
