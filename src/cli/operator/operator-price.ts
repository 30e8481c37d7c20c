/**
 * `berth operator prices ls`: the price book and changes to it. It has hundreds of rows, so rows that differ only in region
 * or size are merged into one line. A change is shown, before and after, and confirmed.
 */
import { count } from '../../view/number.ts'
import { isDeepStrictEqual } from 'node:util'
import type { Reply } from '../../client/client.ts'
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
import { confirm } from '../kit/question.ts'
import { custom } from '../kit/row.ts'
import { tableOf } from '../kit/record.ts'
import { bold, toned, type Content } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

type PriceBook = Reply<'getPriceBook'>

const FIRST_PRICE = 'berth operator prices set --gpu vm/us-central-1/h100/ethernet/1=2.49 --reason "first prices"'

const ROWS_HELP = `A row of GPUs is named by any of these, separated by /, in any order:
  kind (vm or metal), GPU, network, region, GPUs per machine; or all
Every matching row is changed; if two changes match a row, the last one counts.
A new row needs all five. on and off instead of a price put a row on sale or
take it off sale.`

export const rows: readonly Row[] = [
  custom<{ wide?: true }>('operator prices ls', 'list prices of machines, storage and terms', {
    operation: 'getPriceBook',
    args: { '[filter...]': 'only rows of this kind, GPU, network, region or size' },
    options: { '--wide': 'one line per row' },
    run: async ({ client, screen, options, args }) => {
      const filter = readFilter((args[0] ?? []) as string[])
      const book = filterBook(await client.call('getPriceBook'), filter)
      screen.show(book, () => describeBook(book, { filter, isWide: options.wide === true }))
    },
    examples: ['berth operator prices ls', 'berth operator prices ls vm h100 eu-north-2 --wide'],
  }),
  custom<ChangeOptions & { yes?: true }>('operator prices set', 'change prices; shows the changes and asks first', {
    operation: 'changePriceBook',
    only: ['reason'],
    flags: { reason: 'reason, recorded in the audit log' },
    options: {
      '--gpu <rows=usd...>': 'per GPU-hour: h100=2.49, vm/h100/eu-north-2=2.59, b200=off',
      '--storage <region=usd...>': 'per GB-hour: us-central-1=0.0001, all=0.0002',
      '--term <days=percent...>': 'discount of a term: 30=10, 30/ACCOUNT=15, 90=0 removes it',
      '--file <file>': {
        help: 'JSON as printed by berth operator prices ls --json; - reads standard input',
        conflicts: ['gpu', 'storage', 'term'],
      },
    },
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

async function runSet(call: Call<ChangeOptions & { yes?: true }>): Promise<void> {
  const { client, screen, shell, options } = call
  const { gpu, storage, term, file, yes } = options
  if ([gpu, storage, term, file].every((one) => one === undefined)) {
    throw new CliError(exitCodes.usage, 'No price was given.', [
      'Example: berth operator prices set --gpu h100=2.49 --reason "autumn prices"',
    ])
  }
  // This file loads the contract's schemas, so it is loaded only when needed.
  const { readChange } = await import('./operator-price-change.ts')
  const planOf = readChange(shell, options)
  const book = await client.call('getPriceBook')
  const plan = planOf(book)
  if (plan.rowCount === 0) {
    screen.show(book, () => ['No change: the price book already has these prices.'])
    return
  }
  const about = describePlan(plan)
  if (yes === true) screen.remark(...about)
  await confirm(call, `Save ${count(plan.rowCount, 'change')}?`, about)
  // Whole rows are sent, and the question may have waited for an hour: another operator's change must not be undone.
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
  const { region, ...otherParts } = filter
  const isRegionOnly = Object.keys(otherParts).length === 0
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

function describeBook(book: PriceBook, { filter, isWide }: Shown): Content[] {
  const { gpus, storage, reserveOptions: terms } = book
  if (gpus.length + storage.length + terms.length === 0 && Object.keys(filter).length > 0) {
    return ['No rows match.', 'To list all of them: berth operator prices ls']
  }
  return [
    ...(gpus.length === 0
      ? ['No GPU has a price, so virtual machines and bare metal cannot be rented.', '']
      : [describeGpus(gpus, isWide), '']),
    ...(storage.length === 0 ? [] : [describeStorage(storage, isWide), '']),
    ...(terms.length === 0 ? [] : [describeTerms(terms), '']),
    gpus.length === 0
      ? `To set one: ${FIRST_PRICE}`
      : `${count(gpus.length, 'GPU price')}. Suppliers set their own prices. Models: berth models ls`,
  ]
}

function describeGpus(rows: readonly GpuPrice[], isWide: boolean): Content {
  const lines = rows.map((row) => ({ row, tail: priceLabel(row.perGpuHourUsd, row.enabled) }))
  const merged = isWide
    ? lines.map(({ row, tail }) => ({ row, tail, sizes: [row.gpuCount], regions: [row.region] }))
    : mergeRows(lines)
  return tableOf(merged, [
    {
      KIND: ({ row }) => kindLabel(row.machineType),
      GPU: ({ row }) => row.gpuType,
      NETWORK: ({ row }) => row.networkType,
      GPUS: ({ sizes }) => sizes.join(' '),
      '$/GPU-HR': ({ row, tail }) => (row.enabled ? tail : toned('warn', tail)),
      REGION: ({ regions }) => regionLabel(regions),
    },
  ])
}

function describeStorage(rows: PriceBook['storage'], isWide: boolean): Content {
  const labelOf = (row: PriceBook['storage'][number]): string => priceLabel(row.perGbHourUsd, row.enabled)
  return tableOf(
    groupBy(rows, (row) => (isWide ? row.region : labelOf(row))),
    [
      {
        'STORAGE $/GB-HR': ([first]) => labelOf(first),
        REGION: (group) => regionLabel(group.map(({ region }) => region)),
      },
    ],
  )
}

function describeTerms(terms: PriceBook['reserveOptions']): Content {
  return tableOf(terms, [
    {
      'RESERVED TERM': (term) => count(term.termPeriodDays, 'day'),
      DISCOUNT: (term) => `${term.discountPercentage}%`,
      ACCOUNT: (term) => term.accountId ?? 'all',
    },
  ])
}

function describePlan({ lines }: Plan): Content[] {
  return [
    tableOf(lines, ['label:ROW', 'before:CURRENT', { NEW: ({ after }) => bold(after) }]),
    '',
    'New prices apply to new rentals and volumes. Running rentals keep their price.',
  ]
}
