/**
 * The schemas of the Python client: those of the OpenAPI description, with a mark where text or a number on the wire is
 * an amount or a time (the codecs of `contract/shared.ts`). Python gets `Decimal` and `datetime` there.
 */
import { z } from 'zod'
import {
  makeSchemaWriter,
  type Json,
  type JsonObject,
  type SchemaWriter,
} from '../src/contract/openapi/openapi-schema.ts'

export type Value = 'money' | 'time'
const MARK = 'x-value'
const SAMPLE_TIME = '2026-01-02T03:04:05.678Z'

export function markedSchemas(): SchemaWriter {
  return makeSchemaWriter(({ zodSchema, jsonSchema }) => {
    if (zodSchema instanceof z.ZodCodec) Object.assign(jsonSchema, { [MARK]: valueOf(zodSchema) })
  })
}

/** Only one of the two decodes a time. */
function valueOf({ def }: z.ZodCodec): Value {
  const context = { value: SAMPLE_TIME, issues: [] }
  try {
    return typeof def.transform(SAMPLE_TIME, context) === 'number' ? 'time' : 'money'
  } catch {
    return 'money'
  }
}

export function markOf(schema: JsonObject): Value | undefined {
  return Array.isArray(schema['type']) ? undefined : (schema[MARK] as Value | undefined)
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function fieldsOf(schema: JsonObject): Array<[string, JsonObject]> {
  return Object.entries((schema['properties'] ?? {}) as Record<string, JsonObject>)
}

export function isRequired(schema: JsonObject, name: string): boolean {
  return ((schema['required'] ?? []) as readonly string[]).includes(name)
}

export function refOf(schema: JsonObject): string | undefined {
  return (schema['$ref'] as string | undefined)?.replace('#/components/schemas/', '')
}

export function optionsOf(schema: JsonObject): readonly JsonObject[] | undefined {
  const { type } = schema
  // The short form of "a text or null".
  if (Array.isArray(type)) return type.map((one) => ({ ...schema, type: one }))
  return (schema['anyOf'] ?? schema['oneOf']) as readonly JsonObject[] | undefined
}

/** Whether null is one of its values. */
export function isNullable(schema: JsonObject): boolean {
  return schema['type'] === 'null' || (optionsOf(schema)?.some(isNullable) ?? false)
}

export function textOf(schema: JsonObject): string | undefined {
  return schema['description'] as string | undefined
}

/** A text as a Python literal. JSON is one, but for values that it spells differently. */
export function literal(value: Json | undefined): string {
  if (value === null || value === undefined) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  return JSON.stringify(value)
}

/** A docstring or the text below a field, wrapped at 100 characters. */
export function docstring(text: string, indent: string): string {
  const safe = text.replaceAll('\\', '\\\\').replaceAll('"""', "'''").trim()
  const lines = safe.split('\n').flatMap((line) => wrap(line.trim(), 100 - indent.length))
  const closing = lines.length === 1 && !safe.endsWith('"') ? '"""' : `\n${indent}"""`
  return `${indent}"""${lines.map((line, at) => (at === 0 || line === '' ? line : indent + line)).join('\n')}${closing}`
}

function wrap(text: string, width: number): string[] {
  const lines = ['']
  for (const word of text.split(' ')) {
    const last = lines.at(-1) ?? ''
    if (last !== '' && last.length + word.length + 1 > width) lines.push(word)
    else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`
  }
  return lines
}
