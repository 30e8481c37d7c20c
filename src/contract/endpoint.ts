/**
 * An endpoint is a value. The table of endpoints (`api.ts`) is the only source of the handlers' types, validation, the
 * typed client, the OpenAPI descriptions, the reference at /docs and the authorisation tests.
 */
import type { z } from 'zod'
import type { ErrorForm, Family } from './error-form.ts'

export const scopes = [
  'inference',
  'compute:read',
  'compute:write',
  'billing:read',
  'billing:write',
  'keys',
  'supply',
  'operator',
] as const
export type Scope = (typeof scopes)[number]

/**
 * `public`: no key. `any-key`: any valid key. `person`: a person who is signed in to the console, also without an account; no
 * key. Otherwise: a key with one of the scopes.
 */
export type Access = 'public' | 'any-key' | 'person' | readonly [Scope, ...Scope[]]

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export type ErrorStatus = 400 | 401 | 402 | 403 | 404 | 422 | 500

/**
 * The kinds of responses. `json` and `html` come from a handler. `csv` is written line by line. `file` is a download of any
 * size. `text` and `events` are streams that own their socket.
 * `inference` and `audio` come from the gateway and have `X-Inference-Request-Id`; `inference` is JSON, or a stream of
 * `chunk` events when the body has `stream: true`.
 */
const contentTypes = {
  json: 'application/json',
  html: 'text/html',
  csv: 'text/csv',
  text: 'text/plain',
  events: 'text/event-stream',
  inference: 'application/json',
  audio: 'audio/mpeg',
  file: 'application/octet-stream',
} as const
export type AnswerKind = keyof typeof contentTypes

export interface Endpoint<
  Params extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
  Response extends z.ZodType = z.ZodType,
  Chunk extends z.ZodType = z.ZodType,
  Answers extends AnswerKind = AnswerKind,
> {
  readonly method: Method
  /** With `{name}` for path parameters, as OpenAPI writes them. */
  readonly path: string
  /** The last path parameter takes the rest of the path, including slashes. */
  readonly restOfPath?: true
  readonly family: Family
  readonly tag: Tag
  readonly access: Access
  readonly summary: string
  readonly description?: string
  /** Statuses of this operation besides 200. Any path can return 413, 415, 429 and 503, and 404 for an unknown path. */
  readonly errors: readonly ErrorStatus[]
  /** How they are written: as in its family, unless its protocol has a form of its own. */
  readonly errorForm?: ErrorForm
  readonly params?: Params
  readonly query?: Query
  readonly body?: Body
  /** How the body is sent. Absent: as JSON. `multipart`: a form whose field `file` is streamed (server/http/multipart.ts). */
  readonly takes?: 'multipart'
  /** The longest body, where it is not that of all operations of its kind. */
  readonly maxBytes?: number
  /** A body to show and to send in tests: of inference operations, whose examples need nothing but a model. */
  readonly example?: z.input<Body>
  readonly response: Response
  /** Schema of each `data:` line with `stream: true`; without it the operation cannot stream. */
  readonly chunk?: Chunk
  readonly answers: Answers
  /** A create: takes an `Idempotency-Key` header. */
  readonly idempotent?: true
  /** In the console it needs a sign-in of the last minutes (`limits.recentSignInMs`). Keys need nothing more. */
  readonly needsRecentSignIn?: true
  /** It orders something: an owner of the account must have accepted the operator's newest terms. */
  readonly needsTerms?: true
}

type EndpointInput<E extends Endpoint> = Omit<E, 'answers'> & Partial<Pick<E, 'answers'>>

export const tags = [
  'Rentals',
  'Storage volumes',
  'Usage and billing',
  'Marketplace',
  'Jobs',
  'Inference',
  'Deployments',
  'Account',
  'Secrets',
  'Templates',
  'Events and webhooks',
  'Supply',
  'Operator',
  'Description',
] as const
export type Tag = (typeof tags)[number]

export function endpoint<
  Params extends z.ZodType = z.ZodUndefined,
  Query extends z.ZodType = z.ZodUndefined,
  Body extends z.ZodType = z.ZodUndefined,
  Response extends z.ZodType = z.ZodType,
  Chunk extends z.ZodType = z.ZodUndefined,
  Answers extends AnswerKind = 'json',
>(
  value: EndpointInput<Endpoint<Params, Query, Body, Response, Chunk, Answers>>,
): Endpoint<Params, Query, Body, Response, Chunk, Answers> {
  return { answers: 'json' as Answers, ...value }
}

export function contentTypeOf({ answers }: Pick<Endpoint, 'answers'>): (typeof contentTypes)[AnswerKind] {
  return contentTypes[answers]
}

/** Served by the gateway, with a cost. */
export function isInference({ answers }: Endpoint): boolean {
  return answers === 'inference' || answers === 'audio'
}

/** A handler has values, such as `NanoUsd` and `Instant`; a client has what is on the wire (`Input`, `Reply`). */
export type ParamsOf<E> = E extends Endpoint<infer P> ? z.output<P> : never
export type QueryOf<E> = E extends Endpoint<z.ZodType, infer Q> ? z.output<Q> : never
export type BodyOf<E> = E extends Endpoint<z.ZodType, z.ZodType, infer B> ? z.output<B> : never
export type BodyInputOf<E> = E extends Endpoint<z.ZodType, z.ZodType, infer B> ? z.input<B> : never
export type QueryInputOf<E> = E extends Endpoint<z.ZodType, infer Q> ? z.input<Q> : never
export type ResponseOf<E> = E extends Endpoint<z.ZodType, z.ZodType, z.ZodType, infer R> ? z.output<R> : never
export type ReplyOf<E> = E extends Endpoint<z.ZodType, z.ZodType, z.ZodType, infer R> ? z.input<R> : never
export type ChunkOf<E> = E extends Endpoint<z.ZodType, z.ZodType, z.ZodType, z.ZodType, infer C> ? z.output<C> : never
