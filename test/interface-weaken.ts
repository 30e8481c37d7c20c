/** Proves that the comparison detects differences: removes one rule of a schema at a time. */
import type { Schema } from './interface-deviations.ts'

type Components = Readonly<Record<string, Schema>>

/** The schema without each rule and field in turn, as `[path, weaker schema]`; references are resolved in place. */
export function* weaken(schema: Schema, components: Components): Generator<[string, Schema]> {
  const own = inline(schema, components)
  for (const [key, value] of Object.entries(own)) {
    if (isRule(key, value, own)) yield [key, leaveOut(own, key)]
    if (key === 'enum' && Array.isArray(value) && value.length > 1) {
      yield ['enum', { ...own, enum: value.toReversed() }]
    }
    if (key === 'items' || key === 'additionalProperties') {
      for (const [path, weaker] of weaken(value as Schema, components))
        yield [`${key}.${path}`, { ...own, [key]: weaker }]
    }
    if (key === 'oneOf' || key === 'anyOf') {
      const alternatives = value as readonly Schema[]
      for (const [index, alternative] of alternatives.entries()) {
        for (const [path, weaker] of weaken(alternative, components)) {
          yield [`${key}${index}.${path}`, { ...own, [key]: alternatives.with(index, weaker) }]
        }
      }
    }
    if (key === 'properties') {
      const properties = value as Readonly<Record<string, Schema>>
      for (const [name, property] of Object.entries(properties)) {
        yield [name, { ...own, properties: leaveOut(properties, name) }]
        for (const [path, weaker] of weaken(property, components)) {
          yield [`${name}.${path}`, { ...own, properties: { ...properties, [name]: weaker } }]
        }
      }
    }
  }
}

function inline(schema: Schema, components: Components): Schema {
  const { $ref, ...beside } = schema
  return typeof $ref === 'string' ? { ...components[$ref.split('/').at(-1) ?? ''], ...beside } : schema
}

function leaveOut(from: Schema, key: string): Schema {
  return Object.fromEntries(Object.entries(from).filter(([name]) => name !== key))
}

/** Not rules: descriptions, the bounds of safe integers, and the type of an enum. */
function isRule(key: string, value: unknown, schema: Schema): boolean {
  if (key === 'type') return schema['enum'] === undefined && schema['const'] === undefined
  if (key === 'additionalProperties') return value === false
  if (Math.abs(Number(value)) === Number.MAX_SAFE_INTEGER) return false
  return !['description', 'format', 'oneOf', 'anyOf', 'items', 'properties'].includes(key)
}
