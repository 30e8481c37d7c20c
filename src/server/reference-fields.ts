/**
 * Fields of a schema as a table that people can read: one row a field, nested objects indented under their field,
 * unions as one group of rows a variant. A record with a name of its own is linked, not repeated.
 */
import type { Json, JsonObject } from '../contract/openapi-schema.ts'
import { html, join, prose, type Markup } from './markup.ts'

export type Components = Readonly<Record<string, JsonObject>>

export function anchorOf(component: string): string {
  return `record-${component}`
}

export function refName(schema: JsonObject): string | undefined {
  const { $ref } = schema
  return typeof $ref === 'string' ? $ref.split('/').at(-1) : undefined
}

/** The schema that holds the fields: behind a name, inside a list, or the schema itself. */
export function openUp(schema: JsonObject, components: Components): JsonObject {
  const name = refName(schema)
  if (name !== undefined) return components[name] ?? {}
  return schema['type'] === 'array' ? openUp(schema['items'] as JsonObject, components) : schema
}

export function renderFields(schema: JsonObject): Markup {
  const rows = variantsOf(schema) === undefined ? rowsOfObject(schema, 0) : rowsOfVariants(schema, 0)
  if (rows.length === 0) return html`<p class="free">${typeOf(schema)}</p>`
  return table(rows)
}

/** Parameters come with their own name, place and need; below that they are fields like others. */
export function renderParameters(parameters: readonly JsonObject[]): Markup {
  return table(
    parameters.map((parameter) => {
      const schema = { ...(parameter['schema'] as JsonObject), description: parameter['description'] }
      return rowOfField(parameter['name'] as string, schema, parameter['required'] === true, 0)
    }),
  )
}

function table(rows: readonly Markup[]): Markup {
  return html`<table>
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

function rowsOfObject(schema: JsonObject, depth: number): Markup[] {
  const required = (schema['required'] ?? []) as readonly string[]
  const properties = (schema['properties'] ?? {}) as Readonly<Record<string, JsonObject>>
  return Object.entries(properties).flatMap(([name, field]) => [
    rowOfField(name, field, required.includes(name), depth),
    ...rowsInside(field, depth + 1),
  ])
}

function rowOfField(name: string, field: JsonObject, required: boolean, depth: number): Markup {
  return html`<tr class="depth-${depth}">
    <td><code class="name">${name}</code>${required ? html`<span class="required">required</span>` : undefined}</td>
    <td class="type">${typeOf(field)}</td>
    <td>${notesOf(field)}</td>
  </tr>`
}

function rowsInside(field: JsonObject, depth: number): Markup[] {
  const value = withoutNull(field)
  if (refName(value) !== undefined) return []
  if (variantsOf(value) !== undefined) return rowsOfVariants(value, depth)
  if (value['type'] === 'array') return rowsInside(value['items'] as JsonObject, depth)
  return rowsOfObject(value, depth)
}

function rowsOfVariants(schema: JsonObject, depth: number): Markup[] {
  return (variantsOf(schema) ?? []).flatMap((variant, index) => [
    html`<tr class="variant depth-${depth}">
      <td colspan="3">${index === 0 ? 'Either' : 'or'} ${variantTitle(variant)}</td>
    </tr>`,
    ...rowsOfObject(variant, depth),
  ])
}

/** Alternatives that are objects with fields; a choice between plain values is said in the type. */
function variantsOf(schema: JsonObject): readonly JsonObject[] | undefined {
  const variants = alternativesOf(schema)
  return variants !== undefined && variants.every((variant) => variant['properties'] !== undefined)
    ? variants
    : undefined
}

function variantTitle(variant: JsonObject): Markup {
  const fields = Object.entries(variant['properties'] as Readonly<Record<string, JsonObject>>)
  const fixed = fields.find(([, field]) => field['const'] !== undefined)
  if (fixed !== undefined) return html`with <code>${fixed[0]}: ${JSON.stringify(fixed[1]['const'])}</code>`
  return html`with <code>${fields.at(-1)?.[0]}</code>`
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
  if (schema['format'] === 'int32') return html`integer, 32-bit`
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
  const notes: Markup[] = [
    ...(typeof description === 'string' ? [prose(/[.!?]$/.test(description) ? description : `${description}.`)] : []),
    ...choicesOf(value),
    ...(value['type'] === 'array' ? choicesOf(withoutNull(value['items'] as JsonObject)) : []),
    ...limitsOf(value).map((limit) => html`<span class="limit">${limit}</span>`),
    ...(value['default'] === undefined
      ? []
      : [html`<span class="default">Default <code>${JSON.stringify(value['default'])}</code></span>`]),
  ]
  return join(notes, ' ')
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

function limitsOf(schema: JsonObject): string[] {
  const alternatives = alternativesOf(schema)
  if (alternatives !== undefined && variantsOf(schema) === undefined) return alternatives.flatMap(limitsOf)
  const items = schema['type'] === 'array' ? (schema['items'] as JsonObject) : undefined
  return [
    ...(schema['format'] === 'int32' ? [] : rangeText(schema)),
    ...(schema['multipleOf'] === undefined ? [] : [`multiple of ${schema['multipleOf'] as number}`]),
    ...span(schema['minLength'], schema['maxLength'], 'characters'),
    ...(typeof schema['pattern'] === 'string' ? [`matches ${schema['pattern']}`] : []),
    ...span(schema['minItems'], schema['maxItems'], 'items'),
    ...(items === undefined || items['properties'] !== undefined
      ? []
      : limitsOf(items).map((limit) => `each ${limit}`)),
  ]
}

function rangeText(schema: JsonObject): string[] {
  const above = schema['exclusiveMinimum'] as number | undefined
  const below = schema['exclusiveMaximum'] as number | undefined
  const max = schema['maximum']
  return [
    ...(above === undefined ? [] : [`above ${above}`]),
    ...span(schema['minimum'], max, ''),
    ...(below === undefined ? [] : [`below ${below}`]),
  ]
}

/** The ends of the safe integers go without saying. */
function span(min: Json | undefined, max: Json | undefined, unit: string): string[] {
  const low = min === -Number.MAX_SAFE_INTEGER ? undefined : (min as number | undefined)
  const high = max === Number.MAX_SAFE_INTEGER ? undefined : (max as number | undefined)
  const text =
    low !== undefined && high !== undefined
      ? `${low} to ${high}`
      : low !== undefined
        ? `at least ${low}`
        : high !== undefined
          ? `at most ${high}`
          : undefined
  return text === undefined ? [] : [`${text} ${unit}`.trim()]
}
