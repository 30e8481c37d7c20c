/**
 * Converts answers between values and their form on the wire. Each schema is walked once to find the fields with codecs
 * (`shared.ts`); only these fields of an answer are then copied and converted, and nothing is parsed. An answer without
 * such fields is passed on unchanged.
 */
import { z } from 'zod'
import { api, type OperationId } from './api.ts'

export type Convert = (value: unknown) => unknown

type Direction = 'encode' | 'decode'
type Record = { [name: string]: unknown }

const converts = { encode: new Map<OperationId, Convert>(), decode: new Map<OperationId, Convert>() }

/** Converts the answer of a handler to its form on the wire. */
export function writerOf(operation: OperationId): Convert {
  return convertOf(operation, 'encode')
}

/** Converts an answer on the wire to the values that the handler returned. */
export function readerOf(operation: OperationId): Convert {
  return convertOf(operation, 'decode')
}

function convertOf(operation: OperationId, direction: Direction): Convert {
  const cached = converts[direction].get(operation)
  if (cached !== undefined) return cached
  const convert = compile(api[operation].response, direction) ?? ((value) => value)
  converts[direction].set(operation, convert)
  return convert
}

/** undefined: the schema has no codecs. */
function compile(schema: z.core.$ZodType, direction: Direction): Convert | undefined {
  if (schema instanceof z.ZodCodec) {
    const { transform, reverseTransform } = schema.def
    return (direction === 'encode' ? reverseTransform : transform) as Convert
  }
  if (schema instanceof z.ZodObject) return compileObject(schema, direction)
  if (schema instanceof z.ZodArray) {
    const item = compile(schema.element, direction)
    return item && ((value) => (value as unknown[]).map(item))
  }
  if (schema instanceof z.ZodRecord) {
    const item = compile(schema.valueType, direction)
    const names = (value: unknown) => Object.entries(value as Record)
    return item && ((value) => Object.fromEntries(names(value).map(([name, one]) => [name, item(one)])))
  }
  if (schema instanceof z.ZodUnion) return compileUnion(schema, direction)
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault) {
    const inner = compile(schema.unwrap(), direction)
    return inner && ((value) => (value === null || value === undefined ? value : inner(value)))
  }
  return undefined
}

function compileObject(schema: z.ZodObject, direction: Direction): Convert | undefined {
  const fields = Object.entries(schema.shape).flatMap(([name, field]) => {
    const convert = compile(field, direction)
    return convert === undefined ? [] : [{ name, convert }]
  })
  if (fields.length === 0) return undefined
  return (value) => {
    // A copy: a handler may return the same object again.
    const copy = { ...(value as Record) }
    for (const { name, convert } of fields) {
      if (copy[name] !== undefined) copy[name] = convert(copy[name])
    }
    return copy
  }
}

/** A union needs a discriminator, which tells the schema of an answer. */
function compileUnion(schema: z.ZodUnion, direction: Direction): Convert | undefined {
  const options = schema.options.map((option) => ({ option, convert: compile(option, direction) }))
  if (options.every(({ convert }) => convert === undefined)) return undefined
  if (!(schema instanceof z.ZodDiscriminatedUnion)) throw new Error('codecs in a union need a discriminator')
  const { discriminator } = schema.def
  const byName = new Map<unknown, Convert | undefined>()
  for (const { option, convert } of options) {
    for (const name of option._zod.propValues?.[discriminator] ?? []) byName.set(name, convert)
  }
  return (value) => byName.get((value as Record)[discriminator])?.(value) ?? value
}
