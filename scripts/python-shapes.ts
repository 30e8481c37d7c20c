/**
 * How a request is encoded: which names differ on the wire and where amounts and times are. `_encode.py` reads these
 * shapes. A value without a shape is sent as it is.
 */
import type { JsonObject } from '../src/contract/openapi/openapi-schema.ts'
import { pythonName } from './python-names.ts'
import { fieldsOf, isObject, literal, markOf, optionsOf, refOf } from './python-schema.ts'

export interface ShapeWriter {
  /** A Python literal; `None`: no shape is needed. */
  shape(schema: JsonObject): string
  /** The shapes of components, by name. */
  components(): string
}

export function makeShapeWriter(components: Readonly<Record<string, JsonObject>>): ShapeWriter {
  const written = new Map<string, string>()
  const shape = (schema: JsonObject): string => {
    const ref = refOf(schema)
    if (ref !== undefined) {
      if (!written.has(ref)) {
        // Set first, for a component that contains itself.
        written.set(ref, 'None')
        written.set(ref, shape(components[ref] ?? {}))
      }
      return written.get(ref) === 'None' ? 'None' : `("ref", ${literal(ref)})`
    }
    const mark = markOf(schema)
    if (mark === 'time') return '"time"'
    if (mark === 'money') return schema['type'] === 'number' ? '"number"' : '"money"'
    const options = optionsOf(schema)
    if (options !== undefined) return union(options)
    if (isObject(schema['items'])) return wrapped('list', shape(schema['items']))
    if (isObject(schema['additionalProperties']) && fieldsOf(schema).length === 0) {
      return wrapped('map', shape(schema['additionalProperties']))
    }
    return object(fieldsOf(schema))
  }
  const object = (fields: ReadonlyArray<[string, JsonObject]>): string => {
    const rows = fields.map(([name, one]) => [pythonName(name), name, shape(one)] as const)
    if (rows.every(([python, name, inner]) => python === name && inner === 'None')) return 'None'
    return `{${rows.map(([python, name, inner]) => `${literal(python)}: (${literal(name)}, ${inner})`).join(', ')}}`
  }
  /** The fields of all its objects together: a name has one meaning in them. */
  const union = (options: readonly JsonObject[]): string => {
    const resolved = options.map((option) => components[refOf(option) ?? ''] ?? option)
    const fields = new Map(resolved.flatMap((option) => [...(optionsOf(option) ?? [option])].flatMap(fieldsOf)))
    if (fields.size > 0) return object([...fields])
    return options.map(shape).find((one) => one !== 'None') ?? 'None'
  }
  const wrapped = (kind: string, inner: string): string => (inner === 'None' ? 'None' : `("${kind}", ${inner})`)
  return {
    shape,
    components: () =>
      [...written]
        .filter(([, text]) => text !== 'None')
        .map(([name, text]) => `    ${literal(name)}: ${text},`)
        .join('\n'),
  }
}
