/**
 * Grammars that restrict a model to JSON, or to JSON of one schema. Output that the grammar accepts matches the schema;
 * it may accept less: properties come in the schema's order, and additional ones are excluded. A keyword that a grammar
 * cannot express is an error with its path, never ignored.
 */
import { failField, ok, type Result } from '../../contract/result.ts'
import { GrammarRules, escapeLiteral } from './grammar-rules.ts'
import { alikeMembers, areDisjoint, isObject, resolveRef, typesOf, type JsonType, type Schema } from './json-schema.ts'

/** Deeper schemas, longer lists and texts, and larger grammars are rejected: they would cost more than the answer. */
const MAX_DEPTH = 64
const MAX_REPEATS = 1_000
const MAX_LISTED_INTEGERS = 256
/** Maximum ambiguity: parses multiply with the depth, and llama.cpp follows each of them for every token. */
const MAX_READINGS = 256

export function grammarOfAnyObject(): string {
  return new GrammarRules().format('object')
}

export function grammarOfSchema(schema: unknown, param: string): Result<string> {
  const rules = new GrammarRules()
  const reader = new SchemaReader(rules)
  const root = reader.rule(schema, schema)
  const fault = reader.fault
  return fault === undefined ? ok(rules.format(root)) : failField([param], 'unsupported_schema', { message: fault })
}

/** Restricting keywords that cannot be combined with a list of alternatives. */
const ruling =
  'properties required additionalProperties items prefixItems minItems maxItems minLength maxLength format minimum maximum exclusiveMinimum exclusiveMaximum'.split(
    ' ',
  )
/** Keywords that no grammar can express, with the type they restrict. null: any type. */
const inexpressible: Readonly<Record<string, JsonType | null>> = {
  not: null,
  if: null,
  $dynamicRef: null,
  pattern: 'string',
  multipleOf: 'number',
  uniqueItems: 'array',
  contains: 'array',
  unevaluatedItems: 'array',
  patternProperties: 'object',
  propertyNames: 'object',
  minProperties: 'object',
  maxProperties: 'object',
  dependentRequired: 'object',
  dependentSchemas: 'object',
}

/** Converts schemas to rules. Only the first error is kept. */
export class SchemaReader {
  readonly #rules: GrammarRules
  /** Schemas that a `$ref` refers to; they may be recursive. */
  readonly #named = new Map<unknown, Named>()
  /** Number of possible parses up to the current schema, and the maximum so far. */
  #readings = 1
  #maxReadings = 1
  #fault: string | undefined

  constructor(rules: GrammarRules) {
    this.#rules = rules
  }

  get fault(): string | undefined {
    return this.#fault ?? (this.#rules.isTooLarge ? 'The schema needs too large a grammar.' : undefined)
  }

  /** The name of the rule for `schema`. `$ref` is resolved in `root`. */
  rule(schema: unknown, root: unknown, path: readonly string[] = []): string {
    if (schema === true) return 'value'
    if (!isObject(schema)) return this.#refuse(path, 'must be a schema')
    if (path.length > MAX_DEPTH) return this.#refuse(path, `is more than ${MAX_DEPTH} levels deep`)
    if (this.fault !== undefined) return 'value'
    const types = typesOf(schema)
    if (types.length === 0) return this.#refuse([...path, 'type'], 'is not known')
    const rules = (one: JsonType): boolean => types.includes(one) || (one === 'number' && types.includes('integer'))
    for (const [word, type] of Object.entries(inexpressible)) {
      // `false` restricts nothing.
      if (!Object.hasOwn(schema, word) || schema[word] === false || (type !== null && !rules(type))) continue
      return this.#refuse([...path, word], 'cannot be enforced by this engine')
    }
    const alternatives = this.#alternatives(schema, root, path)
    if (alternatives !== undefined) return alternatives
    return this.#rules.addAny(types.map((type) => this.#ofType(type, schema, root, path)))
  }

  /** Keywords that do not depend on types. */
  #alternatives(schema: Schema, root: unknown, path: readonly string[]): string | undefined {
    const [word, ...others] = ['$ref', 'enum', 'const', 'anyOf', 'oneOf', 'allOf'].filter((one) => one in schema)
    if (word === undefined) return undefined
    const typed = word === 'enum' || word === 'const' ? [] : ['type']
    const clash = others[0] ?? [...typed, ...ruling].find((one) => one in schema)
    if (clash !== undefined) return this.#refuse([...path, clash], `cannot be combined with ${word}`)
    if (word === '$ref') return this.#reference(schema.$ref, root, path)
    if (word === 'const') return this.#literals([schema.const], schema, path)
    const list = schema[word]
    if (!Array.isArray(list) || list.length === 0) return this.#refuse([...path, word], 'must be a list')
    if (word === 'enum') return this.#literals(list, schema, path)
    if (word === 'allOf' && list.length > 1) return this.#refuse([...path, word], 'must have one member')
    if (word === 'oneOf' && !areDisjoint(list, root))
      return this.#refuse([...path, word], 'must have members that exclude each other; use anyOf')
    const readings = this.#readings
    this.#readings *= alikeMembers(list, root)
    this.#maxReadings = Math.max(this.#maxReadings, this.#readings)
    if (this.#readings > MAX_READINGS) return this.#refuse([...path, word], 'can be matched in too many ways')
    const names = list.map((one: unknown, at) => this.rule(one, root, [...path, word, String(at)]))
    this.#readings = readings
    return this.#rules.addAny(schema.nullable === true ? [...names, this.#rules.add('"null"')] : names)
  }

  #reference(ref: unknown, root: unknown, path: readonly string[]): string {
    const target = resolveRef(ref, root)
    if (target === undefined) return this.#refuse([...path, '$ref'], 'must point into the same schema')
    const existingRule = this.#named.get(target)
    if (existingRule !== undefined) {
      const isDoubled = existingRule.growth === undefined && this.#readings > existingRule.readings
      if (isDoubled || this.#readings * (existingRule.growth ?? 1) > MAX_READINGS)
        return this.#refuse([...path, '$ref'], 'is recursive through alternatives that begin alike')
      return existingRule.name
    }
    const named: Named = { name: this.#rules.reserve(), readings: this.#readings, growth: undefined }
    this.#named.set(target, named)
    const outerMost = this.#maxReadings
    this.#maxReadings = this.#readings
    this.#rules.set(named.name, this.rule(target, root, [...path, '$ref']))
    named.growth = this.#maxReadings / named.readings
    this.#maxReadings = Math.max(outerMost, this.#maxReadings)
    return named.name
  }

  #literals(values: readonly unknown[], schema: Schema, path: readonly string[]): string {
    const types = 'type' in schema ? typesOf(schema) : undefined
    const fitting = values.filter((value) => types === undefined || types.some((type) => isOfType(value, type)))
    if (fitting.length === 0) return this.#refuse(path, 'has no value of its type')
    return this.#rules.addAny(fitting.map((value) => this.#rules.add(escapeLiteral(JSON.stringify(value)))))
  }

  #ofType(type: JsonType, schema: Schema, root: unknown, path: readonly string[]): string {
    switch (type) {
      case 'string':
        return this.#string(schema, path)
      case 'number':
        return this.#number(schema, path)
      case 'integer':
        return this.#integer(schema, path)
      case 'boolean':
        return this.#rules.add('"true" | "false"')
      case 'null':
        return this.#rules.add('"null"')
      case 'array':
        return this.#array(schema, root, path)
      case 'object':
        return this.#object(schema, root, path)
    }
  }

  #string(schema: Schema, path: readonly string[]): string {
    const { format } = schema
    const repeats = this.#repeats(schema, 'minLength', 'maxLength', path)
    if (format === undefined) return this.#rules.add(`"\\"" char${repeats} "\\""`)
    const body = typeof format === 'string' ? formats.get(format) : undefined
    if (body === undefined || repeats !== '*') return this.#refuse([...path, 'format'], 'cannot be enforced here')
    return this.#rules.add(`"\\"" ${body} "\\""`)
  }

  #number(schema: Schema, path: readonly string[]): string {
    const [bound, ...others] = boundsOf(schema)
    if (bound === undefined) return 'number'
    if (others.length === 0 && schema.minimum === 0) return 'amount'
    return this.#refuse([...path, bound], 'can only be minimum 0')
  }

  #integer(schema: Schema, path: readonly string[]): string {
    const [bound, ...others] = boundsOf(schema)
    if (bound === undefined) return 'integer'
    const { minimum, exclusiveMinimum, maximum, exclusiveMaximum } = schema
    const least = Number(minimum ?? Number(exclusiveMinimum) + 1)
    const highest = Number(maximum ?? Number(exclusiveMaximum) - 1)
    if (others.length === 0 && least === 0) return 'count'
    const listed = highest - least + 1
    if (others.length === 1 && Number.isSafeInteger(least) && listed > 0 && listed <= MAX_LISTED_INTEGERS) {
      const all = Array.from({ length: listed }, (_, step) => escapeLiteral(String(least + step)))
      return this.#rules.add(all.join(' | '))
    }
    return this.#refuse([...path, bound], `can only be minimum 0, or a range of up to ${MAX_LISTED_INTEGERS} integers`)
  }

  #array(schema: Schema, root: unknown, path: readonly string[]): string {
    const { prefixItems, items } = schema
    if (Array.isArray(prefixItems)) {
      const others = ['minItems', 'maxItems'].find((word) => word in schema) ?? (isObject(items) ? 'items' : undefined)
      if (others !== undefined) return this.#refuse([...path, others], 'cannot be combined with prefixItems')
      const members = prefixItems.map((one: unknown, at) => this.rule(one, root, [...path, 'prefixItems', String(at)]))
      return this.#bracket('[', members.join(' comma '), ']')
    }
    const item = this.rule(items ?? true, root, [...path, 'items'])
    const least = schema.minItems ?? 0
    const most = schema.maxItems
    this.#repeats(schema, 'minItems', 'maxItems', path)
    if (most === 0) return this.#bracket('[', '', ']')
    const more = `{${Math.max(Number(least) - 1, 0)},${most === undefined ? '' : Number(most) - 1}}`
    const list = `${item} (comma ${item})${more}`
    return this.#bracket('[', least === 0 ? `(${list})?` : list, ']')
  }

  #object(schema: Schema, root: unknown, path: readonly string[]): string {
    const properties = isObject(schema.properties) ? schema.properties : {}
    const required = Array.isArray(schema.required) ? schema.required.map(String) : []
    const { additionalProperties } = schema
    const others = isObject(additionalProperties) ? additionalProperties : true
    const unnamed = required.filter((name) => !Object.hasOwn(properties, name))
    if (unnamed[0] !== undefined && additionalProperties === false)
      return this.#refuse([...path, 'required'], `names ${unnamed[0]}, which additionalProperties forbids`)
    const members = [...Object.entries(properties), ...unnamed.map((name) => [name, others] as const)]
    if (members.length === 0) {
      if (additionalProperties === false) return this.#bracket('{', '', '}')
      const value = this.rule(others, root, [...path, 'additionalProperties'])
      const member = `string colon ${value}`
      return this.#bracket('{', `(${member} (comma ${member})*)?`, '}')
    }
    // Backwards: the rest of the object after a property, and the rest at the beginning (no comma).
    let after = ''
    let first = ''
    for (const [name, member] of members.toReversed()) {
      const value = this.rule(member, root, [...path, 'properties', name])
      const pair = this.#rules.add(`${escapeLiteral(JSON.stringify(name))} colon ${value}`)
      const isNeeded = required.includes(name)
      const begun = after === '' ? pair : `${pair} ${after}`
      first = this.#rules.add(isNeeded ? begun : `${begun} | ${first === '' ? '""' : first}`)
      after = this.#rules.add(`${isNeeded ? `comma ${pair}` : `(comma ${pair})?`} ${after}`)
    }
    return this.#bracket('{', first, '}')
  }

  #bracket(open: string, inside: string, close: string): string {
    return this.#rules.add(`"${open}" space ${inside === '' ? '' : `${inside} space`} "${close}"`)
  }

  #repeats(schema: Schema, minKeyword: string, maxKeyword: string, path: readonly string[]): string {
    const [least = 0, most] = [schema[minKeyword], schema[maxKeyword]]
    if (least === 0 && most === undefined) return '*'
    const isFine = (count: unknown): boolean => Number.isInteger(count) && Number(count) >= 0
    if (!isFine(least) || Number(least) > MAX_REPEATS)
      this.#refuse([...path, minKeyword], `must be from 0 to ${MAX_REPEATS}`)
    if (most !== undefined && (!isFine(most) || Number(most) > MAX_REPEATS || Number(most) < Number(least)))
      this.#refuse([...path, maxKeyword], `must be from ${minKeyword} to ${MAX_REPEATS}`)
    return `{${Number(least)},${most === undefined ? '' : Number(most)}}`
  }

  #refuse(path: readonly string[], why: string): string {
    this.#fault ??= `The schema's ${path.length === 0 ? 'root' : path.join('.')} ${why}.`
    return 'value'
  }
}

interface Named {
  readonly name: string
  /** Parses where it was first used. */
  readonly readings: number
  /** Factor by which the parses multiply inside it. undefined: still being converted. */
  growth: number | undefined
}

function boundsOf(schema: Schema): string[] {
  return ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'].filter((word) => word in schema)
}

function isOfType(value: unknown, type: JsonType): boolean {
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  return type === 'null' ? value === null : typeof value === type
}

const date = '[0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [12] [0-9] | "3" [01])'
const time =
  '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,6})? ("Z" | [+-] [01] [0-9] ":" [0-5] [0-9])'
const formats: ReadonlyMap<string, string> = new Map([
  ['date', date],
  ['time', time],
  ['date-time', `${date} "T" ${time}`],
  ['uuid', '[0-9a-f]{8} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{12}'],
])
