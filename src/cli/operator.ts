/** `berth operator`: accounts and their money. Each create carries an idempotency key, so a cut line never doubles it. */
import { randomUUID } from 'node:crypto'
import { InvalidArgumentError, Option, type Command } from 'commander'
import { parseUsd } from '../base/money.ts'
import { scopes, type Scope } from '../contract/endpoint.ts'
import { fields, table, type Cell } from './screen.ts'
import { GROUP_USAGE, type Run } from './session.ts'
import { count, money, time } from './wording.ts'

export function addOperatorCommands(program: Command, run: Run): void {
  const operator = program
    .command('operator')
    .description('accounts and their money')
    .usage(GROUP_USAGE)
    .commandsGroup('Operators:')
  const accounts = addAccounts(operator, run)
  addCreateAccount(accounts, run)
  addCredit(operator, run)
}

function addAccounts(operator: Command, run: Run): Command {
  const accounts = operator
    .command('accounts')
    .description('list the accounts')
    .commandsGroup('Operators:')
    .usage('[options] [create]')
    .option('--cursor <cursor>', 'go on where a long list was cut')
  accounts.action(
    run('operator', async ({ client, screen }) => {
      const { cursor } = accounts.opts<{ cursor?: string }>()
      const page = await client.call('listAccounts', { query: cursor === undefined ? {} : { cursor } })
      screen.show(page, () => [
        ...table(
          screen,
          [{ title: 'ID' }, { title: 'NAME' }, ...amounts, { title: 'STANDING' }, { title: 'CREATED' }],
          page.accounts.map((account): Cell[] => [
            account.id,
            account.name,
            money(account.availableUsd),
            money(account.heldUsd),
            account.supplier ? money(account.earningsUsd) : '',
            account.suspended ? { text: 'suspended', style: 'red' } : 'good',
            time(account.createdAt),
          ]),
        ),
        '',
        page.nextCursor === null
          ? count(page.accounts.length, 'account')
          : `There are more: berth operator accounts --cursor ${page.nextCursor}`,
      ])
    }),
  )
  return accounts
}

const amounts = [
  { title: 'AVAILABLE', right: true },
  { title: 'HELD', right: true },
  { title: 'EARNINGS', right: true },
] as const

interface NewAccount {
  readonly name: string
  readonly ownerEmail: string
  readonly ownerName?: string
  readonly scope?: Scope[]
  readonly platformFee?: number
}

function addCreateAccount(accounts: Command, run: Run): void {
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
    run('operator', async ({ client, screen }) => {
      const { name, ownerEmail, ownerName, scope, platformFee } = create.opts<NewAccount>()
      const body = {
        name,
        ownerEmail,
        ...(ownerName === undefined ? {} : { ownerName }),
        ...(scope === undefined ? {} : { scopes: scope }),
        ...(platformFee === undefined ? {} : { platformFeePercentage: platformFee }),
      }
      const made = await client.call('createAccount', { body, idempotencyKey: randomUUID() })
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

function addCredit(operator: Command, run: Run): void {
  const credit = operator
    .command('credit')
    .description('add money to an account')
    .argument('<account>', 'its id, as berth operator accounts shows it', parseAccount)
    .argument('<usd>', 'how much, such as 25 or 12.50', parseAmount)
    .requiredOption('--reason <text>', 'why; it stands in the audit log')
    .addOption(
      new Option('--kind <kind>', 'purchase: it was paid for; credit: the house gives it')
        .choices(['purchase', 'credit'])
        .default('purchase'),
    )
    .option('--idempotency-key <key>', 'the same key never credits twice')
  credit.action(
    run('operator', async ({ client, screen }, id = '', amountUsd = '') => {
      const { reason, kind, idempotencyKey } = credit.opts<{
        reason: string
        kind: 'purchase' | 'credit'
        idempotencyKey?: string
      }>()
      const moved = await client.call('creditAccount', {
        params: { id },
        body: { amountUsd, reason, kind },
        idempotencyKey: idempotencyKey ?? randomUUID(),
      })
      screen.show(moved, () => [
        moved.replayed
          ? `That key was used before: nothing new was added. Available: ${money(moved.availableUsd)}`
          : `Added ${money(amountUsd)} to ${id}. Available now: ${money(moved.availableUsd)}`,
      ])
    }),
  )
}

function parseAccount(text: string): string {
  if (!/^[\w-]+$/.test(text)) throw new InvalidArgumentError('An id has letters, digits, - and _ only.')
  return text
}

function parseAmount(text: string): string {
  const amount = parseUsd(text)
  if (amount === undefined || amount <= 0n) {
    throw new InvalidArgumentError('An amount is above zero and has no sign, such as 25 or 12.50.')
  }
  return text
}

function parsePercent(text: string): number {
  const percent = /^\d{1,3}(\.\d{1,2})?$/.test(text) ? Number.parseFloat(text) : Number.NaN
  if (!(percent >= 0 && percent <= 100)) throw new InvalidArgumentError('From 0 to 100, such as 12.5.')
  return percent
}
