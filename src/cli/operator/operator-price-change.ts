/**
 * The changes of `berth operator prices set`: the difference between the desired and the current price book. Only
 * changed rows are sent, so that other operators' changes to other rows stay.
 */
import { parseUsd } from '../../base/money.ts'
import type { CallInput, Reply } from '../../client/client.ts'
import { issueText } from '../../contract/issue-text.ts'
import { operatorEndpoints } from '../../contract/operator.ts'
import { storageRegion } from '../../contract/region.ts'
import { priceUsd, storagePriceUsd } from '../../contract/shared.ts'
import {
  isMatch,
  groupBy,
  isWholeRow,
  kindLabel,
  mergeRows,
  readFilter,
  regionLabel,
  priceLabel,
  type GpuPrice,
} from './operator-price-row.ts'
import { readJsonFile } from '../kit/json-file.ts'
import { CliError, exitCodes, type Shell } from '../kit/shell.ts'

type PriceBook = Reply<'getPriceBook'>
type StoragePrice = PriceBook['storage'][number]
type Term = PriceBook['reserveOptions'][number]
type Body = CallInput<'changePriceBook'>['body']

const MAX_DAYS = 3_650

export interface ChangeOptions {
  readonly gpu?: readonly string[]
  readonly storage?: readonly string[]
  readonly term?: readonly string[]
  readonly file?: string
  readonly reason: string
}

export interface Plan {
  readonly body: Body
  readonly rowCount: number
  /** Rows with the same change are merged. */
  readonly lines: ReadonlyArray<{ readonly label: string; readonly before: string; readonly after: string }>
}

/** The keys are those of the rows. */
interface BookMaps {
  readonly gpus: Map<string, GpuPrice>
  readonly storage: Map<string, StoragePrice>
  readonly terms: Map<string, Term>
}

/** Reads the file once, as it may be the standard input; the plan is made for each version of the book. */
export function readChange(shell: Shell, options: ChangeOptions): (book: PriceBook) => Plan {
  const body = options.file === undefined ? undefined : readBody(shell, options.file, options.reason)
  return (book) => planChange(book, options, body)
}

function planChange(book: PriceBook, options: ChangeOptions, body: Body | undefined): Plan {
  const target = mapsOf(book)
  if (body !== undefined) applyBody(target, body)
  for (const text of options.gpu ?? []) applyGpu(target.gpus, text)
  for (const text of options.storage ?? []) applyStorage(target.storage, text)
  for (const text of options.term ?? []) applyTerm(target.terms, text)
  return planOf(mapsOf(book), target, options.reason)
}

function mapsOf(book: PriceBook): BookMaps {
  return {
    gpus: new Map(book.gpus.map((row) => [gpuKey(row), row])),
    storage: new Map(book.storage.map((row) => [row.region, row])),
    terms: new Map(book.reserveOptions.map((term) => [termKey(term), term])),
  }
}

function gpuKey(row: Omit<GpuPrice, 'perGpuHourUsd' | 'enabled'>): string {
  return [row.machineType, row.region, row.gpuType, row.networkType, row.gpuCount].join(' ')
}

function termKey({ accountId, termPeriodDays }: Pick<Term, 'accountId' | 'termPeriodDays'>): string {
  return `${termPeriodDays} ${accountId ?? ''}`
}

function applyGpu(rows: Map<string, GpuPrice>, text: string): void {
  const { which, value } = splitChange('--gpu', text, 'h100=2.49')
  const filter = readFilter([which])
  const desired = desiredOf('--gpu', text, value, priceUsd.safeParse(value).success, 'up to 1000, such as 2.49')
  const matching = [...rows].filter(([, row]) => isMatch(row, filter))
  for (const [key, row] of matching) {
    rows.set(key, {
      ...row,
      ...(desired.price === undefined ? { enabled: desired.enabled } : { perGpuHourUsd: desired.price }),
    })
  }
  if (matching.length > 0) return
  if (!isWholeRow(filter) || desired.price === undefined) {
    throw new CliError(exitCodes.usage, `No row matches ${which}.`, [
      'A new row needs all five parts and a price: --gpu vm/us-central-1/h100/ethernet/8=2.49',
    ])
  }
  rows.set(gpuKey(filter), { ...filter, perGpuHourUsd: desired.price, enabled: true })
}

function applyStorage(rows: Map<string, StoragePrice>, text: string): void {
  const { which, value } = splitChange('--storage', text, 'us-central-1=0.0001')
  const isPrice = storagePriceUsd.safeParse(value).success
  const desired = desiredOf('--storage', text, value, isPrice, 'above zero and up to 1, such as 0.0001')
  const place = storageRegion.safeParse(which)
  if (!place.success && which !== 'all') {
    throw new CliError(exitCodes.usage, `--storage ${text}: ${which} is not a region.`, [
      'To list regions: berth operator prices ls --wide. all means every region with a price.',
    ])
  }
  const matching = [...rows].filter(([name]) => !place.success || name === place.data)
  for (const [name, row] of matching) {
    rows.set(name, {
      ...row,
      ...(desired.price === undefined ? { enabled: desired.enabled } : { perGbHourUsd: desired.price }),
    })
  }
  if (matching.length > 0) return
  if (!place.success || desired.price === undefined) {
    throw new CliError(exitCodes.usage, `--storage ${text}: storage has no price there yet.`, [
      'To set one: --storage us-central-1=0.0001',
    ])
  }
  rows.set(place.data, { region: place.data, perGbHourUsd: desired.price, enabled: true })
}

function applyTerm(terms: Map<string, Term>, text: string): void {
  const { which, value } = splitChange('--term', text, '30=10')
  const [, days = '', accountId = null] = /^(\d{1,4})(?:\/([\w-]{1,50}))?$/.exec(which) ?? []
  const termPeriodDays = Number.parseInt(days || '0', 10)
  if (termPeriodDays < 1 || termPeriodDays > MAX_DAYS) {
    throw new CliError(exitCodes.usage, `--term ${text}: a term has 1 to ${MAX_DAYS} days.`, [
      'For all accounts: --term 30=10. For one account: --term 30/ACCOUNT=15',
    ])
  }
  if (!/^\d{1,2}(\.\d{1,2})?$/.test(value)) {
    throw new CliError(exitCodes.usage, `--term ${text}: ${value} is not a percentage below 100, such as 12.5.`)
  }
  const term = { accountId, termPeriodDays, discountPercentage: Number.parseFloat(value) }
  terms.set(termKey(term), term)
}

function splitChange(option: string, text: string, example: string): { which: string; value: string } {
  const [, which, value] = /^([^=]+)=([^=]+)$/.exec(text) ?? []
  if (which === undefined || value === undefined) {
    throw new CliError(exitCodes.usage, `${option} ${text}: = and the new value are missing.`, [
      `Example: ${option} ${example}`,
    ])
  }
  return { which, value }
}

type Desired = { readonly price: string } | { readonly price: undefined; readonly enabled: boolean }

function desiredOf(option: string, text: string, value: string, isPrice: boolean, range: string): Desired {
  if (value === 'on' || value === 'off') return { price: undefined, enabled: value === 'on' }
  if (isPrice) return { price: value }
  throw new CliError(exitCodes.usage, `${option} ${text}: ${value} is not a price ${range}.`, [
    'Or use on or off, to put it on sale or take it off sale.',
  ])
}

function readBody(shell: Shell, file: string, reason: string): Body {
  const json = readJsonFile(shell, file, 'To print one: berth operator prices ls --json')
  return checkBody({ ...json, reason }, file)
}

/** Applies a body. Rows that it does not contain stay. */
function applyBody(target: BookMaps, body: Body): void {
  for (const row of body.gpus ?? []) target.gpus.set(gpuKey(row), row)
  for (const row of body.storage ?? []) target.storage.set(row.region, row)
  for (const row of body.reserveOptions ?? []) {
    const term = { ...row, accountId: row.accountId ?? null }
    target.terms.set(termKey(term), term)
  }
}

/** Checks a value against the contract before any question. */
function checkBody(value: unknown, from: string): Body {
  const { body } = operatorEndpoints.changePriceBook
  if (body === undefined) throw new Error('the contract has no body for a change of the price book')
  const parsed = body.safeParse(value, { error: issueText })
  if (parsed.success) return value as Body
  const lines = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'The file'}: ${message}`)
  throw new CliError(
    exitCodes.usage,
    `${from} is not a valid change of the price book.`,
    lines.slice(0, MAX_ISSUES_SHOWN),
  )
}

const MAX_ISSUES_SHOWN = 10

function planOf(old: BookMaps, target: BookMaps, reason: string): Plan {
  const gpus = [...target.gpus].filter(([key, row]) => {
    const was = old.gpus.get(key)
    return was === undefined || !isSame(was.perGpuHourUsd, row.perGpuHourUsd) || was.enabled !== row.enabled
  })
  const storage = [...target.storage].filter(([key, row]) => {
    const was = old.storage.get(key)
    return was === undefined || !isSame(was.perGbHourUsd, row.perGbHourUsd) || was.enabled !== row.enabled
  })
  // A discount of zero removes a term.
  const terms = [...target.terms].filter(
    ([key, term]) => (old.terms.get(key)?.discountPercentage ?? 0) !== term.discountPercentage,
  )
  const body = {
    ...(gpus.length === 0 ? {} : { gpus: gpus.map(([, row]) => row) }),
    ...(storage.length === 0 ? {} : { storage: storage.map(([, row]) => row) }),
    ...(terms.length === 0 ? {} : { reserveOptions: terms.map(([, term]) => term) }),
    reason,
  }
  return {
    body: checkBody(body, 'This'),
    rowCount: gpus.length + storage.length + terms.length,
    lines: [
      ...gpuLines(old.gpus, gpus),
      ...storageLines(old.storage, storage),
      ...terms.map(([key, term]) => ({
        label: `${term.termPeriodDays} days${term.accountId === null ? '' : ` for ${term.accountId}`}`,
        before: old.terms.has(key) ? `${old.terms.get(key)?.discountPercentage}% off` : 'new',
        after: term.discountPercentage === 0 ? 'removed' : `${term.discountPercentage}% off`,
      })),
    ],
  }
}

type Changed<Row> = ReadonlyArray<readonly [key: string, row: Row]>

function gpuLines(old: ReadonlyMap<string, GpuPrice>, changed: Changed<GpuPrice>): Plan['lines'] {
  const lines = changed.map(([key, row]) => {
    const was = old.get(key)
    const before = was === undefined ? 'new' : priceLabel(was.perGpuHourUsd, was.enabled)
    const after = priceLabel(row.perGpuHourUsd, row.enabled)
    return { row, before, after, tail: `${before} → ${after}` }
  })
  return mergeRows(lines).map(({ row, before, after, sizes, regions }) => {
    const machine = `${kindLabel(row.machineType)} ${row.gpuType} ${row.networkType}`
    const gpus = sizes.join(' ') === '1' ? '1 GPU' : `${sizes.join(' ')} GPUs`
    return { label: `${machine}, ${gpus}, ${regionLabel(regions)}`, before, after }
  })
}

function storageLines(old: ReadonlyMap<string, StoragePrice>, changed: Changed<StoragePrice>): Plan['lines'] {
  const lines = changed.map(([key, row]) => {
    const was = old.get(key)
    const before = was === undefined ? 'new' : priceLabel(was.perGbHourUsd, was.enabled)
    return { region: row.region, before, after: priceLabel(row.perGbHourUsd, row.enabled) }
  })
  return groupBy(lines, ({ before, after }) => `${before} → ${after}`).map((group) => ({
    ...group[0],
    label: `storage in ${regionLabel(group.map(({ region }) => region))}`,
  }))
}

function isSame(one: string, other: string): boolean {
  return parseUsd(one) === parseUsd(other)
}
