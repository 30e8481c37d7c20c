/** Facts about a JSON schema that need no grammar: types, references, and how far alternatives are ambiguous. */

export type Schema = Readonly<Record<string, unknown>>

export type JsonType = 'string' | 'number' | 'integer' | 'boolean' | 'null' | 'array' | 'object'

const allTypes: readonly JsonType[] = ['object', 'array', 'string', 'number', 'boolean', 'null']

export function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Without `type` the other keywords decide, and if they do not, any type is possible. Empty: an unknown type. */
export function typesOf(schema: Schema): JsonType[] {
  const types = 'type' in schema ? declaredTypes(schema.type) : impliedTypes(schema)
  return schema.nullable === true && !types.includes('null') ? [...types, 'null'] : types
}

function declaredTypes(type: unknown): JsonType[] {
  const named: unknown[] = Array.isArray(type) ? type : [type]
  const knownTypes = [...allTypes, 'integer' as const].filter((one) => named.includes(one))
  return knownTypes.length < named.length ? [] : knownTypes
}

function impliedTypes(schema: Schema): JsonType[] {
  if ('properties' in schema || 'required' in schema) return ['object']
  return 'items' in schema ? ['array'] : [...allTypes]
}

/** `#`, or a path in the same schema. */
export function resolveRef(ref: unknown, root: unknown): unknown {
  if (typeof ref !== 'string' || !/^#(\/|$)/.test(ref)) return undefined
  return ref
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((at, step) => (isObject(at) && Object.hasOwn(at, step) ? at[step] : undefined), root)
}

/** Whether no value can match two of these, judged by types and constants. */
export function areDisjoint(schemas: readonly unknown[], root: unknown): boolean {
  const resolved = resolveAll(schemas, root)
  return resolved.every((one, at) => resolved.slice(at + 1).every((other) => differ(one, other)))
}

/** Maximum number of these that an incomplete text can match at once. */
export function alikeMembers(schemas: readonly unknown[], root: unknown): number {
  const resolved = resolveAll(schemas, root)
  const alike = (one: unknown, other: unknown): boolean => !differ(one, other) && !beginOtherwise(one, other)
  return Math.max(...resolved.map((one) => resolved.filter((other) => one === other || alike(one, other)).length))
}

function resolveAll(schemas: readonly unknown[], root: unknown): unknown[] {
  return schemas.map((schema) => (isObject(schema) && '$ref' in schema ? resolveRef(schema.$ref, root) : schema))
}

/** Properties come in order, so objects with different first properties are distinguished by those. */
function beginOtherwise(one: unknown, other: unknown): boolean {
  const [names, others] = [firstNames(one), firstNames(other)]
  return names !== undefined && others !== undefined && !names.some((name) => others.includes(name))
}

function firstNames(schema: unknown): string[] | undefined {
  if (!isObject(schema) || !isObject(schema.properties) || typesOf(schema).join() !== 'object') return undefined
  const names = Object.keys(schema.properties)
  const required = requiredOf(schema)
  const first = names.findIndex((name) => required.includes(name))
  return first < 0 ? undefined : names.slice(0, first + 1)
}

function differ(one: unknown, other: unknown): boolean {
  if (!isObject(one) || !isObject(other)) return false
  const [values, others] = [fixedValues(one), fixedValues(other)]
  if (values !== undefined && others !== undefined) return !values.some((value) => others.includes(value))
  const number = (type: JsonType): JsonType => (type === 'integer' ? 'number' : type)
  const [types, otherTypes] = [typesOf(one).map(number), typesOf(other).map(number)]
  if (!types.some((type) => otherTypes.includes(type))) return true
  if (types.length > 1 || otherTypes.length > 1 || types[0] !== 'object') return false
  const [properties, otherProperties] = [one.properties, other.properties]
  if (!isObject(properties) || !isObject(otherProperties)) return false
  // A property that both require, with values that never match both.
  return requiredOf(one)
    .filter((name) => requiredOf(other).includes(name))
    .some((name) => {
      const [its, others] = [properties[name], otherProperties[name]].map((member) =>
        isObject(member) ? fixedValues(member) : undefined,
      )
      return its !== undefined && others !== undefined && !its.some((value) => others.includes(value))
    })
}

function requiredOf(schema: Schema): string[] {
  return Array.isArray(schema.required) ? schema.required.map(String) : []
}

/** The possible values as JSON, so that they can be compared. undefined: they are not listed. */
function fixedValues(schema: Schema): string[] | undefined {
  if ('const' in schema) return [JSON.stringify(schema.const)]
  return Array.isArray(schema.enum) ? schema.enum.map((value) => JSON.stringify(value)) : undefined
}
