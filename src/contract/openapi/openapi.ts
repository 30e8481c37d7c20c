/**
 * The OpenAPI 3.1 description, computed from the table of endpoints. `GET /v2/openapi.json` serves `v2`; `all` is the
 * whole service. The order of the table keeps diffs small.
 */
import type { z } from 'zod'
import { errorFormOf, errorForms } from '../error-form.ts'
import { limits } from '../../base/limits.ts'
import { api } from '../api.ts'
import { audioTypes } from '../audio-format.ts'
import { contentTypeOf, isInference, tags, type Endpoint, type Tag } from '../endpoint.ts'
import { exampleOf } from './example-answer.ts'
import { exampleBodies } from './example-body.ts'
import { v2Codes } from '../error.ts'
import { makeSchemaWriter, type JsonObject, type SchemaWriter } from './openapi-schema.ts'

export type Selection = 'v2' | 'all'

export const tagDescriptions: Readonly<Record<Tag, string>> = {
  Rentals: 'Virtual machines and bare-metal machines with GPUs, on demand or reserved for a term.',
  'Storage volumes': 'Volumes that outlive machines and can be attached to bare-metal rentals in the same region.',
  'Usage and billing': 'Prices, payments, invoices and the balance.',
  Marketplace: 'Containers on machines from suppliers, rented by the GPU.',
  Inference: 'Chat, text completions, embeddings, images and speech, billed by usage.',
  Deployments: 'Models on rented GPUs: replicas that Berth starts, checks, scales and replaces.',
  Account: 'The account, its members, API keys and SSH keys.',
  Secrets: 'Secrets and registry logins that orders refer to. Values are never returned.',
  Jobs: 'Commands that run once on the cheapest GPUs that fit, and whose output is kept.',
  Templates: 'Named sets of order options: yours, and those of the operator.',
  'Events and webhooks': 'Events of the account: listed, streamed, or sent to a webhook.',
  Supply: 'For suppliers: prices, availability and earnings of machines.',
  Operator: 'For the operator: accounts, money, prices, machines and audits.',
  Description: 'The OpenAPI description.',
}

/** Statuses that any path can return, described once. */
const anywhere = {
  413: 'The body is too large',
  415: 'The body is not JSON',
  429: 'Too many requests; retry after the time in `Retry-After`',
  503: 'Temporarily unavailable; retry the request',
} as const
type AnywhereStatus = keyof typeof anywhere
export const anywhereStatuses = Object.keys(anywhere).map(Number) as readonly AnywhereStatus[]

export const statusMeanings: Readonly<Record<number, string>> = {
  400: 'Invalid input data',
  401: 'Authorization not provided',
  402: 'The balance is too small',
  403: 'Insufficient access',
  404: 'Not found',
  422: 'A field is missing or of the wrong type',
  500: 'Internal server error',
  ...anywhere,
}

export function describeApi(selection: Selection): Record<string, unknown> {
  const entries = Object.entries<Endpoint>(api).filter(
    ([, endpoint]) => selection === 'all' || endpoint.path.startsWith('/v2'),
  )
  const schemas = makeSchemaWriter()
  const paths: Record<string, Record<string, JsonObject>> = {}
  for (const [operationId, endpoint] of entries) {
    const operations = (paths[endpoint.path] ??= {})
    operations[endpoint.method.toLowerCase()] = describeOperation(operationId, endpoint, selection, schemas)
  }
  const responses = describeSharedResponses(entries, schemas)
  addExamples(entries, paths, schemas.components())
  const usedTags = new Set(entries.map(([, endpoint]) => endpoint.tag))
  const inference = entries.some(([, endpoint]) => isInference(endpoint))
  return {
    openapi: '3.1.0',
    info: {
      title: selection === 'v2' ? 'Berth compute API' : 'Berth',
      version: '2.0.0',
      description: selection === 'v2' ? v2Text : `${v2Text} ${v1Text}`,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'This server' }],
    tags: tags.filter((tag) => usedTags.has(tag)).map((name) => ({ name, description: tagDescriptions[name] })),
    paths,
    components: {
      securitySchemes: {
        Authorization: { type: 'http', scheme: 'bearer', description: 'An API key: `Authorization: Bearer bk_…`' },
      },
      parameters: sharedParameters,
      headers: inference ? { ...sharedHeaders, ...inferenceHeaders } : sharedHeaders,
      responses,
      schemas: schemas.components(),
    },
  }
}

const v2Text =
  'GPU machines, storage volumes and exact billing. Prices are in USD per hour; amounts of money are strings ' +
  'with nine decimals; times are RFC 3339 in UTC. An error names its `code` and, where programs can act on it, a `reason`.'
const v1Text = 'Paths under `/v1` and `/billing` return errors in the format of the OpenAI API.'

function describeOperation(
  operationId: string,
  endpoint: Endpoint,
  selection: Selection,
  schemas: SchemaWriter,
): JsonObject {
  const parameters = describeParameters(endpoint, schemas)
  return {
    operationId,
    tags: [endpoint.tag],
    summary: endpoint.summary,
    ...(endpoint.description === undefined ? {} : { description: endpoint.description }),
    security: describeSecurity(endpoint, selection),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(endpoint.body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: { [bodyTypeOf(endpoint)]: { schema: schemas.write(endpoint.body, 'input') } },
          },
        }),
    responses: {
      '200': describeAnswer(endpoint, schemas),
      ...Object.fromEntries(endpoint.errors.map((status) => [status, describeError(endpoint, status, schemas)])),
      ...Object.fromEntries(
        statusesAnywhere(endpoint).map((status) => [
          status,
          { $ref: `#/components/responses/${sharedResponseName(endpoint, status)}` },
        ]),
      ),
    },
  }
}

function bodyTypeOf({ takes }: Endpoint): string {
  return takes === 'multipart' ? 'multipart/form-data' : 'application/json'
}

/** Example requests from the reference, example responses from the schemas. */
function addExamples(
  entries: readonly [string, Endpoint][],
  paths: Readonly<Record<string, Record<string, JsonObject>>>,
  components: Readonly<Record<string, JsonObject>>,
): void {
  for (const [operationId, endpoint] of entries) {
    const operation = paths[endpoint.path]?.[endpoint.method.toLowerCase()] as DescribedOperation | undefined
    const request = operation?.requestBody?.content[bodyTypeOf(endpoint)]
    if (request !== undefined) request.example = (exampleBodies as Readonly<Record<string, unknown>>)[operationId]
    const answer = operation?.responses['200'].content['application/json']
    if (answer !== undefined) answer.example = exampleOf(answer.schema, components)
  }
}

interface DescribedOperation {
  readonly requestBody?: { readonly content: Record<string, { schema: JsonObject; example?: unknown }> }
  readonly responses: {
    readonly '200': { readonly content: Record<string, { schema: JsonObject; example?: unknown }> }
  }
}

/** The interface applies the scheme to every v2 operation. For operations that need no key, its description says "or nothing". */
function describeSecurity(endpoint: Endpoint, selection: Selection): JsonObject[] {
  if (endpoint.access !== 'public') return [{ Authorization: [] }]
  return selection === 'v2' ? [{ Authorization: [] }, {}] : []
}

function describeParameters(endpoint: Endpoint, schemas: SchemaWriter): JsonObject[] {
  return [
    ...listFields('path', endpoint.params, schemas),
    ...listFields('query', endpoint.query, schemas),
    ...(endpoint.idempotent === true ? [{ $ref: '#/components/parameters/Idempotency-Key' }] : []),
    ...(endpoint.answers === 'events' ? [{ $ref: '#/components/parameters/Last-Event-ID' }] : []),
  ]
}

function listFields(where: 'path' | 'query', fields: z.ZodType | undefined, schemas: SchemaWriter): JsonObject[] {
  if (fields === undefined) return []
  const object = schemas.write(fields, 'input')
  const required = (object['required'] ?? []) as readonly string[]
  return Object.entries(object['properties'] as Record<string, JsonObject>).map(([name, field]) => {
    const { description, ...schema } = field
    return {
      name,
      in: where,
      ...(required.includes(name) ? { required: true } : {}),
      ...(description === undefined ? {} : { description }),
      schema,
    }
  })
}

function describeAnswer(endpoint: Endpoint, schemas: SchemaWriter): JsonObject {
  const schema = schemas.write(endpoint.response, 'output')
  const types = endpoint.answers === 'audio' ? Object.values(audioTypes) : [contentTypeOf(endpoint)]
  const content: Record<string, JsonObject> = Object.fromEntries(types.map((type) => [type, { schema }]))
  if (endpoint.chunk !== undefined) {
    content['text/event-stream'] = {
      schema: {
        type: 'string',
        description:
          endpoint.chunk.description ??
          'With `stream: true`: lines of `data: <chunk>`, each a JSON object, ending with `data: [DONE]`.',
        contentMediaType: 'text/event-stream',
        contentSchema: { type: 'array', items: schemas.write(endpoint.chunk, 'output') },
      },
    }
  }
  return { description: 'OK', headers: answerHeaders(endpoint), content }
}

function describeError(endpoint: Endpoint, status: number, schemas: SchemaWriter): JsonObject {
  return {
    description: statusMeanings[status] ?? '',
    headers: answerHeaders(endpoint),
    content: { 'application/json': { schema: schemas.write(errorFormOf(endpoint).schemaOf(status), 'output') } },
  }
}

function answerHeaders(endpoint: Endpoint): JsonObject {
  return {
    'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' },
    ...(isInference(endpoint)
      ? { 'X-Inference-Request-Id': { $ref: '#/components/headers/X-Inference-Request-Id' } }
      : {}),
  }
}

/** Only requests with a body can be too large or of the wrong type. */
export function statusesAnywhere(endpoint: Endpoint): AnywhereStatus[] {
  return anywhereStatuses.filter((status) => endpoint.body !== undefined || (status !== 413 && status !== 415))
}

function sharedResponseName(endpoint: Endpoint, status: AnywhereStatus): string {
  const { name } = errorFormOf(endpoint)
  // The two kinds of operations of one form have different headers.
  const form = isInference(endpoint) ? (name === 'v1' ? 'inference' : name) : name in errorForms ? name : `${name}.plain`
  return `${form === 'v2' ? '' : `${form}.`}${v2Codes[status]}`
}

function describeSharedResponses(entries: readonly [string, Endpoint][], schemas: SchemaWriter): JsonObject {
  const responses: Record<string, JsonObject> = {}
  for (const [, endpoint] of entries) {
    for (const status of statusesAnywhere(endpoint)) {
      const name = sharedResponseName(endpoint, status)
      if (responses[name] !== undefined) continue
      const { headers, ...rest } = describeError(endpoint, status, schemas)
      responses[name] = { ...rest, headers: { ...(headers as JsonObject), ...extraHeaders(status) } }
    }
  }
  return responses
}

function extraHeaders(status: AnywhereStatus): JsonObject {
  const names =
    status === 429
      ? ['Retry-After', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset']
      : status === 503
        ? ['Retry-After']
        : []
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

const sharedParameters = {
  'Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'Repeating a key with the same body returns the first response; with a different body it fails with `idempotency_key_reused`.',
    schema: { type: 'string', minLength: 1, maxLength: limits.idempotencyKeyChars },
  },
  'Last-Event-ID': {
    name: 'Last-Event-ID',
    in: 'header',
    description: 'ID of the last event received; browsers send it automatically when they reconnect.',
    schema: { type: 'string' },
  },
} as const

const sharedHeaders = {
  'X-Request-Id': { description: 'ID of this request in the server logs', schema: { type: 'string' } },
  'Retry-After': { description: 'Seconds to wait', schema: { type: 'integer' } },
  'X-RateLimit-Limit': { description: 'Requests per minute', schema: { type: 'integer' } },
  'X-RateLimit-Remaining': { description: 'Requests left in this minute', schema: { type: 'integer' } },
  'X-RateLimit-Reset': { description: 'Seconds until the limit resets', schema: { type: 'integer' } },
} as const

const inferenceHeaders = {
  'X-Inference-Request-Id': {
    description: 'Pass it to `POST /v2/usage/request-cost` for the exact cost of this request',
    schema: { type: 'string' },
  },
} as const
