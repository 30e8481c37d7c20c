/**
 * The fields of a schema as a table: one row per field, nested objects indented under their field, unions as one group
 * of rows per variant. Named records are linked, not repeated.
 */
import type { Json, JsonObject } from '../../contract/openapi/openapi-schema.ts'
import { html, join, prose, type Markup } from './markup.ts'

export type Components = Readonly<Record<string, JsonObject>>

export function anchorOf(component: string): string {
  return `record-${component}`
}

export function refName(schema: JsonObject): string | undefined {
  const { $ref } = schema
  return typeof $ref === 'string' ? $ref.split('/').at(-1) : undefined
}

/** The schema with the fields: behind a reference, inside an array, or the schema itself. */
export function unwrap(schema: JsonObject, components: Components): JsonObject {
  const name = refName(schema)
  if (name !== undefined) return components[name] ?? {}
  return schema['type'] === 'array' ? unwrap(schema['items'] as JsonObject, components) : schema
}

/** A request marks required fields; an answer has nearly all of them, so it marks optional ones. */
export type Side = 'request' | 'answer'

export function renderFields(schema: JsonObject, side: Side): Markup {
  const variants = variantsOf(schema)
  if (variants !== undefined) return html`${variants.map((variant) => renderVariant(variant, side))}`
  const rows = rowsOfObject(schema, side, 0)
  return rows.length === 0 ? html`<p class="free">${typeOf(schema)}</p>` : table(rows)
}

/** The variants of a union fold away, since a reader looks for one of them. */
function renderVariant(variant: JsonObject, side: Side): Markup {
  return html`<details class="answer">
    <summary>${variantTitle(variant)}</summary>
    ${table(rowsOfObject(variant, side, 0))}
  </details>`
}

/** Parameters have their own name, place and requirement; their schemas render like fields. */
export function renderParameters(parameters: readonly JsonObject[]): Markup {
  return table(
    parameters.map((parameter) => {
      const schema = { ...(parameter['schema'] as JsonObject), description: parameter['description'] }
      return rowOfField(parameter['name'] as string, schema, markOf('request', parameter['required'] === true), 0)
    }),
  )
}

function table(rows: readonly Markup[]): Markup {
  return html`<table>
    <colgroup>
      <col class="field" />
      <col class="type" />
      <col />
    </colgroup>
    <thead>
      <tr>
        <th>Field</th>
        <th>Type</th>
        <th>Notes</th>
      </tr>
    </thead>
    <tbody>
      ${rows}
    </tbody>
  </table>`
}

function rowsOfObject(schema: JsonObject, side: Side, depth: number): Markup[] {
  const required = (schema['required'] ?? []) as readonly string[]
  const properties = (schema['properties'] ?? {}) as Readonly<Record<string, JsonObject>>
  return Object.entries(properties).flatMap(([name, field]) => [
    rowOfField(name, field, markOf(side, required.includes(name)), depth),
    ...rowsInside(field, side, depth + 1),
  ])
}

function markOf(side: Side, required: boolean): Markup | undefined {
  if (side === 'request') return required ? html`<span class="required">required</span>` : undefined
  return required ? undefined : html`<span class="optional">optional</span>`
}

function rowOfField(name: string, field: JsonObject, mark: Markup | undefined, depth: number): Markup {
  return html`<tr class="depth-${depth}">
    <td><code class="name">${name}</code>${mark}</td>
    <td class="type">${typeOf(field)}</td>
    <td>${notesOf(field)}</td>
  </tr>`
}

function rowsInside(field: JsonObject, side: Side, depth: number): Markup[] {
  const value = withoutNull(field)
  if (refName(value) !== undefined) return []
  if (variantsOf(value) !== undefined) return rowsOfVariants(value, side, depth)
  if (value['type'] === 'array') return rowsInside(value['items'] as JsonObject, side, depth)
  return rowsOfObject(value, side, depth)
}

function rowsOfVariants(schema: JsonObject, side: Side, depth: number): Markup[] {
  return (variantsOf(schema) ?? []).flatMap((variant, index) => [
    html`<tr class="variant depth-${depth}">
      <td colspan="3">${index === 0 ? 'Either' : 'or'} with ${variantTitle(variant)}</td>
    </tr>`,
    ...rowsOfObject(variant, side, depth),
  ])
}

/** Alternatives that are objects with fields; a choice between plain values is part of the type. */
function variantsOf(schema: JsonObject): readonly JsonObject[] | undefined {
  const variants = alternativesOf(schema)
  return variants !== undefined && variants.every((variant) => variant['properties'] !== undefined)
    ? variants
    : undefined
}

function variantTitle(variant: JsonObject): Markup {
  const fields = Object.entries(variant['properties'] as Readonly<Record<string, JsonObject>>)
  const fixed = fields.find(([, field]) => field['const'] !== undefined)
  if (fixed !== undefined) return html`<code>${fixed[0]}: ${JSON.stringify(fixed[1]['const'])}</code>`
  return html`<code>${fields.at(-1)?.[0]}</code>`
}

function alternativesOf(schema: JsonObject): readonly JsonObject[] | undefined {
  return (schema['oneOf'] ?? schema['anyOf']) as readonly JsonObject[] | undefined
}

function isNullable(schema: JsonObject): boolean {
  const { type } = schema
  if (Array.isArray(type)) return type.includes('null')
  return alternativesOf(schema)?.some((alternative) => alternative['type'] === 'null') === true
}

function withoutNull(schema: JsonObject): JsonObject {
  if (!isNullable(schema)) return schema
  const { type, anyOf: _, ...rest } = schema
  if (Array.isArray(type)) return { ...rest, type: (type as readonly string[]).find((name) => name !== 'null') }
  const others = alternativesOf(schema)?.filter((alternative) => alternative['type'] !== 'null') ?? []
  const [only] = others
  return others.length === 1 && only !== undefined ? { ...rest, ...only } : { ...rest, anyOf: others }
}

function typeOf(schema: JsonObject): Markup {
  const value = withoutNull(schema)
  return isNullable(schema) ? html`${plainTypeOf(value)} or null` : plainTypeOf(value)
}

function plainTypeOf(schema: JsonObject): Markup {
  const name = refName(schema)
  if (name !== undefined) return html`<a href="#${anchorOf(name)}">${name}</a>`
  const alternatives = alternativesOf(schema)
  if (alternatives !== undefined) {
    if (variantsOf(schema) !== undefined) return html`one of ${alternatives.length}`
    return join(alternatives.map(typeOf), ' or ')
  }
  if (schema['const'] !== undefined) return html`<code>${JSON.stringify(schema['const'])}</code>`
  if (schema['type'] === 'array') return html`list of ${typeOf(schema['items'] as JsonObject)}`
  if (schema['type'] === 'object' && schema['properties'] === undefined) return typeOfKeyed(schema)
  if (schema['format'] === 'int32') return html`int32`
  const formats: Readonly<Record<string, string>> = { 'date-time': 'time', date: 'date', email: 'email', uri: 'URL' }
  return html`${formats[schema['format'] as string] ?? (schema['type'] as string | undefined) ?? 'any value'}`
}

function typeOfKeyed(schema: JsonObject): Markup {
  const values = schema['additionalProperties'] as JsonObject | undefined
  if (values === undefined || Object.keys(values).length === 0) return html`object, free keys`
  return html`map of string to ${typeOf(values)}`
}

function notesOf(schema: JsonObject): Markup {
  const value = withoutNull(schema)
  const description = value['description']
  const limits = limitsOf(value)
  const notes: Markup[] = [
    ...(typeof description === 'string' ? [prose(/[.!?]$/.test(description) ? description : `${description}.`)] : []),
    ...choicesOf(value),
    ...(value['type'] === 'array' ? choicesOf(withoutNull(value['items'] as JsonObject)) : []),
    ...(limits.length === 0 ? [] : [html`<span class="limit">${limits.join(', ')}</span>`]),
    ...(value['default'] === undefined
      ? []
      : [html`<span class="default">Default <code>${plainText(value['default'])}</code></span>`]),
  ]
  return join(notes, ' ')
}

function plainText(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function choicesOf(schema: JsonObject): Markup[] {
  const values = schema['enum'] as readonly string[] | undefined
  if (values === undefined) return []
  const codes = join(
    values.map((value) => html`<code>${value}</code>`),
    ' ',
  )
  // A long list would hide the fields after it.
  return values.length <= 8
    ? [html`<span class="choices">${codes}</span>`]
    : [
        html`<details class="choices">
          <summary>${values.length} values</summary>
          ${codes}
        </details>`,
      ]
}

/** The contract's patterns in plain text; others are shown as they are. */
export const patternLabels: Readonly<Record<string, string>> = {
  '^[A-Za-z0-9_-]+$': 'letters, digits, underscore, hyphen',
  '^\\d{1,9}(\\.\\d{1,9})?$': 'USD, such as 12.50',
  '^(?!0+(\\.0+)?$)\\d{1,9}(\\.\\d{1,9})?$': 'USD above zero, such as 12.50',
  '^-?\\d{1,9}(\\.\\d{1,9})?$': 'USD, such as 12.50 or -2.50',
  '^\\d{4}-(0[1-9]|1[0-2])$': 'a month, such as 2026-11',
  '^\\d{1,18}$': 'digits',
  '^[1-9]\\d?$': 'a whole number',
}

function limitsOf(schema: JsonObject): string[] {
  const alternatives = alternativesOf(schema)
  if (alternatives !== undefined && variantsOf(schema) === undefined) return alternatives.flatMap(limitsOf)
  const { pattern } = schema
  return [
    ...(schema['format'] === 'int32' ? [] : rangeOf(schema)),
    ...(schema['multipleOf'] === undefined ? [] : [`multiple of ${schema['multipleOf'] as number}`]),
    ...span(schema['minLength'], schema['maxLength'], 'character'),
    ...(typeof pattern === 'string' ? [patternLabels[pattern] ?? `matches ${pattern}`] : []),
    ...span(schema['minItems'], schema['maxItems'], 'item'),
    ...limitsOfEach(schema).map((limit) => `each ${limit}`),
  ]
}

/** Limits of the items of an array or map that has no rows of its own. */
function limitsOfEach(schema: JsonObject): string[] {
  const inner = schema['type'] === 'array' ? schema['items'] : schema['additionalProperties']
  if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return []
  const each = inner as JsonObject
  return each['properties'] === undefined ? limitsOf(each) : []
}

function rangeOf(schema: JsonObject): string[] {
  const above = schema['exclusiveMinimum'] as number | undefined
  const below = schema['exclusiveMaximum'] as number | undefined
  return [
    ...(above === undefined ? [] : [`above ${above}`]),
    ...span(schema['minimum'], schema['maximum']),
    ...(below === undefined ? [] : [`below ${below}`]),
  ]
}

/** The bounds of safe integers are not shown. */
function span(min: Json | undefined, max: Json | undefined, unit?: string): string[] {
  const low = min === -Number.MAX_SAFE_INTEGER ? undefined : (min as number | undefined)
  const high = max === Number.MAX_SAFE_INTEGER ? undefined : (max as number | undefined)
  const ends: Array<[number | undefined, string]> = [
    [low !== undefined && high !== undefined ? high : undefined, `${low} to ${high}`],
    [low, `at least ${low}`],
    [high, `at most ${high}`],
  ]
  const [last, text] = ends.find(([end]) => end !== undefined) ?? []
  if (text === undefined) return []
  return [unit === undefined ? text : `${text} ${unit}${last === 1 ? '' : 's'}`]
}
