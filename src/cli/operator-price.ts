/**
 * `berth operator prices`: the price book and changes to it. It has hundreds of rows, so rows that differ only in region
 * or size are merged into one line. A change is shown, before and after, and confirmed.
 */
import { count } from '../view/number.ts'
import { isDeepStrictEqual } from 'node:util'
import type { Reply } from '../client/client.ts'
import {
  isMatch,
  groupBy,
  kindLabel,
  mergeRows,
  readFilter,
  regionLabel,
  priceLabel,
  type GpuPrice,
  type PriceFilter,
} from './operator-price-row.ts'
import type { ChangeOptions, Plan } from './operator-price-change.ts'
import { confirm } from './question.ts'
import { custom } from './row.ts'
import { table, type Cell, type Screen } from './screen.ts'
import { CliError, exitCodes } from './shell.ts'
import type { Call, Row } from './row-type.ts'

type PriceBook = Reply<'getPriceBook'>

const FIRST_PRICE = 'berth operator prices set --gpu vm/us-central-1/h100/ethernet/1=2.49 --reason "first prices"'

const ROWS_HELP = `A row of GPUs is named by any of these, separated by /, in any order:
  kind (vm or metal), GPU, network, region, GPUs per machine; or all
Every matching row is changed; if two changes match a row, the last one counts.
A new row needs all five. on and off instead of a price put a row on sale or
take it off sale.`

export const rows: readonly Row[] = [
  custom<{ wide?: true }>({
    command: 'operator prices',
    operation: 'getPriceBook',
    description: 'list prices of machines, storage and terms',
    args: [{ name: '[filter...]', help: 'only rows of this kind, GPU, network, region or size' }],
    options: [{ flag: '--wide', help: 'one line per row' }],
    run: async ({ client, screen, options, args }) => {
      const filter = readFilter((args[0] ?? []) as string[])
      const book = filterBook(await client.call('getPriceBook'), filter)
      screen.show(book, () => bookLines(screen, book, { filter, isWide: options.wide === true }))
    },
    examples: ['berth operator prices', 'berth operator prices vm h100 eu-north-2 --wide'],
  }),
  custom<ChangeOptions & { yes?: true }>({
    command: 'operator prices set',
    operation: 'changePriceBook',
    only: ['reason'],
    flags: { reason: { help: 'reason, recorded in the audit log' } },
    description: 'change prices; shows the changes and asks first',
    options: [
      { flag: '--gpu <rows=usd...>', help: 'per GPU-hour: h100=2.49, vm/h100/eu-north-2=2.59, b200=off' },
      { flag: '--storage <region=usd...>', help: 'per GB-hour: us-central-1=0.0001, all=0.0002' },
      { flag: '--term <days=percent...>', help: 'discount of a term: 30=10, 30/ACCOUNT=15, 90=0 removes it' },
      {
        flag: '--file <file>',
        help: 'JSON as printed by berth operator prices --json; - reads standard input',
        conflicts: ['gpu', 'storage', 'term'],
      },
    ],
    confirms: true,
    notes: ROWS_HELP,
    run: runSet,
    examples: [
      'berth operator prices set --gpu h100=2.49 --reason "autumn prices"',
      'berth operator prices set --gpu vm/h100/eu-north-2=2.59 metal/b200=off \\',
      '    --storage all=0.0001 --term 30=10 --reason "autumn prices" --yes',
      'berth operator prices set --file prices.json --reason "autumn prices"',
    ],
  }),
]

async function runSet({ client, screen, shell, options }: Call<ChangeOptions & { yes?: true }>): Promise<void> {
  const { gpu, storage, term, file, yes } = options
  if ([gpu, storage, term, file].every((one) => one === undefined)) {
    throw new CliError(exitCodes.usage, 'No price was given.', [
      'Example: berth operator prices set --gpu h100=2.49 --reason "autumn prices"',
    ])
  }
  // It loads the contract's schemas, which other commands need not wait for.
  const { readChange } = await import('./operator-price-change.ts')
  const planOf = readChange(shell, options)
  const book = await client.call('getPriceBook')
  const plan = planOf(book)
  if (plan.rowCount === 0) {
    screen.show(book, () => ['No change: the price book already has these prices.'])
    return
  }
  const about = planLines(screen, plan)
  if (yes === true) for (const line of about) screen.remark(line)
  await confirm(shell, `Save ${count(plan.rowCount, 'change')}?`, yes === true, about)
  // Rows are sent whole, and a question may wait for an hour: another operator's change must not be undone.
  if (yes !== true && !isDeepStrictEqual(planOf(await client.call('getPriceBook')), plan)) {
    throw new CliError(exitCodes.failed, 'The price book has changed in the meantime.', [
      'Nothing was saved. Run the command again to see the current prices.',
    ])
  }
  const saved = await client.call('changePriceBook', { body: plan.body })
  screen.show(saved, () => [`Saved ${count(plan.rowCount, 'change')}.`])
}

/** Storage rows have only a region, and terms apply to everything. */
function filterBook(book: PriceBook, filter: PriceFilter): PriceBook {
  const { region, ...rest } = filter
  const isRegionOnly = Object.keys(rest).length === 0
  return {
    gpus: book.gpus.filter((row) => isMatch(row, filter)),
    storage: isRegionOnly ? book.storage.filter((row) => region === undefined || row.region === region) : [],
    reserveOptions: Object.keys(filter).length === 0 ? book.reserveOptions : [],
  }
}

interface Shown {
  readonly filter: PriceFilter
  readonly isWide: boolean
}

function bookLines(screen: Screen, book: PriceBook, { filter, isWide }: Shown): string[] {
  const isWhole = Object.keys(filter).length === 0
  const nothing = book.gpus.length + book.storage.length + book.reserveOptions.length === 0
  if (nothing && !isWhole) return ['No rows match.', 'To list all of them: berth operator prices']
  const parts = [
    gpuLines(screen, book.gpus, isWide),
    storageLines(screen, book.storage, isWide),
    termLines(screen, book.reserveOptions),
  ].filter((lines) => lines.length > 0)
  return [
    ...(book.gpus.length === 0 ? ['No GPU has a price, so virtual machines and bare metal cannot be rented.', ''] : []),
    ...parts.flatMap((lines) => [...lines, '']),
    book.gpus.length === 0
      ? `To set one: ${FIRST_PRICE}`
      : `${count(book.gpus.length, 'GPU price')}. Suppliers set their own prices. Models: berth models ls`,
  ]
}

function gpuLines(screen: Screen, rows: readonly GpuPrice[], isWide: boolean): string[] {
  if (rows.length === 0) return []
  const lines = rows.map((row) => ({ row, tail: priceLabel(row.perGpuHourUsd, row.enabled) }))
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
      { title: '$/GPU-HR', right: true },
      { title: 'REGION', shrink: true },
    ],
    merged.map(({ row, tail, sizes, regions }): Cell[] => [
      kindLabel(row.machineType),
      row.gpuType,
      row.networkType,
      sizes.join(' '),
      row.enabled ? tail : { text: tail, style: 'yellow' },
      regionLabel(regions),
    ]),
  )
}

function storageLines(screen: Screen, rows: PriceBook['storage'], isWide: boolean): string[] {
  if (rows.length === 0) return []
  const labelOf = (row: PriceBook['storage'][number]): string => priceLabel(row.perGbHourUsd, row.enabled)
  return table(
    screen,
    [
      { title: 'STORAGE $/GB-HR', right: true },
      { title: 'REGION', shrink: true },
    ],
    groupBy(rows, (row) => (isWide ? row.region : labelOf(row))).map((group) => [
      labelOf(group[0]),
      regionLabel(group.map(({ region }) => region)),
    ]),
  )
}

function termLines(screen: Screen, terms: PriceBook['reserveOptions']): string[] {
  if (terms.length === 0) return []
  return table(
    screen,
    [{ title: 'RESERVED TERM' }, { title: 'DISCOUNT', right: true }, { title: 'ACCOUNT' }],
    terms.map((term) => [count(term.termPeriodDays, 'day'), `${term.discountPercentage}%`, term.accountId ?? 'all']),
  )
}

function planLines(screen: Screen, { lines }: Plan): string[] {
  return [
    ...table(
      screen,
      [
        { title: 'ROW', shrink: true },
        { title: 'CURRENT', right: true },
        { title: 'NEW', right: true },
      ],
      lines.map(({ label, before, after }): Cell[] => [label, before, { text: after, style: 'bold' }]),
    ),
    '',
    'New prices apply to new rentals and volumes. Running rentals keep their price.',
  ]
}
