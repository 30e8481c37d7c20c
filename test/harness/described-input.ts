/** The input of an operation according to the OpenAPI description. */
import { z } from 'zod'
import type { Endpoint } from '../../src/contract/endpoint.ts'
import { describeApi } from '../../src/contract/openapi/openapi.ts'
import { faultsOf, type Fault, type Schema } from './input-faults.ts'

interface Operation {
  readonly parameters?: ReadonlyArray<{ readonly name?: string; readonly in?: string; readonly schema: Schema }>
  readonly requestBody?: { readonly content: { readonly 'application/json': { readonly schema: Schema } } }
}

const description = describeApi('all') as unknown as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}
export const { schemas } = description.components

function described({ path, method }: Endpoint): Operation {
  return description.paths[path]?.[method.toLowerCase()] ?? {}
}

export function bodySchema(endpoint: Endpoint): Schema {
  return described(endpoint).requestBody?.content['application/json'].schema ?? {}
}

/** URLs carry only text: a string is never of the wrong type there, and a number is if it cannot be parsed. */
export function parameterFaults(
  endpoint: Endpoint,
  where: 'path' | 'query',
  sample: Readonly<Record<string, string | number>>,
): Fault[] {
  const own = (described(endpoint).parameters ?? []).filter((parameter) => parameter.in === where)
  const faults = own.flatMap(({ name = '', schema }) =>
    faultsOf(schema, sample[name], schemas)
      .filter((one) => fitsAddress(schema, one) && (where === 'query' || one.value !== ''))
      .map((one): Fault => ({ ...one, path: [name], value: { ...sample, [name]: String(one.value) } })),
  )
  // A path cannot have extra fields, and some protocols of others accept fields that we do not know.
  if (where === 'path' || isLoose(endpoint.query)) return faults
  const unknown = {
    what: 'unknown key',
    value: { ...sample, no_such_key: '1' },
    path: ['no_such_key'],
    malformed: true,
  }
  return [...faults, unknown]
}

function isLoose(query: Endpoint['query']): boolean {
  return query instanceof z.ZodObject && query.def.catchall instanceof z.ZodUnknown
}

function fitsAddress({ type }: Schema, { what, value, malformed }: Fault): boolean {
  // URLs are encoded as UTF-8, which has no lone surrogates.
  if (what === 'holds half a character') return false
  if (type === 'string') return typeof value === 'string' && !malformed
  return typeof value === 'string' || (typeof value === 'number' && type !== 'boolean')
}
