/**
 * The operations of the contract as plain data: what each takes, with titles, limits, choices, defaults and
 * descriptions. The flags and help of the command line and the forms of the console come from it. The builds write it
 * out as JSON (scripts/contract-as-data.ts), because loading the schemas themselves takes longer than most commands do.
 */
import type { z } from 'zod'
import type { Access, Endpoint, Method } from './endpoint.ts'

export interface Field {
  /** The part of a call that has the value. */
  readonly part: 'params' | 'query' | 'body'
  readonly path: readonly string[]
  readonly kind: 'text' | 'integer' | 'number' | 'boolean' | 'time'
  readonly required?: true
  readonly nullable?: true
  readonly list?: true
  readonly choices?: readonly string[]
  readonly min?: number
  readonly max?: number
  readonly step?: number
  readonly pattern?: string
  /** Hint for a text that does not match the pattern. */
  readonly hint?: string
  readonly title?: string
  readonly description?: string
  /** A value that shows what is meant. */
  readonly example?: string
  readonly default?: string | number | boolean
}

export interface Operation {
  readonly method: Method
  readonly access: Access
  readonly idempotent?: true
  readonly fields: readonly Field[]
}

/** Values with no plain text form (unions, free objects) are left out; a command that needs one builds it itself. */
export function describeOperation({ method, access, idempotent, params, query, body }: Endpoint): Operation {
  return {
    method,
    access,
    ...(idempotent === undefined ? {} : { idempotent }),
    fields: [...fieldsOf('params', params), ...fieldsOf('query', query), ...fieldsOf('body', body)],
  }
}

type Facts = Partial<Omit<Field, 'part' | 'path'>>

type Mutable<T> = { -readonly [name in keyof T]: T[name] }

/** The parts of a schema used here; the library's type covers all kinds. */
interface Definition {
  readonly type: string
  readonly format?: string
  readonly innerType?: z.core.$ZodType
  readonly element?: z.core.$ZodType
  readonly in?: z.core.$ZodType
  readonly out?: z.core.$ZodType
  readonly shape?: Readonly<Record<string, z.core.$ZodType>>
  readonly options?: readonly z.core.$ZodType[]
  readonly entries?: Readonly<Record<string, string>>
  readonly defaultValue?: string | number | boolean | object
  readonly checks?: ReadonlyArray<{ readonly _zod: { readonly def: Check } }>
}

interface Check {
  readonly check: string
  readonly format?: string
  readonly value?: number
  readonly pattern?: RegExp
  readonly error?: (issue: object) => string
}

function fieldsOf(part: Field['part'], schema: z.core.$ZodType | undefined, path: readonly string[] = []): Field[] {
  const { shape, innerType, options } = schema === undefined ? {} : definitionOf(schema)
  if (options !== undefined) return sharedFields(options.map((option) => fieldsOf(part, option, path)))
  if (shape === undefined) return innerType === undefined ? [] : fieldsOf(part, innerType, path)
  return Object.entries(shape).flatMap(([name, field]) => {
    const { kind, ...facts } = factsOf(field)
    const fieldPath = [...path, name]
    if (kind !== undefined) return [{ part, path: fieldPath, kind, ...facts }]
    const inner = fieldsOf(part, field, fieldPath)
    // A part of a group that may be missing is not required by itself.
    return definitionOf(field).type === 'object' ? inner : inner.map((one) => without(one, 'required'))
  })
}

/** The fields that all alternatives have in common. */
function sharedFields([first = [], ...others]: ReadonlyArray<readonly Field[]>): Field[] {
  return first.filter((field) => others.every((other) => other.some((one) => isEqual(one, field))))
}

function isEqual(one: Field, other: Field): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

function factsOf(schema: z.core.$ZodType | undefined): Facts {
  if (schema === undefined) return {}
  const definition = definitionOf(schema)
  const facts: Mutable<Facts> = { ...innerFacts(definition), ...checkFacts(definition) }
  const { title, description, examples } = (schema as z.ZodType).meta() ?? {}
  if (title !== undefined) facts.title = title
  if (description !== undefined) facts.description = description
  if (Array.isArray(examples)) facts.example = [examples[0]].flat().join(', ')
  return facts
}

function innerFacts(definition: Definition): Facts {
  const { type, innerType, element, in: sent, out, entries, format } = definition
  switch (type) {
    case 'optional':
      return without(factsOf(innerType), 'required')
    case 'default':
      return { ...without(factsOf(innerType), 'required'), ...defaultOf(definition) }
    case 'nullable':
      return { ...factsOf(innerType), nullable: true }
    case 'array': {
      const item = factsOf(element)
      return item.kind === undefined || item.list ? {} : { ...item, list: true }
    }
    case 'pipe':
      // The value of a codec has no text form; what is sent has.
      return factsOf(definitionOf(out as z.core.$ZodType).type === 'any' ? sent : out)
    case 'enum':
      return { kind: 'text', required: true, choices: Object.values(entries ?? {}) }
    case 'string':
      return { kind: format === 'datetime' ? 'time' : 'text', required: true, ...hintOf(format) }
    case 'number':
      return { kind: format === 'safeint' ? 'integer' : 'number', required: true }
    case 'boolean':
      return { kind: 'boolean', required: true }
    default:
      return {}
  }
}

function defaultOf({ defaultValue: usual }: Definition): Facts {
  return usual === undefined || typeof usual === 'object' ? {} : { default: usual }
}

function hintOf(format: string | undefined): Facts {
  return format === 'date' ? { pattern: String.raw`^\d{4}-\d\d-\d\d$`, hint: 'Must be a day such as 2026-11-01' } : {}
}

function checkFacts({ type, checks = [] }: Definition): Facts {
  const facts: Mutable<Facts> = {}
  for (const { _zod } of checks) {
    const { check, value, pattern, error, format } = _zod.def
    if (check === 'number_format' && format === 'safeint') facts.kind = 'integer'
    if (type === 'number' && value !== undefined) {
      if (check === 'greater_than') facts.min = value
      if (check === 'less_than') facts.max = value
      if (check === 'multiple_of') facts.step = value
    }
    if (check === 'string_format' && format === 'regex' && pattern !== undefined) {
      facts.pattern = pattern.source
      if (error !== undefined) facts.hint = error({})
    }
  }
  return facts
}

function without<T extends Facts, Name extends keyof T>(facts: T, name: Name): Omit<T, Name> {
  const { [name]: _, ...others } = facts
  return others
}

function definitionOf(schema: z.core.$ZodType): Definition {
  return schema._zod.def as unknown as Definition
}
