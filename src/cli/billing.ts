/** `berth balance`, `statement`, `purchases` and `invoices`. An invoice is named by its month or its number. */
import { money } from '../view/money.ts'
import { utcDay, utcTime } from '../view/time.ts'
import { InvalidArgumentError } from 'commander'
import { systemClock } from '../base/instant.ts'
import { formatUsdForPeople, nanoUsdOf, parseUsd, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import { ApiError } from '../client/error.ts'
import { balanceFacts } from './balance.ts'
import { checkOutput, outputOptions, writeOutput, type OutputOptions } from './output-file.ts'
import { custom, list, show } from './row.ts'
import { fields, printable, table, type Cell, type Screen } from './screen.ts'
import { CliError, exitCodes } from './shell.ts'
import type { Row } from './row-type.ts'

type Invoice = Reply<'getInvoice'>
type StatementLine = Reply<'getStatement'>['lines'][number]

const NANO_PER_CENT = 10_000_000n
const MINUTE_CHARS = '2026-11-14 12:00'.length
const MONTH_CHARS = '2026-11'.length

/** This server takes no payments itself. */
const HOW_TO_PAY = 'The operator adds money to your account id: berth account'

const month = {
  name: '<month>',
  help: 'month, such as 2026-11, or invoice number',
  parse: (text: string): string => {
    if (/^([\w-]{1,60}-)?\d{4}-(0[1-9]|1[0-2])$/.test(text)) return text
    throw new InvalidArgumentError('Must be a month such as 2026-11, or a number shown by berth invoices.')
  },
}

export const rows: readonly Row[] = [
  show({
    command: 'balance',
    operation: 'getCustomerBalance',
    description: 'show the balance, holds, and how long it lasts',
    lines: (balance, { screen }) => fields(screen, balanceFacts(balance, systemClock.now())),
    examples: ['berth balance', 'berth balance --json'],
  }),
  list({
    command: 'statement',
    operation: 'getStatement',
    rows: 'lines',
    rowsShown: 20,
    description: 'list every change to the balance, newest first',
    noun: 'line',
    empty: ['The balance has not changed yet.', HOW_TO_PAY],
    columns: [
      { title: 'TIME (UTC)', of: ({ at }) => utcTime(at).slice(0, MINUTE_CHARS) },
      { title: 'DESCRIPTION', shrink: true, of: descriptionOf },
      { title: 'AMOUNT', right: true, of: ({ amountUsd }) => signedCell(parseUsd(amountUsd) ?? zeroUsd) },
      { title: 'BALANCE', right: true, of: ({ balanceAfterUsd }) => money(balanceAfterUsd) },
    ],
    examples: ['berth statement', 'berth statement --limit 1000 --json'],
  }),
  list({
    command: 'purchases',
    operation: 'getPurchaseHistory',
    rows: 'purchase_history',
    description: 'list payments and credits, newest first',
    noun: 'payment',
    empty: ['There are no payments yet.', HOW_TO_PAY],
    columns: [
      { title: 'TIME', of: ({ timestamp }) => utcTime(timestamp) },
      { title: 'AMOUNT', right: true, of: ({ amount }) => signedCell(nanoUsdOf(BigInt(amount) * NANO_PER_CENT)) },
      { title: 'DESCRIPTION', shrink: true, of: ({ memo, source }) => memo ?? source },
    ],
    hint: 'Rounded to cents; exact amounts: berth statement --json',
    examples: ['berth purchases'],
  }),
  list({
    command: 'invoices',
    operation: 'listInvoices',
    rows: 'invoices',
    description: 'list invoices, one per month',
    noun: 'invoice',
    empty: ['There are no invoices yet.', 'Each month in which the balance changes has one.'],
    columns: [
      { title: 'MONTH', of: (one) => one.month },
      { title: 'NUMBER', of: (one) => one.number },
      { title: 'STATUS', of: (one) => ({ text: one.status, style: one.status === 'open' ? 'yellow' : 'green' }) },
      { title: 'CHARGES', right: true, of: (one) => money(one.chargesUsd) },
    ],
    hint: ([newest]) => `To see one: berth invoices show ${newest?.month ?? 'MONTH'}`,
    examples: ['berth invoices'],
  }),
  custom({
    command: 'invoices show',
    operation: 'getInvoice',
    description: 'show an invoice line by line',
    args: [month],
    run: async ({ client, screen, args }) => {
      const invoice = await readInvoice(client, String(args[0]))
      screen.show(invoice, () => invoiceLines(screen, invoice))
    },
    examples: ['berth invoices show 2026-11'],
  }),
  custom<OutputOptions>({
    command: 'invoices save',
    operation: 'getInvoicePage',
    description: 'save an invoice as a printable HTML page',
    args: [month],
    options: outputOptions('HTML'),
    run: async ({ client, screen, options, args }) => {
      checkOutput(options)
      const invoice = await readInvoice(client, String(args[0]))
      const page = await client.call('getInvoicePage', { params: { month: invoice.month } })
      writeOutput(options, Buffer.from(page))
      screen.show({ file: options.output, month: invoice.month, number: invoice.number }, () => [
        `Saved ${invoice.number} to ${printable(options.output)}.`,
        'Open it in a browser to print it or save it as PDF.',
      ])
    },
    examples: ['berth invoices save 2026-11 -o invoice.html'],
  }),
]

/** The memo says what kind of line it is: Purchase, Refund of rental 3, virtual machine calm-red-fox. */
function descriptionOf({ memo, reason }: StatementLine): string {
  return reason === null || reason === memo ? memo : `${memo}: ${reason}`
}

function signedCell(amount: NanoUsd): Cell {
  const text = `${amount > 0n ? '+' : ''}${formatUsdForPeople(amount)}`
  return amount > 0n ? { text, style: 'green' } : text
}

function invoiceLines(screen: Screen, invoice: Invoice): string[] {
  const isOpen = invoice.status === 'open'
  return [
    ...fields(screen, [
      ['Invoice', { text: invoice.number, style: 'bold' }],
      ['Account', `${invoice.account.name} (${invoice.account.id})`],
      ['Issued', isOpen ? 'not yet: the month is not over' : utcDay(invoice.issuedAt)],
      ['Opening balance', money(invoice.openingBalanceUsd)],
      ['Payments', money(invoice.paymentsUsd)],
      ['Charges', money(invoice.chargesUsd)],
      [isOpen ? 'Current balance' : 'Closing balance', money(invoice.closingBalanceUsd)],
    ]),
    '',
    ...(invoice.lines.length === 0
      ? ['No charges.']
      : table(
          screen,
          [
            { title: 'CHARGES', shrink: true },
            { title: 'QUANTITY', right: true },
            { title: 'UNIT PRICE', right: true },
            { title: 'AMOUNT', right: true },
          ],
          invoice.lines.map((line) => [
            line.description,
            line.quantity,
            line.unitPriceUsd === null ? '' : money(line.unitPriceUsd),
            money(line.amountUsd),
          ]),
        )),
    '',
    ...(invoice.payments.length === 0
      ? ['No payments.']
      : table(
          screen,
          [
            { title: 'PAYMENTS', shrink: true },
            { title: 'DAY', right: true },
            { title: 'AMOUNT', right: true },
          ],
          invoice.payments.map((line) => [line.description, line.quantity, money(line.amountUsd)]),
        )),
    '',
    `To save it: berth invoices save ${invoice.month} -o invoice.html`,
  ]
}

/** A number ends in the month. One of another account is no invoice here, whatever its month. */
async function readInvoice(client: Client, wanted: string): Promise<Invoice> {
  const [at, number] = [wanted.slice(-MONTH_CHARS), wanted.length > MONTH_CHARS ? wanted : undefined]
  try {
    const invoice = await client.call('getInvoice', { params: { month: at } })
    if (number === undefined || number === invoice.number) return invoice
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 404)) throw error
  }
  throw new CliError(exitCodes.failed, `There is no invoice ${number ?? `for ${at}`}.`, [
    'To list them: berth invoices. Each month in which the balance changed has one.',
  ])
}
