/**
 * Values of a form by the paths of an operation's body, such as `gpus.count`: from a record, and as the body. Values are
 * text as typed, except those of check boxes.
 */
import { formatInstant, parseInstant } from '../../src/base/instant.ts'
import type { CallableId } from '../../src/client/client.ts'
import type { Api } from '../../src/contract/api.ts'
import type { BodyInputOf } from '../../src/contract/endpoint.ts'
import { editableUsd } from '../../src/view/money.ts'
import { fieldTable, type FormField } from './field-table.ts'
import { optionalNumber } from './read.ts'

export type Body<Op extends CallableId> = Op extends unknown ? NonNullable<BodyInputOf<Api[Op]>> : never

type IsGroup<T> = T extends readonly unknown[] ? false : T extends object ? true : false

/** Paths of two levels. A group has a path too, since a custom field can show it as text. */
type PathIn<T> = T extends unknown
  ? {
      [Name in keyof T & string]-?: IsGroup<NonNullable<T[Name]>> extends false
        ? Name
        : Name | `${Name}.${keyof NonNullable<T[Name]> & string}`
    }[keyof T & string]
  : never

type At<T, Path> = T extends unknown
  ? Path extends `${infer Group}.${infer Name}`
    ? Group extends keyof T
      ? At<NonNullable<T[Group]>, Name>
      : never
    : Path extends keyof T
      ? NonNullable<T[Path]>
      : never
  : never

type ValueOf<T> = [T] extends [boolean]
  ? boolean
  : [T] extends [ReadonlyArray<infer One>]
    ? [One] extends [string]
      ? string extends One
        ? string
        : readonly One[]
      : string
    : string

export type FieldPath<Op extends CallableId> = PathIn<Body<Op>>
export type FieldValues<Op extends CallableId> = {
  readonly [Path in FieldPath<Op>]: ValueOf<At<Body<Op>, Path>>
}
export type Value = string | boolean | readonly string[]

export function fieldAt(operation: CallableId, path: string): FormField {
  return fieldTable[operation][path] ?? { kind: 'text' }
}

/** The value of a field that shows this part of a record. Without a part, it is the usual choice or empty. */
function valueOf(path: string, field: FormField, part: unknown): Value {
  if (field.kind === 'boolean') return part === undefined ? field.default === true : part === true
  if (field.list === true) {
    const items = Array.isArray(part) ? part.map(String) : []
    return field.choices === undefined ? items.join(', ') : items
  }
  if (part === undefined || part === null) return usualChoice(field)
  const text = typeof part === 'string' ? part : JSON.stringify(part)
  return path.includes('Usd') ? editableUsd(text) : text
}

function usualChoice({ choices, required, default: usual }: FormField): string {
  if (choices === undefined) return ''
  return String(usual ?? (required === true ? choices[0] : ''))
}

/** The part of the body that was typed; undefined is left out. */
function partOf(field: FormField, value: Value, read?: (text: string) => unknown): unknown {
  if (typeof value === 'boolean') return value
  if (typeof value !== 'string') return value.map((one) => readText(field, one))
  if (value.trim() === '') return emptyPart(field)
  if (read !== undefined) return read(value)
  if (field.list !== true) return readText(field, value.trim())
  const items = value.split(field.kind === 'text' ? /[\n,]/ : /[\s,]+/).map((one) => one.trim())
  return [...new Set(items)].filter((one) => one !== '').map((one) => readText(field, one))
}

/** Required text is sent even if it is empty, since its schema has the best error message. */
function emptyPart({ kind, nullable, required, list }: FormField): unknown {
  if (nullable === true) return null
  return required === true && kind === 'text' && list !== true ? '' : undefined
}

/** Text that is not a time stays unchanged, and the schema rejects it. */
function readText({ kind }: FormField, text: string): unknown {
  if (kind === 'text') return text
  if (kind !== 'time') return optionalNumber(text)
  const at = parseInstant(text)
  return at === undefined ? text : formatInstant(at)
}

/** The part of a record at a path. */
function partAt(record: unknown, path: string): unknown {
  let part = record
  for (const name of path.split('.')) part = (part as Readonly<Record<string, unknown>> | null | undefined)?.[name]
  return part
}

/** The parts under their paths. A group without parts is left out. */
function nest(parts: ReadonlyArray<readonly [path: string, part: unknown]>): Record<string, unknown> {
  const body: Record<string, unknown> = {}
  for (const [path, part] of parts) {
    const [group = '', name] = path.split('.')
    if (name === undefined) body[group] = part
    else body[group] = { ...(body[group] as object | undefined), [name]: part }
  }
  return body
}

/** The values of all fields of an operation for a record that has the same paths. */
export function valuesOf<Op extends CallableId>(operation: Op, record?: object): FieldValues<Op> {
  const values = Object.entries(fieldTable[operation]).map(([path, field]) => [
    path,
    valueOf(path, field, partAt(record, path)),
  ])
  return Object.fromEntries(values) as FieldValues<Op>
}

/** A field, or a field with a custom conversion of its text. */
type SentField<Op extends CallableId> =
  | FieldPath<Op>
  | readonly [FieldPath<Op>, { readonly read?: (text: string) => unknown }]

/** Builds the body from these fields. With `before`, only changed values are included. */
export function collect<Op extends CallableId>(
  operation: Op,
  fields: ReadonlyArray<SentField<Op>>,
  values: FieldValues<Op>,
  before?: FieldValues<Op>,
): Record<string, unknown> {
  const typed = values as Readonly<Record<string, Value>>
  const isChanged = (path: string): boolean =>
    before === undefined || String(typed[path]) !== String((before as typeof typed)[path])
  const looks = fields.map((one) => (typeof one === 'string' ? ([one, {}] as const) : one))
  const changedGroups = new Set(looks.filter(([path]) => isChanged(path)).map(([path]) => path.split('.')[0]))
  const parts = looks.flatMap(([path, { read }]) => {
    const field = fieldAt(operation, path)
    const value = typed[path] ?? ''
    // A part that is missing from a group gets its default, which may differ from the value before.
    const isDefault = field.default !== undefined && changedGroups.has(path.split('.')[0])
    const isUnticked = before === undefined && value === false && field.default === undefined
    const typedPart = isUnticked ? undefined : partOf(field, value, read)
    // An emptied list is sent as an empty list instead of being left out.
    const part = typedPart === undefined && before !== undefined && field.list === true ? [] : typedPart
    // A missing required part still creates its group, so that its error is shown at its own field.
    const isSent = field.required === true || ((isChanged(path) || isDefault) && part !== undefined)
    return isSent ? [[path, part] as const] : []
  })
  return nest(parts)
}

const units: Readonly<Record<string, string>> = {
  usd: 'USD',
  gb: 'GB',
  gib: 'GiB',
  mib: 'MiB',
  mhz: 'MHz',
  percent: '%',
  percentage: '%',
  tokens: 'tokens',
  seconds: 'seconds',
}

/** `monthlyLimitUsd` → "Monthly limit (USD)"; a title replaces the words and not the unit. */
export function labelOf(path: string, { title }: FormField): string {
  const words = (path.split('.').at(-1) ?? '').replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).split(' ')
  const unit = words.length > 1 || title !== undefined ? units[words.at(-1) ?? ''] : undefined
  const name = title ?? (unit === undefined ? words : words.slice(0, -1)).join(' ')
  return `${name.charAt(0).toUpperCase()}${name.slice(1)}${unit === undefined ? '' : ` (${unit})`}`
}

/** The description in the contract as a sentence. */
export function hintOf({ description }: FormField): string | undefined {
  if (description === undefined) return undefined
  const text = description.replaceAll('`', '')
  return /[.…:]$/.test(text) ? text : `${text}.`
}
