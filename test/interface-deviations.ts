/** Compares a schema of the description with a shape of the fixture and names each difference. */
import { isDeepStrictEqual } from 'node:util'
import { MAX_SAFE, type Fields, type Numeric, type Shape, type Text } from './fixtures/shape.ts'

export interface Deviation {
  /** Where, such as `createVolume.body.label`. */
  readonly at: string
  /** Which property of the value, such as `maxLength`; `extra` for a field that the document does not have. */
  readonly aspect: string
  readonly message: string
}

export type Schema = Readonly<Record<string, unknown>>

export function findDeviations(schema: Schema, shape: Shape, at: string, components: Components): Deviation[] {
  const found: Deviation[] = []
  compareValue(schema, shape, at)
  return found

  function differ(at: string, aspect: string, ours: unknown, theirs: unknown): void {
    if (isDeepStrictEqual(ours, theirs)) return
    const message = `${at}: ${aspect} is ${show(ours)} in the description and ${show(theirs)} in the interface`
    found.push({ at, aspect, message })
  }

  function compareValue(schema: Schema, shape: Shape, at: string): void {
    const { nullable, ...value } = splitNull(resolve(schema, components), components)
    if (shape.kind === 'anything') {
      const { description: _, ...rules } = value
      differ(at, 'constraint', rules, {})
      return
    }
    if (shape.kind !== 'null') differ(at, 'nullable', nullable, shape.nullable === true)
    differ(at, 'default', value['default'], shape.default)
    const kind = kindOf(value)
    // The document may show an object without keys; then any object matches.
    const expected = shape.kind === 'object' && kind === 'fields' ? 'fields' : shape.kind
    differ(at, 'type', kind, expected)
    if (kind === shape.kind) compareRules(value, shape, at)
  }

  function compareRules(value: Schema, shape: Shape, at: string): void {
    switch (shape.kind) {
      case 'text':
        compareText(value, shape, at)
        return
      case 'number':
      case 'integer':
        compareNumber(value, shape, at)
        return
      case 'choice':
        differ(at, 'enum', choices(value), shape.values)
        return
      case 'list':
        differ(at, 'minItems', value['minItems'], shape.minItems)
        differ(at, 'maxItems', value['maxItems'], shape.maxItems)
        compareValue(value['items'] as Schema, shape.of, `${at}[]`)
        return
      case 'keyed':
        compareValue(value['additionalProperties'] as Schema, shape.values, `${at}{}`)
        return
      case 'one-of': {
        const ours = (value['oneOf'] ?? value['anyOf']) as readonly Schema[]
        const variants = Object.entries(shape.variants)
        differ(at, 'number of variants', ours.length, variants.length)
        for (const [index, [name, variant]] of variants.entries()) {
          const schema = ours[index]
          if (schema !== undefined) compareValue(schema, variant, `${at}<${name}>`)
        }
        return
      }
      case 'fields':
        compareFields(value, shape, at)
        return
      case 'boolean':
      case 'null':
      case 'object':
      case 'anything':
    }
  }

  function compareText(value: Schema, shape: Text, at: string): void {
    differ(at, 'minLength', value['minLength'], shape.minLength)
    differ(at, 'maxLength', value['maxLength'], shape.maxLength)
    differ(at, 'format', value['format'], undefined)
    if (shape.characters === undefined) {
      differ(at, 'pattern', value['pattern'], undefined)
      return
    }
    const pattern = new RegExp(typeof value['pattern'] === 'string' ? value['pattern'] : '', 'u')
    const { accepts, refuses } = shape.characters
    for (const sample of accepts) differ(at, `pattern on ${show(sample)}`, pattern.test(sample), true)
    for (const sample of refuses) differ(at, `pattern on ${show(sample)}`, pattern.test(sample), false)
  }

  /** Integers are safe integers; "> 0" and "at least 1" are the same for them, but not for other numbers. */
  function compareNumber(value: Schema, shape: Numeric, at: string): void {
    const whole = shape.kind === 'integer'
    const ours = {
      min: value['minimum'] as number | undefined,
      above: value['exclusiveMinimum'] as number | undefined,
      max: value['maximum'] as number | undefined,
    }
    const lowest = (rule: { min?: number | undefined; above?: number | undefined }) =>
      rule.min ?? (rule.above === undefined ? -MAX_SAFE : rule.above + 1)
    differ(at, 'minimum', whole ? lowest(ours) : ours.min, whole ? lowest(shape) : shape.min)
    if (!whole) differ(at, 'exclusiveMinimum', ours.above, shape.above)
    differ(at, 'maximum', ours.max ?? (whole ? MAX_SAFE : undefined), shape.max ?? (whole ? MAX_SAFE : undefined))
    differ(at, 'exclusiveMaximum', value['exclusiveMaximum'], undefined)
    differ(at, 'multipleOf', value['multipleOf'], shape.multipleOf)
  }

  function compareFields(value: Schema, shape: Fields, at: string): void {
    const properties = (value['properties'] ?? {}) as Readonly<Record<string, Schema>>
    const required = new Set((value['required'] ?? []) as readonly string[])
    differ(at, 'closed', value['additionalProperties'] === false, shape.closed === true)
    for (const [name, field] of Object.entries({ ...shape.required, ...shape.optional })) {
      const where = `${at}.${name}`
      const schema = properties[name]
      if (schema === undefined) {
        found.push({ at: where, aspect: 'missing', message: `${where} is in the interface and not in the description` })
        continue
      }
      differ(where, 'required', required.has(name), Object.hasOwn(shape.required, name))
      compareValue(schema, field, where)
    }
    for (const name of Object.keys(properties)) {
      if (Object.hasOwn(shape.required, name) || Object.hasOwn(shape.optional, name)) continue
      found.push({
        at: `${at}.${name}`,
        aspect: required.has(name) ? 'extra and required' : 'extra',
        message: `${at}.${name} is in the description and not in the interface`,
      })
    }
  }
}

type Components = Readonly<Record<string, Schema>>

function resolve(schema: Schema, components: Components): Schema {
  const { $ref, ...beside } = schema
  if (typeof $ref !== 'string') return schema
  const target = components[$ref.replace('#/components/schemas/', '')]
  if (target === undefined) throw new Error(`${$ref} is not in the description`)
  return { ...target, ...beside }
}

/** "Or null" is written in two ways: as a second type, and as one more alternative. */
function splitNull(schema: Schema, components: Components): Schema & { readonly nullable: boolean } {
  const { type, anyOf, ...rest } = schema
  if (Array.isArray(type) && type.includes('null')) {
    return { ...rest, type: type.find((name) => name !== 'null') as string, nullable: true }
  }
  if (!Array.isArray(anyOf)) return { ...schema, nullable: type === 'null' }
  const others = (anyOf as readonly Schema[]).filter((alternative) => alternative['type'] !== 'null')
  const [first] = others
  if (others.length === anyOf.length || first === undefined) return { ...schema, nullable: false }
  return others.length === 1
    ? { ...rest, ...resolve(first, components), nullable: true }
    : { ...rest, anyOf: others, nullable: true }
}

const kinds: Readonly<Record<string, Shape['kind']>> = {
  string: 'text',
  number: 'number',
  integer: 'integer',
  boolean: 'boolean',
  array: 'list',
  null: 'null',
}

function kindOf(schema: Schema): Shape['kind'] {
  if (schema['enum'] !== undefined || schema['const'] !== undefined) return 'choice'
  if (schema['oneOf'] !== undefined || schema['anyOf'] !== undefined) return 'one-of'
  if (schema['type'] !== 'object') return kinds[String(schema['type'])] ?? 'anything'
  if (schema['properties'] === undefined) return 'keyed'
  return Object.keys(schema['properties'] as object).length === 0 ? 'object' : 'fields'
}

function choices(value: Schema): readonly unknown[] {
  return (value['enum'] ?? [value['const']]) as readonly unknown[]
}

function show(value: unknown): string {
  return value === undefined ? 'absent' : JSON.stringify(value)
}
