/**
 * `berth operator prices`: the price book, and changes of it. The book has hundreds of rows, most of them alike, so rows
 * that differ only in region or size are told in one line. A change is shown, before and after, and asked about.
 */
import { isDeepStrictEqual } from 'node:util'
import { Option, type Command } from 'commander'
import type { Reply } from '../client/client.ts'
import { isRefusal } from '../client/error.ts'
import { count } from '../view/number.ts'
import { refusalOf } from './failure.ts'
import { withReason } from './operator-account.ts'
import {
  fitsWords,
  groupBy,
  kindWord,
  mergeRows,
  readWords,
  regionWords,
  soldWords,
  type GpuPrice,
  type Words,
} from './operator-price-row.ts'
import type { ChangeOptions, Plan } from './operator-price-change.ts'
import { confirm, YES } from './question.ts'
import { table, type Cell, type Screen } from './screen.ts'
import type { Run } from './session.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

type PriceBook = Reply<'getPriceBook'>

const FIRST_PRICE = 'berth operator prices set --gpu vm/us-central-1/h100/ethernet/1=2.49 --reason "first prices"'

export function addPriceCommands(operator: Command, run: Run, shell: Shell): void {
  const prices = operator
    .command('prices')
    .description('what machines, storage and terms cost')
    .commandsGroup('Operators:')
    .usage('[options] [set] [which...]')
    .argument('[which...]', 'only rows of a kind, GPU, network, region or size, in any order')
    .option('--wide', 'one line a row')
  prices.action(
    run('operator', async ({ client, screen }) => {
      const words = readWords(prices.args)
      const book = await client.call('getPriceBook')
      const shown = chosenOf(book, words)
      const isWide = prices.opts<{ wide?: true }>().wide === true
      screen.show(shown, () => bookLines(screen, shown, { words, isWide }))
    }),
  )
  addSet(prices, run, shell)
}

/** Storage has a region only, and terms hold for everything. */
function chosenOf(book: PriceBook, words: Words): PriceBook {
  const { region, ...rest } = words
  const isRegionOnly = Object.keys(rest).length === 0
  return {
    gpus: book.gpus.filter((row) => fitsWords(row, words)),
    storage: isRegionOnly ? book.storage.filter((row) => region === undefined || row.region === region) : [],
    reserveOptions: Object.keys(words).length === 0 ? book.reserveOptions : [],
  }
}

interface Shown {
  readonly words: Words
  readonly isWide: boolean
}

function bookLines(screen: Screen, book: PriceBook, { words, isWide }: Shown): string[] {
  const isWhole = Object.keys(words).length === 0
  const nothing = book.gpus.length + book.storage.length + book.reserveOptions.length === 0
  if (nothing && !isWhole) return ['No row is like that.', 'berth operator prices shows all.']
  const parts = [
    gpuLines(screen, book.gpus, isWide),
    storageLines(screen, book.storage, isWide),
    termLines(screen, book.reserveOptions),
  ].filter((lines) => lines.length > 0)
  return [
    ...(book.gpus.length === 0 ? ['No GPU has a price: nobody can rent a virtual machine or bare metal.', ''] : []),
    ...parts.flatMap((lines) => [...lines, '']),
    book.gpus.length === 0
      ? `Set one with: ${FIRST_PRICE}`
      : `${count(book.gpus.length, 'GPU price')}. Suppliers price their own machines; models: berth models ls`,
  ]
}

function gpuLines(screen: Screen, rows: readonly GpuPrice[], isWide: boolean): string[] {
  if (rows.length === 0) return []
  const lines = rows.map((row) => ({ row, tail: soldWords(row.perGpuHourUsd, row.enabled) }))
  const merged = isWide
    ? lines.map(({ row, tail }) => ({ row, tail, sizes: [row.gpuCount], regions: [row.region] }))
    : mergeRows(lines)
  return table(
    screen,
    [
      { title: 'KIND' },
      { title: 'GPU' },
      { title: 'NETWORK' },
      { title: 'GPUS' },
      { title: 'A GPU AND HOUR', right: true },
      { title: 'REGION', shrink: true },
    ],
    merged.map(({ row, tail, sizes, regions }): Cell[] => [
      kindWord(row.machineType),
      row.gpuType,
      row.networkType,
      sizes.join(' '),
      row.enabled ? tail : { text: tail, style: 'yellow' },
      regionWords(regions),
    ]),
  )
}

function storageLines(screen: Screen, rows: PriceBook['storage'], isWide: boolean): string[] {
  if (rows.length === 0) return []
  const wordsOf = (row: PriceBook['storage'][number]): string => soldWords(row.perGbHourUsd, row.enabled)
  return table(
    screen,
    [
      { title: 'STORAGE, A GB AND HOUR', right: true },
      { title: 'REGION', shrink: true },
    ],
    groupBy(rows, (row) => (isWide ? row.region : wordsOf(row))).map((group) => [
      wordsOf(group[0]),
      regionWords(group.map(({ region }) => region)),
    ]),
  )
}

function termLines(screen: Screen, terms: PriceBook['reserveOptions']): string[] {
  if (terms.length === 0) return []
  return table(
    screen,
    [{ title: 'RESERVED FOR' }, { title: 'OFF', right: true }, { title: 'WHO' }],
    terms.map((term) => [
      count(term.termPeriodDays, 'day'),
      `${term.discountPercentage} %`,
      term.accountId ?? 'everyone',
    ]),
  )
}

function addSet(prices: Command, run: Run, shell: Shell): void {
  const set = prices
    .command('set')
    .description('change prices; shows what, and asks')
    .option('--gpu <rows=usd...>', 'a GPU and hour: h100=2.49, vm/h100/eu-north-2=2.59, b200=off')
    .option('--storage <region=usd...>', 'a GB and hour: us-central-1=0.0001, all=0.0002')
    .option('--term <days=percent...>', 'off for a term: 30=10, 30/ACCOUNT=15, 90=0 ends it')
    .addOption(
      new Option('--file <file>', 'JSON as berth operator prices --json prints it; - for standard input').conflicts([
        'gpu',
        'storage',
        'term',
      ]),
    )
  withReason(set)
    .option(...YES)
    .addHelpText('after', `\n${rowsHelp}`)
  set.action(
    run('operator', async ({ client, screen }) => {
      const options = set.opts<ChangeOptions & { yes?: true }>()
      if (['gpu', 'storage', 'term', 'file'].every((name) => set.getOptionValue(name) === undefined)) {
        throw new CliError(exitCodes.usage, 'Say which price.', [
          'Such as: berth operator prices set --gpu h100=2.49 --reason "autumn prices"',
        ])
      }
      // It needs the contract's schemas, which the help of the other commands should not wait for.
      const { readChange } = await import('./operator-price-change.ts')
      const planOf = readChange(shell, options)
      const book = await client.call('getPriceBook')
      const plan = planOf(book)
      if (plan.rowCount === 0) {
        screen.show(book, () => ['Nothing was changed: the price book says so already.'])
        return
      }
      const about = planLines(screen, plan)
      if (options.yes === true) for (const line of about) screen.remark(line)
      await confirm(shell, `Save ${count(plan.rowCount, 'change')}?`, options.yes === true, about)
      // Rows are sent whole, and a question may stand for an hour: another operator's change would be undone.
      if (options.yes !== true && !isDeepStrictEqual(planOf(await client.call('getPriceBook')), plan)) {
        throw new CliError(exitCodes.failed, 'The price book has changed meanwhile.', [
          'Nothing was saved. Run it again: it shows the prices of now.',
        ])
      }
      const saved = await withField(client.call('changePriceBook', { body: plan.body }))
      screen.show(saved, () => [`${count(plan.rowCount, 'change')} saved.`])
    }),
  )
}

const rowsHelp = `Rows of GPUs are named by any of these, with / between, in any order; all that
fit are changed, and of several changes the last one counts:
  kind vm or metal, GPU, network, region, GPUs a machine, or all
A row that is not there yet is made when all five are named. on and off instead
of a price: sell it or not, at the price that it has.`

function planLines(screen: Screen, { lines }: Plan): string[] {
  return [
    ...table(
      screen,
      [
        { title: 'ROW', shrink: true },
        { title: 'NOW', right: true },
        { title: 'NEW', right: true },
      ],
      lines.map(({ what, before, after }): Cell[] => [what, before, { text: after, style: 'bold' }]),
    ),
    '',
    'New rentals and volumes pay the new price. Rentals that run keep theirs.',
  ]
}

/** Which account of a contract is not there: the options have been checked, and that is for the server to know. */
async function withField<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    if (!isRefusal(error, 'account_not_found')) throw error
    const words = 'Nothing was changed: a term names an account that is not there.'
    throw refusalOf(error, exitCodes.failed, ['berth operator accounts lists the accounts.'], words)
  }
}
