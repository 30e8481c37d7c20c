/** The operations of the Python client: where each is found, what it takes and how it answers. */
import { api } from '../src/contract/api.ts'
import type { Endpoint } from '../src/contract/endpoint.ts'
import { accountEvent, eventRecord } from '../src/contract/event.ts'
import type { JsonObject } from '../src/contract/openapi/openapi-schema.ts'
import { placeOf, pythonName, snakeCase, type Place } from './python-names.ts'
import { fieldsOf, isNullable, isRequired, markedSchemas, refOf, textOf } from './python-schema.ts'

/** How a list goes on: with a cursor, before the last ID, after the last ID, from an offset, or not at all. */
type PageStyle = 'cursor' | 'before' | 'after' | 'after_id' | 'offset' | 'whole'

export interface Parameter {
  readonly part: 'path' | 'query' | 'body'
  readonly name: string
  readonly python: string
  readonly schema: JsonObject
  readonly required: boolean
  /** Null is a value of its own, so leaving it out needs another default. */
  readonly nullable: boolean
  readonly description: string | undefined
}

export interface PythonOperation {
  readonly id: string
  readonly endpoint: Endpoint
  readonly place: Place
  readonly parameters: readonly Parameter[]
  /** The parameters of each kind of body, if it is a union. */
  readonly variants: ReadonlyArray<readonly Parameter[]>
  readonly queryShape: JsonObject
  readonly bodyShape: JsonObject
  readonly answer: JsonObject
  readonly chunk: JsonObject | undefined
  readonly pages: { readonly style: PageStyle; readonly items: string; readonly item: JsonObject } | undefined
}

interface PythonApi {
  readonly operations: readonly PythonOperation[]
  readonly components: Readonly<Record<string, JsonObject>>
  /** The events of streams. */
  readonly followed: readonly JsonObject[]
}

/** Operations that a key can call. Those of a person need the console's cookie. */
export function isPublic({ access }: Endpoint): boolean {
  return access !== 'person'
}

export function pythonApi(): PythonApi {
  const schemas = markedSchemas()
  const entries = Object.entries<Endpoint>(api).filter(([, endpoint]) => isPublic(endpoint))
  const rows = entries.map(([id, endpoint]) => ({
    id,
    endpoint,
    path: endpoint.params === undefined ? {} : schemas.write(endpoint.params, 'input'),
    query: endpoint.query === undefined ? {} : schemas.write(endpoint.query, 'input'),
    body: endpoint.body === undefined ? {} : schemas.write(endpoint.body, 'input'),
    answer: schemas.write(endpoint.response, 'output'),
    chunk: endpoint.chunk === undefined ? undefined : schemas.write(endpoint.chunk, 'output'),
  }))
  const followed = [eventRecord, accountEvent].map((event) => schemas.write(event, 'output'))
  const components = schemas.components()
  const resolve = (schema: JsonObject): JsonObject => components[refOf(schema) ?? ''] ?? schema
  const operations = rows.map(({ id, endpoint, path, query, body, answer, chunk }): PythonOperation => {
    const pages = pagesOf(id, endpoint, query, resolve(answer))
    const bodies = ((resolve(body)['oneOf'] ?? [body]) as readonly JsonObject[]).map(resolve)
    const common = [...parameters('path', path), ...parameters('query', query)]
    return {
      id,
      endpoint,
      place: placeOf(id, endpoint),
      parameters: [...common, ...merge(bodies.map((one) => parameters('body', one)))].filter(
        ({ name }) => name !== 'stream' && !(pages !== undefined && isPosition(name, pages.style)),
      ),
      variants: bodies.length === 1 ? [] : bodies.map((one) => [...common, ...parameters('body', one)]),
      queryShape: query,
      bodyShape: bodies.length === 1 ? (bodies[0] ?? {}) : { oneOf: bodies },
      answer,
      chunk,
      pages,
    }
  })
  checkPlaces(operations)
  return { operations, components, followed }
}

/** The fields of several bodies as those of one; it needs those that all of them need. */
function merge(bodies: ReadonlyArray<readonly Parameter[]>): Parameter[] {
  const names = [...new Set(bodies.flatMap((body) => body.map(({ name }) => name)))]
  return names.flatMap((name) => {
    const same = bodies.flatMap((body) => body.filter((one) => one.name === name))
    const [first] = same
    if (first === undefined) return []
    const texts = new Map(same.map(({ schema }) => [JSON.stringify(schema), schema]))
    return [
      {
        ...first,
        schema: texts.size === 1 ? first.schema : { anyOf: [...texts.values()] },
        required: same.length === bodies.length && same.every(({ required }) => required),
      },
    ]
  })
}

function parameters(part: Parameter['part'], schema: JsonObject): Parameter[] {
  return fieldsOf(schema).map(([name, field]) => ({
    part,
    name,
    python: name === 'limit' && part === 'query' ? 'limit' : pythonName(name),
    schema: field,
    required: isRequired(schema, name),
    nullable: isNullable(field),
    description: textOf(field),
  }))
}

function isPosition(name: string, style: PageStyle): boolean {
  return name === 'limit' || name === style
}

function pagesOf(id: string, { method }: Endpoint, query: JsonObject, answer: JsonObject): PythonOperation['pages'] {
  if (method !== 'GET') return undefined
  const queryNames = new Set(fieldsOf(query).map(([name]) => name))
  if (answer['type'] === 'array') {
    return { style: queryNames.has('before') ? 'before' : 'whole', items: '', item: answer['items'] as JsonObject }
  }
  const fields = fieldsOf(answer)
  const [name, list] = fields.find(([, field]) => field['type'] === 'array') ?? []
  if (name === undefined || list === undefined) return undefined
  const pages = (style: PageStyle) => ({ style, items: snakeCase(name), item: list['items'] as JsonObject })
  const has = (field: string): boolean => fields.some(([one]) => one === field)
  if (queryNames.has('cursor') && (has('nextCursor') || has('next_cursor'))) return pages('cursor')
  for (const style of ['after', 'after_id'] as const) {
    if (queryNames.has(style) && has('has_more')) return pages(style)
  }
  if (queryNames.has('offset')) return pages('offset')
  const isList = id.startsWith('list') && (fields.length === 1 || has('has_more'))
  return isList ? pages('whole') : undefined
}

function checkPlaces(operations: readonly PythonOperation[]): void {
  const places = new Map<string, string>()
  for (const { id, place } of operations) {
    const text = [...place.group, place.method].join('.')
    const other = places.get(text)
    if (other !== undefined) throw new Error(`${id} and ${other} are both ${text}; see scripts/python-names.ts`)
    places.set(text, id)
  }
}
