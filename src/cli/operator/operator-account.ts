/** `berth operator accounts`, and money that an operator moves. Each change is recorded with its reason. */
import { defaultQuota } from '../../base/limits.ts'
import { formatUsdForPeople, nanoUsdOf, parseUsd } from '../../base/money.ts'
import type { Client, Reply } from '../../client/client.ts'
import { quotaNames, quotaTexts } from '../../contract/quota-text.ts'
import { quotaLabel } from '../../view/account.ts'
import { money } from '../../view/money.ts'
import { number } from '../../view/number.ts'
import { recordContent } from './audit-record.ts'
import { creditLine, debt } from '../billing/balance.ts'
import { parserOf } from '../kit/flag.ts'
import { fieldOf } from '../kit/operation-field.ts'
import { tableOf } from '../kit/record.ts'
import { act, list, show, withBody } from '../kit/row.ts'
import { bold, red, type Content } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

type Account = Reply<'getAccount'>

/** The overview shows this many of the last rentals and audit entries. */
const MAX_OVERVIEW_ROWS = 5

const ID_HELP = 'id, as shown by berth operator accounts ls'
const REASON = { reason: 'reason, recorded in the audit log' }
const OWNER = {
  ownerEmail: '--owner-email <email>  email address of the owner',
  ownerName: '--owner-name <name>  name of the owner',
}
const SAVE_KEY = 'Save the key now: it is not shown again.'

const accountRows: readonly Row[] = [
  list('operator accounts ls', 'listAccounts', 'list accounts and their balances', {
    columns: [
      'id',
      'name',
      'balanceUsd',
      'unbilledUsd:NOT CHARGED YET',
      'availableUsd',
      'heldUsd:ON HOLD',
      {
        EARNINGS: ({ supplier, earningsUsd }) => (supplier ? money(earningsUsd) : ''),
        STATUS: ({ suspended }) => (suspended ? red('suspended') : 'active'),
      },
    ],
    examples: ['berth operator accounts ls', 'berth operator accounts ls --all'],
  }),
  show('operator accounts show', 'getAccount', 'show an account: money, quota, rentals, audit log', {
    args: { '<id>': ID_HELP },
    examples: ['berth operator accounts show acc_ID'],
    onWire: async (account, { client }) => ({ ...account, ...(await readRecent(client, account)) }),
    facts: [
      {
        Account: ({ name, id }) => bold(`${name} (${id})`),
        Status: ({ suspended }) => (suspended ? red('suspended: its API keys are rejected') : 'active'),
      },
      'createdAt',
      'balanceUsd',
      'unbilledUsd:Not charged yet',
      'availableUsd',
      {
        'On hold': ({ heldUsd }) => `${money(heldUsd)}, for running machines and reserved terms`,
        'Credit line': creditLine,
        Debt: debt,
        Earnings: (account) => (account.supplier ? `${money(account.earningsUsd)} unpaid, fee deducted` : undefined),
        'Platform fee': feeOf,
        Bodies: ({ keepsBodies }) => (keepsBodies ? 'stored' : 'not stored'),
      },
    ],
    content: async (account, { client }) => {
      const { rentals, records } = await readRecent(client, account)
      return [
        '',
        ...quotaFacts(account),
        '',
        rentals.length === 0
          ? 'No rentals yet.'
          : tableOf(rentals, ['id:RENTAL', 'name', 'kind', 'gpuCount:GPUS', 'status', 'statusSince:SINCE']),
        '',
        ...(records.length === 0 ? ['No changes yet.'] : records.flatMap((one) => recordContent(one, false))),
        '',
        `More: berth operator rentals ls --account ${account.id}`,
        `      berth operator log --account ${account.id}`,
      ]
    },
  }),
  act('operator accounts create', 'createAccount', 'create an account with a first API key', {
    flags: {
      name: '--name <name>  name of the account',
      ...OWNER,
      scopes: '--scope <scope...>  scopes of the first API key (default: all a customer needs)',
      platformFeePercentage: 'platform fee in percent; makes the account a supplier',
    },
    examples: ['berth operator accounts create --name Acme --owner-email owner@example.com'],
    done: ({ account, key }) => [
      ['Account', `${account.name} (${account.id})`],
      ['API key', bold(key)],
      '',
      `${SAVE_KEY} To add money:`,
      `  berth operator credit ${account.id} 100 --reason "first purchase"`,
    ],
  }),
  act<'changeAccount', unknown, Account>(
    'operator accounts set',
    'changeAccount',
    'suspend or resume an account; change its quota, fee or credit line',
    {
      target: { arg: 'id', help: ID_HELP, find: readAccount, idOf: ({ id }) => id },
      flags: {
        ...quotaFlags(),
        suspended: {
          text: '--suspend  reject its API keys; running machines continue',
          off: '--resume  accept its API keys again',
        },
        platformFeePercentage: 'platform fee in percent, or none: not a supplier',
        creditLineUsd: 'credit line for reserved terms; 0 for none',
        ...REASON,
      },
      examples: [
        'berth operator accounts set acc_ID --gpus 16 --reason "new customer"',
        'berth operator accounts set acc_ID --suspend --reason "charge disputed"',
        'berth operator accounts set acc_ID --platform-fee 12.5 --reason contract',
      ],
      done: (after, { target }) => describeChange(target, after),
    },
  ),
  act('operator accounts restore-owner', 'restoreOwner', 'make a person an owner and issue them a new API key', {
    args: { '<id>': ID_HELP },
    flags: { ...OWNER, ...REASON },
    examples: [
      'berth operator accounts restore-owner acc_ID \\',
      '    --owner-email owner@example.com --reason "lost key"',
    ],
    done: ({ account, key }, { input }) => [
      ['Account', `${account.name} (${account.id})`],
      ['Owner', String(input.parts.body?.['ownerEmail'])],
      ['API key', bold(key)],
      '',
      SAVE_KEY,
    ],
  }),
]

function readAccount(client: Client, id: string): Promise<Account> {
  return client.call('getAccount', { params: { id } })
}

async function readRecent(client: Client, { id }: Account) {
  const query = { accountId: id, limit: MAX_OVERVIEW_ROWS }
  const [{ rentals }, { records }] = await Promise.all([
    client.call('listAllRentals', { query }),
    client.call('listAudit', { query }),
  ])
  return { rentals, records }
}

function feeOf({ platformFeePercentage: fee }: Account): string {
  return fee === null ? 'none, not a supplier' : `${fee}%`
}

function quotaFlags() {
  return Object.fromEntries(
    quotaNames.map((name) => {
      const help = `quota: ${quotaTexts[name]} (default: ${grouped(defaultQuota[name])})`
      return [name, name === 'keys' ? `--api-keys <n>  ${help}` : help]
    }),
  )
}

/** `toLocaleString` would load the locales whenever help is shown. */
function grouped(n: number): string {
  return String(n).replaceAll(/\B(?=(\d{3})+$)/g, ',')
}

function quotaFacts({ quota }: Account): Array<readonly [string, string]> {
  return quotaNames.map((name) => {
    const max = quota[name] ?? defaultQuota[name]
    const usual = max === defaultQuota[name] ? '' : ` (default: ${number(defaultQuota[name])})`
    return [quotaLabel(name), `${number(max)}${usual}`]
  })
}

/** Shows only what has changed; `berth operator accounts show` shows everything. */
function describeChange(before: Account, after: Account): readonly Content[] {
  const old = new Map(changeableFacts(before))
  const changed = changeableFacts(after).flatMap(([name, value]) =>
    old.get(name) === value ? [] : [[name, `${old.get(name)} → ${value}`] as const],
  )
  if (changed.length === 0) return [`${after.id}: no change.`]
  const content: Content[] = [['Account', `${after.name} (${after.id})`], ...changed]
  if (before.suspended === after.suspended) return content
  if (!after.suspended) return [...content, '', 'Its API keys work again within a second.']
  return [
    ...content,
    '',
    'Its API keys are rejected within a second. Running machines continue and are charged;',
    'terminate them yourself if needed.',
    after.platformFeePercentage === null
      ? undefined
      : 'Its own machines stay on sale. To take one off: berth operator machine MACHINE --unlist',
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

const AMOUNT = { help: 'amount, such as 25 or 12.50', field: 'amountUsd' }
const USED_KEY = 'That idempotency key was used before: no money was moved.'

const moneyRows: readonly Row[] = [
  act('operator credit', 'creditAccount', 'add money to an account', {
    args: { '<account>': ID_HELP, '<usd>': AMOUNT },
    flags: { ...REASON, kind: 'purchase: a payment; credit: a gift' },
    examples: ['berth operator credit acc_ID 100 --reason "first purchase"'],
    done: (reply, call) => {
      const { account, amount } = movedIn(call)
      const what = isReplay(reply, call) ? USED_KEY : `Added ${money(amount)} to ${account}.`
      return `${what} Available: ${money(reply.availableUsd)}`
    },
  }),
  // The direction has no default and the amount no sign, so that neither can be wrong unnoticed.
  act<'adjustAccount', { up?: true; down?: true }>(
    'operator adjust',
    'adjustAccount',
    'correct a balance, up or down',
    {
      args: { '<account>': ID_HELP, '<usd>': { ...AMOUNT, parse: parserOf(fieldOf('creditAccount', 'amountUsd')) } },
      flags: REASON,
      options: { '--up': { help: 'add the amount', conflicts: ['down'] }, '--down': 'take the amount away' },
      examples: ['berth operator adjust acc_ID 5.50 --down --reason "credited twice"'],
      prepare: ({ input, options: { up, down }, args: [account, amount] }) => {
        if (up !== undefined || down !== undefined) {
          return withBody(input, { amountUsd: `${down === true ? '-' : ''}${String(amount)}` })
        }
        throw new CliError(exitCodes.usage, 'Give the direction: --up or --down.', [
          `Example: berth operator adjust ${String(account)} ${String(amount)} --down --reason "credited twice"`,
        ])
      },
      done: (reply, call) => {
        const { account, amount } = movedIn(call)
        if (isReplay(reply, call)) return describeReplay(account)
        return `Adjusted the balance of ${account} by ${money(amount)}: ${stepOf(reply.availableUsd, amount)}.`
      },
    },
  ),
  act('operator refund', 'refundCharge', 'refund charges of a rental', {
    args: { '<account>': ID_HELP, '<usd>': { ...AMOUNT, help: `${AMOUNT.help}; at most what was charged` } },
    flags: { ...REASON, rentalId: 'id of the rental, as shown by berth operator rentals ls' },
    examples: ['berth operator refund acc_ID 0.25 --rental 12 --reason "slow disk"'],
    done: (reply, call) => {
      const { account, amount } = movedIn(call)
      if (isReplay(reply, call)) return describeReplay(account)
      const step = stepOf(reply.availableUsd, amount)
      return [`Refunded ${money(amount)} to ${account}: ${step}.`, 'A supplier keeps its share.']
    },
  }),
  act<'payOutSupplier', { idempotencyKey?: string }>(
    'operator payout',
    'payOutSupplier',
    'record a payout of earnings',
    {
      args: { '<account>': ID_HELP, '[usd]': { ...AMOUNT, help: 'amount (default: everything that is unpaid)' } },
      flags: REASON,
      examples: [
        'berth operator payout acc_ID --reason "payout for November"',
        'berth operator payout acc_ID 250 --reason "partial payout"',
      ],
      prepare: async ({ client, input, options, args, command }) => {
        if (args[1] !== undefined) return input
        const id = String(args[0])
        if (options.idempotencyKey !== undefined) {
          throw new CliError(exitCodes.usage, 'With --idempotency-key, give the amount: the unpaid amount changes.', [
            `To see it: berth operator accounts show ${id}`,
          ])
        }
        const amountUsd = await readUnpaid(client, id)
        // A retry must name the same amount.
        command.args.push(amountUsd)
        return withBody(input, { amountUsd })
      },
      done: (reply, call) => {
        const { account, amount } = movedIn(call)
        if (isReplay(reply, call)) return describeReplay(account)
        return [
          `Recorded a payout of ${money(amount)} to ${account}. Unpaid: ${money(reply.unpaidUsd)}`,
          'Transfer the money itself at your bank.',
        ]
      },
    },
  ),
]

function movedIn({ args, input }: Call): { account: string; amount: string } {
  return { account: String(args[0]), amount: String(input.parts.body?.['amountUsd']) }
}

/** Whether the answer repeats an earlier one. With a key that this command made, a replay is its own second attempt. */
function isReplay({ replayed }: { readonly replayed: boolean }, { options }: Call): boolean {
  return replayed && (options as { idempotencyKey?: string }).idempotencyKey !== undefined
}

function describeReplay(account: string): string[] {
  return [USED_KEY, `To see the balance: berth operator accounts show ${account}`]
}

/** The balance before and after the move. The answer contains the balance right after it. */
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
    `To make it one: berth operator accounts set ${id} --platform-fee 15 --reason TEXT`,
  ])
}

export const rows: readonly Row[] = [...accountRows, ...moneyRows]
