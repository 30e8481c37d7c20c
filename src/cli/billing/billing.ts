/** `berth balance`, `statement`, `billing`, `purchases` and `invoices`. An invoice is named by its month or its number. */
import { InvalidArgumentError } from 'commander'
import { formatUsdForPeople, nanoUsdOf, parseUsd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { Client, Reply } from '../../client/client.ts'
import { ApiError } from '../../client/error.ts'
import { count } from '../../view/number.ts'
import { utcDay, utcTime } from '../../view/time.ts'
import { balanceFacts } from './balance.ts'
import { checkOutput, outputOptions, writeOutput, type OutputOptions } from '../kit/output-file.ts'
import { factsOf, tableOf } from '../kit/record.ts'
import { custom, list, show } from '../kit/row.ts'
import { bold, toned, type Cell, type Content } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Row } from '../kit/row-type.ts'
import { autoTopUpRows } from './auto-top-up.ts'
import { paymentRows } from './payment.ts'
import { costsRow } from './usage.ts'

type Invoice = Reply<'getInvoice'>

const NANO_PER_CENT = 10_000_000n
const MINUTE_CHARS = '2026-11-14 12:00'.length
const MONTH_CHARS = '2026-11'.length

/** This server takes no payments itself. */
const HOW_TO_PAY = 'The operator adds money to your account id: berth account'

const MONTH = {
  '<month>': {
    help: 'month, such as 2026-11, or invoice number',
    parse: (text: string): string => {
      if (/^([\w-]{1,60}-)?\d{4}-(0[1-9]|1[0-2])$/.test(text)) return text
      throw new InvalidArgumentError('Must be a month such as 2026-11, or a number shown by berth invoices ls.')
    },
  },
}

export const rows: readonly Row[] = [
  show('balance', 'getCustomerBalance', 'show the balance, holds, and how long it lasts', {
    facts: balanceFacts,
    examples: ['berth balance', 'berth balance --json'],
  }),
  list('statement', 'getStatement', 'list every change to the balance, newest first', {
    rowsShown: 20,
    columns: [
      {
        'TIME (UTC)': ({ at }) => utcTime(at).slice(0, MINUTE_CHARS),
        // The memo says what kind of line it is: Purchase, Refund of rental 3, virtual machine calm-red-fox.
        DESCRIPTION: ({ memo, reason }) => (reason === null || reason === memo ? memo : `${memo}: ${reason}`),
        AMOUNT: ({ amountUsd }) => signedCell(parseUsd(amountUsd) ?? zeroUsd),
      },
      'balanceAfterUsd:BALANCE',
    ],
    empty: ['The balance has not changed yet.', HOW_TO_PAY],
    examples: ['berth statement', 'berth statement --limit 1000 --json'],
  }),
  costsRow,
  ...paymentRows,
  ...autoTopUpRows,
  list('billing statement', 'getDailyStatement', 'list changes to the balance by day and resource, oldest first', {
    rowsShown: 50,
    flags: {
      from: '--since <day>  first day, such as 2026-11-01 (default: first day of the month)',
      to: '--until <day>  last day (default: today)',
    },
    columns: ['day', 'description', 'amountUsd', 'balanceAfterUsd:BALANCE'],
    wide: ['kind', 'service', 'rentalId', 'volumeId', 'model', 'postings'],
    empty: ['The balance did not change in these days.', HOW_TO_PAY],
    examples: ['berth billing statement', 'berth billing statement --since 2026-11-01 --until 2026-11-30'],
  }),
  custom<OutputOptions>('billing export', 'save the statement by day as CSV', {
    operation: 'exportStatement',
    only: ['from', 'to'],
    flags: {
      from: '--since <day>  first day, such as 2026-11-01 (default: first day of the month)',
      to: '--until <day>  last day (default: today)',
    },
    options: outputOptions('CSV'),
    examples: ['berth billing export --since 2026-11-01 --until 2026-11-30 -o november.csv'],
    run: async ({ client, screen, options, input }) => {
      checkOutput(options)
      const { from, to } = (input.parts.query ?? {}) as { from?: string; to?: string }
      const csv = await client.call('exportStatement', { query: { from, to } })
      writeOutput(options, Buffer.from(csv))
      // The titles, the opening and the closing balance do not count.
      const lines = csv.split('\r\n').length - 4
      screen.show({ file: options.output, lines }, () => [`Saved ${count(lines, 'line')} to ${options.output}.`])
    },
  }),
  list('purchases ls', 'getPurchaseHistory', 'list payments and credits, newest first', {
    noun: 'payment',
    columns: [
      'timestamp:TIME',
      {
        AMOUNT: ({ amount }) => signedCell(nanoUsdOf(BigInt(amount) * NANO_PER_CENT)),
        DESCRIPTION: ({ memo, source }) => memo ?? source,
      },
    ],
    empty: HOW_TO_PAY,
    hint: 'Rounded to cents; exact amounts: berth statement --json',
  }),
  list('invoices ls', 'listInvoices', 'list invoices, one per month', {
    columns: ['month', 'number', 'status', 'chargesUsd'],
    empty: 'Each month in which the balance changes has one.',
    hint: ([newest]) => `To see one: berth invoices show ${newest?.month ?? 'MONTH'}`,
  }),
  custom('invoices show', 'show an invoice line by line', {
    operation: 'getInvoice',
    args: MONTH,
    examples: ['berth invoices show 2026-11'],
    run: async ({ client, screen, args }) => {
      const invoice = await readInvoice(client, String(args[0]))
      screen.show(invoice, () => describeInvoice(invoice))
    },
  }),
  custom<OutputOptions>('invoices save', 'save an invoice as a printable HTML page', {
    operation: 'getInvoicePage',
    args: MONTH,
    options: outputOptions('HTML'),
    examples: ['berth invoices save 2026-11 -o invoice.html'],
    run: async ({ client, screen, options, args }) => {
      checkOutput(options)
      const { month, number } = await readInvoice(client, String(args[0]))
      writeOutput(options, Buffer.from(await client.call('getInvoicePage', { params: { month } })))
      screen.show({ file: options.output, month, number }, () => [
        `Saved ${number} to ${options.output}.`,
        'Open it in a browser to print it or save it as PDF.',
      ])
    },
  }),
]

function signedCell(amount: NanoUsd): Cell {
  return amount > 0n ? toned('good', `+${formatUsdForPeople(amount)}`) : formatUsdForPeople(amount)
}

function describeInvoice(invoice: Invoice): Content[] {
  const isOpen = invoice.status === 'open'
  return [
    ...factsOf(invoice, [
      {
        Invoice: ({ number }) => bold(number),
        Account: ({ account }) => `${account.name} (${account.id})`,
        Issued: ({ issuedAt }) => (isOpen ? 'not yet: the month is not over' : utcDay(issuedAt)),
      },
      'openingBalanceUsd',
      'paymentsUsd',
      'chargesUsd',
      isOpen ? 'closingBalanceUsd:Current balance' : 'closingBalanceUsd',
    ]),
    '',
    invoice.lines.length === 0
      ? 'No charges.'
      : tableOf(invoice.lines, ['description:CHARGES', 'quantity', 'unitPriceUsd', 'amountUsd']),
    '',
    invoice.payments.length === 0
      ? 'No payments.'
      : tableOf(invoice.payments, ['description:PAYMENTS', 'quantity:DAY', 'amountUsd']),
    '',
    `To save it: berth invoices save ${invoice.month} -o invoice.html`,
  ]
}

/** A number ends in the month. One of another account is no invoice here, whatever its month. */
async function readInvoice(client: Client, text: string): Promise<Invoice> {
  const [at, number] = [text.slice(-MONTH_CHARS), text.length > MONTH_CHARS ? text : undefined]
  try {
    const invoice = await client.call('getInvoice', { params: { month: at } })
    if (number === undefined || number === invoice.number) return invoice
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 404)) throw error
  }
  throw new CliError(exitCodes.failed, `There is no invoice ${number ?? `for ${at}`}.`, [
    'To list them: berth invoices ls. Each month in which the balance changed has one.',
  ])
}
