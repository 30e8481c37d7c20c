/**
 * What `berth operator prices set` will change: the book as it should be, less the book as it is. Only rows that differ
 * are sent, so that another operator's change to the rest stays.
 */
import { parseUsd } from '../base/money.ts'
import type { CallInput, Reply } from '../client/client.ts'
import { issueText } from '../contract/issue-text.ts'
import { operatorEndpoints } from '../contract/operator.ts'
import { storageRegion } from '../contract/region.ts'
import { priceUsdText, storagePriceUsdText } from '../contract/shared.ts'
import {
  fitsWords,
  groupBy,
  isWholeRow,
  kindWord,
  mergeRows,
  readWords,
  regionWords,
  soldWords,
  type GpuPrice,
} from './operator-price-row.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

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
  /** For people; rows that change alike are in one line. */
  readonly lines: ReadonlyArray<{ readonly what: string; readonly before: string; readonly after: string }>
}

/** By the key of each row. */
interface Wanted {
  readonly gpus: Map<string, GpuPrice>
  readonly storage: Map<string, StoragePrice>
  readonly terms: Map<string, Term>
}

/** A file is read once, as the standard input can be; the plan is made anew of each book. */
export function readChange(shell: Shell, options: ChangeOptions): (book: PriceBook) => Plan {
  const body = options.file === undefined ? undefined : readBody(shell, options.file, options.reason)
  return (book) => planChange(book, options, body)
}

function planChange(book: PriceBook, options: ChangeOptions, body: Body | undefined): Plan {
  const wanted = mapsOf(book)
  if (body !== undefined) applyBody(wanted, body)
  for (const text of options.gpu ?? []) applyGpu(wanted.gpus, text)
  for (const text of options.storage ?? []) applyStorage(wanted.storage, text)
  for (const text of options.term ?? []) applyTerm(wanted.terms, text)
  return planOf(mapsOf(book), wanted, options.reason)
}

function mapsOf(book: PriceBook): Wanted {
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
  const words = readWords([which])
  const wish = wishOf('--gpu', text, value, priceUsdText.safeParse(value).success, 'up to 1000, such as 2.49')
  const fitting = [...rows].filter(([, row]) => fitsWords(row, words))
  for (const [key, row] of fitting) {
    rows.set(key, { ...row, ...(wish.price === undefined ? { enabled: wish.enabled } : { perGpuHourUsd: wish.price }) })
  }
  if (fitting.length > 0) return
  if (!isWholeRow(words) || wish.price === undefined) {
    throw new CliError(exitCodes.usage, `No row is like ${which}.`, [
      'A new one names all five, and its price: --gpu vm/us-central-1/h100/ethernet/8=2.49',
    ])
  }
  rows.set(gpuKey(words), { ...words, perGpuHourUsd: wish.price, enabled: true })
}

function applyStorage(rows: Map<string, StoragePrice>, text: string): void {
  const { which, value } = splitChange('--storage', text, 'us-central-1=0.0001')
  const isPrice = storagePriceUsdText.safeParse(value).success
  const wish = wishOf('--storage', text, value, isPrice, 'above zero and up to 1, such as 0.0001')
  const place = storageRegion.safeParse(which)
  if (!place.success && which !== 'all') {
    throw new CliError(exitCodes.usage, `--storage ${text}: ${which} is no region.`, [
      'berth operator prices --wide shows them; all stands for those that have a price.',
    ])
  }
  const fitting = [...rows].filter(([name]) => !place.success || name === place.data)
  for (const [name, row] of fitting) {
    rows.set(name, { ...row, ...(wish.price === undefined ? { enabled: wish.enabled } : { perGbHourUsd: wish.price }) })
  }
  if (fitting.length > 0) return
  if (!place.success || wish.price === undefined) {
    throw new CliError(exitCodes.usage, `--storage ${text}: storage has no price there yet.`, [
      'Give it one: --storage us-central-1=0.0001',
    ])
  }
  rows.set(place.data, { region: place.data, perGbHourUsd: wish.price, enabled: true })
}

function applyTerm(terms: Map<string, Term>, text: string): void {
  const { which, value } = splitChange('--term', text, '30=10')
  const [, days = '', accountId = null] = /^(\d{1,4})(?:\/([\w-]{1,50}))?$/.exec(which) ?? []
  const termPeriodDays = Number.parseInt(days || '0', 10)
  if (termPeriodDays < 1 || termPeriodDays > MAX_DAYS) {
    throw new CliError(exitCodes.usage, `--term ${text}: a term has 1 to ${MAX_DAYS} days.`, [
      'For everyone: --term 30=10. By contract of one account: --term 30/ACCOUNT=15',
    ])
  }
  if (!/^\d{1,2}(\.\d{1,2})?$/.test(value)) {
    throw new CliError(exitCodes.usage, `--term ${text}: ${value} is no percentage below 100, such as 12.5.`)
  }
  const term = { accountId, termPeriodDays, discountPercentage: Number.parseFloat(value) }
  terms.set(termKey(term), term)
}

function splitChange(option: string, text: string, example: string): { which: string; value: string } {
  const [, which, value] = /^([^=]+)=([^=]+)$/.exec(text) ?? []
  if (which === undefined || value === undefined) {
    throw new CliError(exitCodes.usage, `${option} ${text}: say what, and = and the new value.`, [
      `Such as: ${option} ${example}`,
    ])
  }
  return { which, value }
}

type Wish = { readonly price: string } | { readonly price: undefined; readonly enabled: boolean }

function wishOf(option: string, text: string, value: string, isPrice: boolean, range: string): Wish {
  if (value === 'on' || value === 'off') return { price: undefined, enabled: value === 'on' }
  if (isPrice) return { price: value }
  throw new CliError(exitCodes.usage, `${option} ${text}: ${value} is no price ${range}.`, [
    'Or on or off, to sell it or not.',
  ])
}

/** As the API takes it, or as it gives it. */
function readBody(shell: Shell, file: string, reason: string): Body {
  const text = file === '-' ? shell.readInput() : shell.readFile(file)
  if (text === undefined) throw new CliError(exitCodes.usage, `${file} cannot be read.`)
  const json = parseJson(text)
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw new CliError(exitCodes.usage, `${file} does not hold a JSON object.`, [
      'berth operator prices --json prints one to begin with.',
    ])
  }
  return checked({ ...json, reason }, file)
}

/** Rows that are not in it stay. */
function applyBody(wanted: Wanted, body: Body): void {
  for (const row of body.gpus ?? []) wanted.gpus.set(gpuKey(row), row)
  for (const row of body.storage ?? []) wanted.storage.set(row.region, row)
  for (const row of body.reserveOptions ?? []) {
    const term = { ...row, accountId: row.accountId ?? null }
    wanted.terms.set(termKey(term), term)
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** By the contract itself, so that what is wrong is told before anything is asked. */
function checked(value: unknown, from: string): Body {
  const { body } = operatorEndpoints.changePriceBook
  if (body === undefined) throw new Error('the contract has no body for a change of the price book')
  const parsed = body.safeParse(value, { error: issueText })
  if (parsed.success) return parsed.data
  const lines = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'the whole'}: ${message}`)
  throw new CliError(exitCodes.usage, `${from} is not a change of the price book.`, lines.slice(0, ISSUES_SHOWN))
}

const ISSUES_SHOWN = 10

function planOf(old: Wanted, wanted: Wanted, reason: string): Plan {
  const gpus = [...wanted.gpus].filter(([key, row]) => {
    const was = old.gpus.get(key)
    return was === undefined || !isSame(was.perGpuHourUsd, row.perGpuHourUsd) || was.enabled !== row.enabled
  })
  const storage = [...wanted.storage].filter(([key, row]) => {
    const was = old.storage.get(key)
    return was === undefined || !isSame(was.perGbHourUsd, row.perGbHourUsd) || was.enabled !== row.enabled
  })
  // A discount of nothing takes a term away.
  const terms = [...wanted.terms].filter(
    ([key, term]) => (old.terms.get(key)?.discountPercentage ?? 0) !== term.discountPercentage,
  )
  const body = {
    ...(gpus.length === 0 ? {} : { gpus: gpus.map(([, row]) => row) }),
    ...(storage.length === 0 ? {} : { storage: storage.map(([, row]) => row) }),
    ...(terms.length === 0 ? {} : { reserveOptions: terms.map(([, term]) => term) }),
    reason,
  }
  return {
    body: checked(body, 'This'),
    rowCount: gpus.length + storage.length + terms.length,
    lines: [
      ...gpuLines(old.gpus, gpus),
      ...storageLines(old.storage, storage),
      ...terms.map(([key, term]) => ({
        what: `${term.termPeriodDays} days${term.accountId === null ? '' : ` for ${term.accountId}`}`,
        before: old.terms.has(key) ? `${old.terms.get(key)?.discountPercentage} % off` : 'new',
        after: term.discountPercentage === 0 ? 'gone' : `${term.discountPercentage} % off`,
      })),
    ],
  }
}

type Changed<Row> = ReadonlyArray<readonly [key: string, row: Row]>

function gpuLines(old: ReadonlyMap<string, GpuPrice>, changed: Changed<GpuPrice>): Plan['lines'] {
  const lines = changed.map(([key, row]) => {
    const was = old.get(key)
    const before = was === undefined ? 'new' : soldWords(was.perGpuHourUsd, was.enabled)
    const after = soldWords(row.perGpuHourUsd, row.enabled)
    return { row, before, after, tail: `${before} → ${after}` }
  })
  return mergeRows(lines).map(({ row, before, after, sizes, regions }) => {
    const machine = `${kindWord(row.machineType)} ${row.gpuType} ${row.networkType}`
    const gpus = sizes.join(' ') === '1' ? '1 GPU' : `${sizes.join(' ')} GPUs`
    return { what: `${machine}, ${gpus}, ${regionWords(regions)}`, before, after }
  })
}

function storageLines(old: ReadonlyMap<string, StoragePrice>, changed: Changed<StoragePrice>): Plan['lines'] {
  const lines = changed.map(([key, row]) => {
    const was = old.get(key)
    const before = was === undefined ? 'new' : soldWords(was.perGbHourUsd, was.enabled)
    return { region: row.region, before, after: soldWords(row.perGbHourUsd, row.enabled) }
  })
  return groupBy(lines, ({ before, after }) => `${before} → ${after}`).map((group) => ({
    ...group[0],
    what: `storage in ${regionWords(group.map(({ region }) => region))}`,
  }))
}

function isSame(one: string, other: string): boolean {
  return parseUsd(one) === parseUsd(other)
}
