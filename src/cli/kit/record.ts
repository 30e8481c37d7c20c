/**
 * Records of the API as facts and as rows of a table. A column is the name of a field, and the name decides how the
 * value is shown: `balanceUsd` is money, `createdAt` a time. A column that needs more than one field is a function.
 */
import { gpuLabel } from '../../view/gpu.ts'
import { money } from '../../view/money.ts'
import { number } from '../../view/number.ts'
import { shortRentalKinds } from '../../view/rental.ts'
import { utcTime } from '../../view/time.ts'
import { stateTone } from '../../view/tone.ts'
import { toned, type Cell, type Content, type Fact, type Table } from './screen.ts'

type FieldName<T> = keyof T & string

/** `'balanceUsd'`, `'gpuCount:GPUS'` with a title, or `{ STATUS: (row) => … }`. */
export type Columns<T, Extra = unknown> = ReadonlyArray<
  | FieldName<T>
  | `${FieldName<T>}:${string}`
  | Readonly<Record<string, (row: T, extra: Extra) => Cell | null | undefined>>
>

interface Column<T, Extra> {
  readonly title: string
  readonly of: (row: T, extra: Extra) => Cell | null | undefined
}

function readColumns<T, Extra>(columns: Columns<T, Extra>): Array<Column<T, Extra>> {
  return columns.flatMap((column): Array<Column<T, Extra>> => {
    if (typeof column === 'object') return Object.entries(column).map(([title, of]) => ({ title, of }))
    const [name = '', title = titleOf(name)] = column.split(':')
    return [{ title, of: (row) => cellOf(name, (row as Record<string, unknown>)[name]) }]
  })
}

export function titlesOf<T, Extra>(columns: Columns<T, Extra>): string[] {
  return readColumns(columns).map(({ title }) => title.toUpperCase())
}

export function tableOf<T>(rows: readonly T[], columns: Columns<T, undefined>): Table
export function tableOf<T, Extra>(rows: readonly T[], columns: Columns<T, Extra>, extra: Extra): Table
export function tableOf<T, Extra>(rows: readonly T[], columns: Columns<T, Extra | undefined>, extra?: Extra): Table {
  const read = readColumns(columns)
  return { titles: titlesOf(columns), rows: rows.map((row) => read.map(({ of }) => of(row, extra) ?? '')) }
}

export function factsOf<T>(record: T, columns: Columns<T, undefined>): Fact[]
export function factsOf<T, Extra>(record: T, columns: Columns<T, Extra>, extra: Extra): Fact[]
export function factsOf<T, Extra>(record: T, columns: Columns<T, Extra | undefined>, extra?: Extra): Fact[] {
  return readColumns(columns).map(({ title, of }) => [title, of(record, extra)] as const)
}

/** Every field of a record, with a table for each list of records in it. */
export function describeRecord(record: object): Content[] {
  const entries = Object.entries(record) as Array<[string, unknown]>
  const lists = entries.flatMap(([name, value]) => (isList(value) ? [{ name, rows: value }] : []))
  return [
    ...entries.flatMap(([name, value]): Fact[] => (isList(value) ? [] : [[titleOf(name), cellOf(name, value)]])),
    ...lists.flatMap(({ name, rows }): Content[] => ['', titleOf(name), tableOf(rows, Object.keys(rows[0] ?? {}))]),
  ]
}

function isList(value: unknown): value is ReadonlyArray<Record<string, unknown>> {
  return Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'object' && one !== null)
}

const abbreviations: Readonly<Record<string, string>> = { gpu: 'GPU', gpus: 'GPUs', ssh: 'SSH', api: 'API', url: 'URL' }

/** `lastUsedAt` → `Last used`, `balanceUsd` → `Balance`. */
function titleOf(name: string): string {
  const words = name
    .replace(/(Usd|At)$/, '')
    .split(/_|(?=[A-Z])/)
    .map((word) => abbreviations[word.toLowerCase()] ?? word.toLowerCase())
  const text = words.join(' ')
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`
}

/** The value of a field. undefined: the field is empty. */
function cellOf(name: string, value: unknown): Cell | undefined {
  if (value === null || value === undefined) return undefined
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (typeof value === 'number') return /(^i|I)d$/.test(name) ? String(value) : number(value)
  if (Array.isArray(value)) return value.join(', ')
  if (typeof value !== 'string') return JSON.stringify(value)
  if (name.endsWith('Usd')) return money(value)
  if (/(At|Since)$|^(at|timestamp)$/.test(name)) return utcTime(value)
  if (name === 'status' || name === 'state' || name === 'outcome') return toned(stateTone(value), value)
  if (name === 'gpuModel') return gpuLabel(value)
  return name === 'kind' && Object.hasOwn(shortRentalKinds, value)
    ? shortRentalKinds[value as keyof typeof shortRentalKinds]
    : value
}
