/** `berth statement` and `berth purchases`: every change of the balance, and the money that came in. */
import type { Command } from 'commander'
import { limits } from '../base/limits.ts'
import { formatUsdForPeople, nanoUsdOf, parseUsd, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import { count } from '../view/number.ts'
import { money } from '../view/money.ts'
import { utcTime } from '../view/time.ts'
import { table, type Cell } from './screen.ts'
import type { Run } from './session.ts'
import { moreOr, parseWhole } from './supply.ts'

type Line = Reply<'getStatement'>['lines'][number]
type Purchase = Reply<'getPurchaseHistory'>['purchase_history'][number]

const SHOWN = 20
const NANO_PER_CENT = 10_000_000n
/** Of a time, what is wide enough for the amounts beside it. */
const MINUTE_CHARS = 16

/** This server takes no payments by itself. */
const howMoneyComes = 'The operator adds it, by the id of the account: berth account shows it.'

export function addStatementCommands(program: Command, run: Run): void {
  addStatement(program, run)
  addPurchases(program, run)
}

function addStatement(program: Command, run: Run): void {
  const statement = program
    .command('statement')
    .description('every change of the balance, newest first')
    .option('-n, --limit <count>', 'how many lines', parseWhole(1, limits.pageRows), SHOWN)
    .option('--cursor <cursor>', 'go on where a long list was cut')
  statement.action(
    run('customer', async ({ client, screen }) => {
      const { limit, cursor } = statement.opts<{ limit: number; cursor?: string }>()
      const query = { limit, ...(cursor === undefined ? {} : { cursor }) }
      const page = await client.call('getStatement', { query })
      const again = limit === SHOWN ? 'berth statement' : `berth statement --limit ${limit}`
      screen.show(page, () =>
        page.lines.length === 0
          ? ['The balance has not changed yet: no money has come in.', howMoneyComes]
          : [
              ...table(screen, lineColumns, page.lines.map(lineCells)),
              '',
              moreOr(page.nextCursor, again, count(page.lines.length, 'line')),
            ],
      )
    }),
  )
}

const lineColumns = [
  { title: 'WHEN, UTC' },
  { title: 'WHAT FOR', shrink: true },
  { title: 'AMOUNT', right: true },
  { title: 'BALANCE', right: true },
] as const

function lineCells(line: Line): Cell[] {
  const amount = parseUsd(line.amountUsd) ?? zeroUsd
  return [
    utcTime(line.at).slice(0, MINUTE_CHARS),
    whatFor(line),
    amount > 0n ? { text: signed(amount), style: 'green' } : signed(amount),
    money(line.balanceAfterUsd),
  ]
}

/** The memo says what kind of line it is: Purchase, Refund of rental 3, virtual machine calm-red-fox. */
function whatFor({ memo, reason }: Line): string {
  return reason === null || reason === memo ? memo : `${memo}: ${reason}`
}

function addPurchases(program: Command, run: Run): void {
  program
    .command('purchases')
    .description('money that came in, newest first')
    .action(
      run('customer', async ({ client, screen }) => {
        const answer = await client.call('getPurchaseHistory')
        const rows = answer.purchase_history
        screen.show(answer, () =>
          rows.length === 0
            ? ['No money has come in yet.', howMoneyComes]
            : [
                ...table(screen, purchaseColumns, rows.map(purchaseCells)),
                '',
                'Amounts are in whole cents. Every change of the balance, exactly: berth statement',
              ],
        )
      }),
    )
}

const purchaseColumns = [{ title: 'WHEN' }, { title: 'AMOUNT', right: true }, { title: 'WHAT', shrink: true }] as const

function purchaseCells(purchase: Purchase): Cell[] {
  return [
    utcTime(purchase.timestamp),
    { text: signed(amountOf(purchase)), style: 'green' },
    purchase.memo ?? purchase.source,
  ]
}

/** The list is in cents. */
function amountOf({ amount }: Purchase): NanoUsd {
  return nanoUsdOf(BigInt(amount) * NANO_PER_CENT)
}

function signed(amount: NanoUsd): string {
  return `${amount > 0n ? '+' : ''}${formatUsdForPeople(amount)}`
}
