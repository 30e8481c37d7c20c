/** Command-line flags made from the fields of the contract: name, value, limits, choices and help. */
import { InvalidArgumentError, Option } from 'commander'
import { addMs, DAY_MS, formatInstant, HOUR_MS, MINUTE_MS, parseInstant, systemClock } from '../../base/instant.ts'
import type { Field } from '../../contract/field.ts'

/** The word that clears a nullable value. Commander reads null as a missing value. */
export const NONE = 'none'

/**
 * How a command changes the flag of a field. Text is the help, with or without the flag in front: `--size <gb> size to
 * price`. false: the command has no flag for the field.
 */
export type FlagSpec =
  | string
  | false
  | {
      readonly text: string
      readonly parse?: (text: string) => unknown
      /** Shorter names of choices. The contract's names are accepted too, but not shown. */
      readonly shortNames?: Readonly<Record<string, string>>
      /** The flag that sets a boolean to false. */
      readonly off?: string
      /** Whether a span such as 24h lies in the past. */
      readonly isPast?: true
    }

/** Ids and names become part of a URL. */
const PATH_VALUE = String.raw`^[\w-][\w.:/@+-]*$`

const units: Readonly<Record<string, string>> = { usd: 'usd', id: 'id', percentage: 'percent', at: 'when' }

/** `monthlyLimitUsd` → `--monthly-limit <usd>`, `max_tokens` → `--max-tokens <n>`. */
function flagOf({ path, kind, list, choices }: Field): string {
  const name = path.at(-1) ?? ''
  if (name === 'q') return '--find <text>'
  const words = name
    .replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
    .replaceAll('_', '-')
    .split('-')
  const unit = words.length > 1 ? units[words.at(-1) ?? ''] : undefined
  const long = (unit === undefined ? words : words.slice(0, -1)).join('-')
  if (kind === 'boolean') return `--${long}`
  const value =
    unit ?? (kind === 'time' ? 'when' : kind !== 'text' ? 'n' : choices === undefined ? 'text' : words.at(-1))
  return `--${long} <${value}${list ? '...' : ''}>`
}

/** The options of one field: two for a boolean that can be set to false. */
export function optionsOf(field: Field, spec: Exclude<FlagSpec, false> = ''): Option[] {
  const { text, parse, shortNames, off, isPast = false } = typeof spec === 'string' ? { text: spec } : spec
  const { flag = flagOf(field), help } = splitText(text)
  const helpField = shortNames === undefined ? field : withShortNames(field, shortNames)
  const option = new Option(flag, helpOf(help === undefined ? helpField : { ...helpField, description: help }))
  if (field.required === true && field.default === undefined) option.makeOptionMandatory()
  if (field.kind === 'boolean') {
    if (off === undefined) return [option]
    const { flag: offFlag = '', help: offHelp } = splitText(off)
    const opposite = new Option(offFlag, offHelp)
    return [option.conflicts(opposite.attributeName()), opposite]
  }
  const read =
    parse ?? (shortNames === undefined ? parserOf(field, isPast) : parseNamed(field.choices ?? [], shortNames))
  const isVariadic = field.list === true && parse === undefined
  option.argParser((text: string, before: unknown) =>
    isVariadic ? [...(Array.isArray(before) ? (before as unknown[]) : []), read(text)] : read(text),
  )
  if (helpField.choices !== undefined && parse === undefined) option.argChoices = [...helpField.choices]
  return [option]
}

function withShortNames(field: Field, shortNames: Readonly<Record<string, string>>): Field {
  const { choices = [], default: usual } = field
  return {
    ...field,
    choices: choices.map((choice) => shortNames[choice] ?? choice),
    ...(usual === undefined ? {} : { default: shortNames[String(usual)] ?? usual }),
  }
}

/** Reads a choice by its full or short name. */
export function parseNamed<T extends string>(
  choices: readonly T[],
  shortNames: Readonly<Record<string, string>>,
): (text: string) => T {
  return (text) => {
    const chosen = choices.find((choice) => choice === text || shortNames[choice] === text)
    if (chosen !== undefined) return chosen
    const names = choices.map((choice) => shortNames[choice] ?? choice)
    throw new InvalidArgumentError(`Allowed choices are ${names.join(', ')}.`)
  }
}

function splitText(text: string): { flag?: string; help?: string } {
  if (!text.startsWith('-')) return text === '' ? {} : { help: text }
  const [flag = '', help] = text.split(/ {2,}/)
  return help === undefined ? { flag } : { flag, help }
}

/** The contract's description in the style of help: it starts in lower case and has no full stop. */
function helpOf({ title = '', description = title, default: usual }: Field): string {
  const text = description
    .replaceAll('`', '')
    .replace(/\.$/, '')
    .replace(/^[A-Z](?=[a-z ])/, (letter) => letter.toLowerCase())
  return usual === undefined || usual === false ? text : `${text} (default: ${String(usual)})`.trimStart()
}

/** Returns a parser of a flag or argument. It throws a description of valid values. */
export function parserOf(field: Field, isPast = false): (text: string) => unknown {
  const read = readerOf(field, isPast)
  return (text) => (field.nullable === true && text === NONE ? NONE : read(text))
}

function readerOf(field: Field, isPast: boolean): (text: string) => unknown {
  const {
    part,
    kind,
    choices,
    pattern = part === 'params' ? PATH_VALUE : undefined,
    hint = 'Not a valid value',
  } = field
  if (choices !== undefined) return parseNamed(choices, {})
  if (kind === 'integer' || kind === 'number') return numberReader(field)
  if (kind === 'time') return (text) => readTime(text, isPast)
  return (text) => {
    if (text.trim() === '') throw new InvalidArgumentError('Must not be empty.')
    if (pattern === undefined || new RegExp(pattern).test(text)) return text
    throw new InvalidArgumentError(`${hint.replace(/\.$/, '')}.`)
  }
}

function numberReader({ kind, min = -Infinity, max = Infinity, step }: Field): (text: string) => number {
  const shape = kind === 'integer' ? /^-?\d{1,15}$/ : /^-?\d{1,15}(\.\d{1,9})?$/
  return (text) => {
    const value = shape.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max && (step === undefined || value % step === 0)) return value
    const noun = kind === 'integer' ? 'a whole number' : 'a number'
    const upTo =
      max >= Number.MAX_SAFE_INTEGER ? (min === -Infinity ? '' : `, at least ${min}`) : ` from ${min} to ${max}`
    throw new InvalidArgumentError(`Must be ${noun}${upTo}${step === undefined ? '' : `, in steps of ${step}`}.`)
  }
}

export function parseWhole(min: number, max: number): (text: string) => number {
  return numberReader({ part: 'body', path: [], kind: 'integer', min, max })
}

export function parseNumber(min: number, max: number): (text: string) => number {
  return numberReader({ part: 'body', path: [], kind: 'number', min, max })
}

/** Reads a span before now, a day, or a time, as text. */
export function parsePast(text: string): string {
  return readTime(text, true)
}

const spanUnits: Readonly<Record<string, number>> = { m: MINUTE_MS, h: HOUR_MS, d: DAY_MS }

/** A span from now (`30m`, `24h`, `30d`), a day, or a time. */
function readTime(text: string, isPast: boolean): string {
  const [, number, unit] = /^(\d{1,4})([mhd])$/.exec(text) ?? []
  if (number !== undefined) {
    const ms = Number.parseInt(number, 10) * (spanUnits[unit ?? ''] ?? DAY_MS)
    return formatInstant(addMs(systemClock.now(), isPast ? -ms : ms))
  }
  const at = /^\d{4}-\d\d-\d\d/.test(text) ? parseInstant(text) : undefined
  if (at === undefined)
    throw new InvalidArgumentError('Must be a time such as 24h, 30d, 2026-11-01 or 2026-11-01T12:00:00Z.')
  return formatInstant(at)
}
