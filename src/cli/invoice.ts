/** `berth invoices`: one a month, made from the books. An invoice is named by its month or its number. */
import { InvalidArgumentError, type Command } from 'commander'
import type { Client, Reply } from '../client/client.ts'
import { ApiError } from '../client/error.ts'
import { count } from '../view/number.ts'
import { money } from '../view/money.ts'
import { utcTime } from '../view/time.ts'
import { addOutputOptions, checkOutput, writeOutput, type OutputOptions } from './output-file.ts'
import { fields, printable, table, type Cell, type Screen } from './screen.ts'
import type { Run } from './session.ts'
import { CliError, exitCodes } from './shell.ts'

type Invoice = Reply<'getInvoice'>
type InvoiceSummary = Reply<'listInvoices'>['invoices'][number]
type InvoiceLine = Invoice['lines'][number]

const DATE_CHARS = 10
const MONTH_HELP = 'its month, such as 2026-11, or its number'

export function addInvoiceCommands(program: Command, run: Run): void {
  const invoices = program
    .command('invoices')
    .description('your invoices, one a month')
    .usage('[options] [show|save]')
    .commandsGroup('Customers:')
  invoices.action(
    run('customer', async ({ client, screen }) => {
      const answer = await client.call('listInvoices')
      const [newest] = answer.invoices
      screen.show(answer, () =>
        newest === undefined
          ? ['There is no invoice yet.', 'Each month in which the balance changes gets one.']
          : [
              ...table(screen, summaryColumns, answer.invoices.map(summaryCells)),
              '',
              `${count(answer.invoices.length, 'invoice')}. See one with: berth invoices show ${newest.month}`,
            ],
      )
    }),
  )
  addShow(invoices, run)
  addSave(invoices, run)
}

const summaryColumns = [
  { title: 'MONTH' },
  { title: 'NUMBER' },
  { title: 'STATUS' },
  { title: 'CHARGES', right: true },
] as const

function summaryCells(one: InvoiceSummary): Cell[] {
  return [
    one.month,
    one.number,
    { text: one.status, style: one.status === 'open' ? 'yellow' : 'green' },
    money(one.chargesUsd),
  ]
}

function addShow(invoices: Command, run: Run): void {
  invoices
    .command('show')
    .description('one invoice, line by line')
    .argument('<month>', MONTH_HELP, parseWhich)
    .action(
      run('customer', async ({ client, screen }, wanted = '') => {
        const invoice = await readInvoice(client, wanted)
        screen.show(invoice, () => invoiceLines(screen, invoice))
      }),
    )
}

function invoiceLines(screen: Screen, invoice: Invoice): string[] {
  const isOpen = invoice.status === 'open'
  return [
    ...fields(screen, [
      ['Invoice', { text: invoice.number, style: 'bold' }],
      ['Account', `${invoice.account.name} (${invoice.account.id})`],
      ['Issued', isOpen ? 'not yet, the month is not over' : utcTime(invoice.issuedAt).slice(0, DATE_CHARS)],
      ['Balance at first', money(invoice.openingBalanceUsd)],
      ['Payments', money(invoice.paymentsUsd)],
      ['Charges', money(invoice.chargesUsd)],
      [isOpen ? 'Balance so far' : 'Balance at last', money(invoice.closingBalanceUsd)],
    ]),
    '',
    ...(invoice.lines.length === 0 ? ['Nothing was charged.'] : table(screen, chargeColumns, invoice.lines.map(cells))),
    '',
    ...(invoice.payments.length === 0
      ? ['No money came in.']
      : table(screen, paymentColumns, invoice.payments.map(paymentCells))),
    '',
    `To print or keep it: berth invoices save ${invoice.month} -o invoice.html`,
  ]
}

const chargeColumns = [
  { title: 'CHARGES', shrink: true },
  { title: 'QUANTITY', right: true },
  { title: 'UNIT PRICE', right: true },
  { title: 'AMOUNT', right: true },
] as const

function cells({ description, quantity, unitPriceUsd, amountUsd }: InvoiceLine): Cell[] {
  return [description, quantity, unitPriceUsd === null ? '' : money(unitPriceUsd), money(amountUsd)]
}

const paymentColumns = [
  { title: 'PAYMENTS', shrink: true },
  { title: 'DAY', right: true },
  { title: 'AMOUNT', right: true },
] as const

function paymentCells({ description, quantity, amountUsd }: InvoiceLine): Cell[] {
  return [description, quantity, money(amountUsd)]
}

function addSave(invoices: Command, run: Run): void {
  const command = invoices
    .command('save')
    .description('one invoice as a page to print')
    .argument('<month>', MONTH_HELP, parseWhich)
  const save = addOutputOptions(command, 'HTML')
  save.action(
    run('customer', async ({ client, screen }, wanted = '') => {
      const options = save.opts<OutputOptions>()
      checkOutput(options)
      const { month, number } = await readInvoice(client, wanted)
      const page = await client.call('getInvoicePage', { params: { month } })
      writeOutput(options, Buffer.from(page))
      screen.show({ file: options.output, month, number }, () => [
        `${number} is in ${printable(options.output)}.`,
        'A browser shows it, prints it and saves it as PDF.',
      ])
    }),
  )
}

/** A number has the month at its end. One of another account is no invoice here, whatever its month. */
async function readInvoice(client: Client, wanted: string): Promise<Invoice> {
  const month = wanted.slice(-'2026-11'.length)
  const invoice = await find(client, month)
  if (invoice !== undefined && (wanted === month || wanted === invoice.number)) return invoice
  throw new CliError(exitCodes.failed, `There is no invoice ${wanted === month ? `for ${month}` : wanted}.`, [
    'berth invoices lists them: each month in which the balance changed has one.',
  ])
}

async function find(client: Client, month: string): Promise<Invoice | undefined> {
  try {
    return await client.call('getInvoice', { params: { month } })
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined
    throw error
  }
}

function parseWhich(text: string): string {
  if (!/^([\w-]{1,60}-)?\d{4}-(0[1-9]|1[0-2])$/.test(text)) {
    throw new InvalidArgumentError('A month such as 2026-11, or a number that berth invoices shows.')
  }
  return text
}
