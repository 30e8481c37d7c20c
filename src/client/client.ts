/**
 * The typed client, derived from the contract: `client.call('createApiKey', { body })` has the types of the endpoint
 * table. It uses no generated code and nothing from Node, so that the console and the CLI share it.
 *
 * Responses are not validated: a newer server can send fields that this client does not know.
 */
import type { Instant } from '../base/instant.ts'
import type { Api, OperationId, OperationsAnswering } from '../contract/api.ts'
import {
  contentTypeOf,
  type BodyInputOf,
  type ParamsOf,
  type QueryInputOf,
  type QueryOf,
  type ReplyOf,
} from '../contract/endpoint.ts'
import type { AccountEvent, EventRecord } from '../contract/event.ts'
import { routes, type Route } from '../contract/routes.ts'
import { apiErrorOf, isTransient } from './error.ts'
import { followEvents, type EventSource, type FollowOptions } from './follow.ts'
import {
  MODEL_TIMEOUT_MS,
  openChunks,
  requestIdOf,
  type Chunk,
  type ChunkStream,
  type InferenceAnswer,
  type InferenceId,
  type InferenceInput,
  type StreamId,
} from './inference.ts'
import { pause } from './pause.ts'
import {
  notBerthServer,
  openTransport,
  parseAnswer,
  type CallOptions,
  type Request,
  type TransportOptions,
} from './transport.ts'

const ATTEMPTS = 3
const FIRST_DELAY_MS = 150

export interface Client {
  readonly url: string
  /** Throws a `ClientError` (error.ts). */
  call<Op extends CallableId>(operation: Op, ...input: CallArguments<Op>): Promise<Reply<Op>>
  /** Sends a form, as operations with a file take it. The same key never uploads twice. */
  callForm<Op extends FormId>(
    operation: Op,
    form: FormData,
    options: CallOptions & { readonly idempotencyKey: string },
  ): Promise<Reply<Op>>
  /** Runs a model; returns the request ID with the response. */
  infer<Op extends InferenceId>(operation: Op, input: InferenceInput<Op>): Promise<InferenceAnswer<Reply<Op>>>
  /** The same as `callForm` for a model; returns the request ID with the response. */
  inferForm<Op extends InferenceId>(
    operation: Op,
    form: FormData,
    options?: CallOptions,
  ): Promise<InferenceAnswer<Reply<Op>>>
  /** The same as `infer`, as a stream. `timeoutMs` limits the time without data. */
  stream<Op extends StreamId>(operation: Op, input: InferenceInput<Op>): Promise<ChunkStream<Chunk<Op>>>
  /** The events of the account, without gaps across reconnections. */
  follow(options?: FollowOptions): AsyncGenerator<EventRecord, void>
  /** The same for the events of every account. For operators. */
  followAll(options?: FollowOptions): AsyncGenerator<AccountEvent, void>
  /** Whether the server and its dependencies are up. Needs no key. */
  ready(options?: CallOptions): Promise<Readiness>
}

export interface Readiness {
  readonly ok: boolean
  /** Per component: `ok` or the fault. */
  readonly checks: Readonly<Record<string, string>>
}

/** Event streams use `follow` instead. */
export type CallableId = Exclude<OperationId, OperationsAnswering<'events'>>
/** Operations that take a file and run no model. */
type FormId = 'uploadFile'
export type Reply<Op extends CallableId> = ReplyOf<Api[Op]>

export type CallInput<Op extends CallableId> = Part<'params', ParamsOf<Api[Op]>> &
  Part<'query', QueryOnWire<QueryInputOf<Api[Op]>, QueryOf<Api[Op]>>> &
  Part<'body', BodyInputOf<Api[Op]>> &
  CallOptions & {
    /** For creates: the same key never creates twice, so the call can be retried when its outcome is unknown. */
    readonly idempotencyKey?: string | undefined
  }

type CallArguments<Op extends CallableId> =
  Partial<CallInput<Op>> extends CallInput<Op> ? [input?: CallInput<Op>] : [input: CallInput<Op>]

/** A part that the operation does not have is forbidden; one with only optional fields can be left out. */
type Part<Name extends string, T> = [T] extends [undefined]
  ? { readonly [name in Name]?: never }
  : Partial<T> extends T
    ? { readonly [name in Name]?: T }
    : { readonly [name in Name]: T }

/** Queries are text on the wire. Callers pass the parsed types (number, boolean) where a field is optional. */
type QueryOnWire<Input, Output> = [Input] extends [undefined]
  ? undefined
  : { [name in keyof Input]: name extends keyof Output ? TextOr<Input[name], Output[name]> : never }

/** A time is a text for clients. */
type TextOr<Input, Output> = Exclude<Output, undefined> extends Instant ? Input : Output

type Values = Readonly<Record<string, string | number | boolean | undefined>>

interface LooseInput extends CallOptions {
  readonly params?: Values | undefined
  readonly query?: Values | undefined
  readonly body?: unknown
  /** A form that is sent instead of a body. */
  readonly form?: FormData | undefined
  readonly idempotencyKey?: string | undefined
  readonly sessionId?: string | undefined
}

export function makeClient(options: TransportOptions): Client {
  const transport = openTransport(options)
  const call = async (operation: OperationId, input: LooseInput = {}): Promise<unknown> => {
    const route = routes[operation]
    const request = buildRequest(route, input)
    const repeatable = route.method === 'GET' || input.idempotencyKey !== undefined
    return transport.within(input, (signal) =>
      repeat(repeatable ? ATTEMPTS : 1, signal, async () => {
        const { response, text } = await transport.send(request, signal)
        if (!response.ok) throw apiErrorOf(response.status, response.headers, text)
        return contentTypeOf(route) === 'application/json' ? parseAnswer(transport.url, text) : text
      }),
    )
  }
  const sourceOf = (list: 'listEvents' | 'listAllEvents', stream: Route): EventSource => ({
    newestId: async (signal) => {
      const page = (await call(list, { query: { limit: 1 }, signal })) as Reply<typeof list>
      return page.events[0]?.id ?? '0'
    },
    open: (after, signal) => transport.open(buildRequest(stream, { query: { after } }), signal),
  })
  const inferOnce = (request: Request, input: CallOptions): Promise<InferenceAnswer<unknown>> =>
    transport.within({ timeoutMs: MODEL_TIMEOUT_MS, ...input }, async (signal) => {
      const { response, text } = await transport.send(request, signal)
      if (!response.ok) throw apiErrorOf(response.status, response.headers, text)
      return { requestId: requestIdOf(response), answer: parseAnswer(transport.url, text) }
    })
  return {
    url: transport.url,
    call: call as Client['call'],
    callForm: ((operation: FormId, form: FormData, input: LooseInput) =>
      call(operation, { ...input, form })) as Client['callForm'],
    infer: ((operation: InferenceId, input: LooseInput) =>
      inferOnce(buildRequest(routes[operation], input), input)) as Client['infer'],
    inferForm: ((operation: InferenceId, form: FormData, input: CallOptions = {}) =>
      inferOnce(buildRequest(routes[operation], { form }), input)) as Client['inferForm'],
    stream: (operation: StreamId, input: LooseInput & { readonly body: object }) => {
      const request = buildRequest(routes[operation], { ...input, body: { ...input.body, stream: true } })
      return openChunks(transport, request, input)
    },
    follow: (input = {}) => followEvents(sourceOf('listEvents', routes.followEvents), input),
    followAll: (input = {}) =>
      followEvents(sourceOf('listAllEvents', routes.followAllEvents), input) as AsyncGenerator<AccountEvent, void>,
    ready: (input = {}) =>
      transport.within(input, async (signal) => {
        const { response, text } = await transport.send({ method: 'GET', path: '/readyz', headers: {} }, signal)
        const answer = parseAnswer(transport.url, text) as { checks?: Record<string, string> }
        if (answer.checks === undefined) throw notBerthServer(transport.url)
        return { ok: response.ok, checks: answer.checks }
      }),
  }
}

function buildRequest(route: Route, input: LooseInput): Request {
  const { idempotencyKey, sessionId, body, form } = input
  if (idempotencyKey !== undefined && route.idempotent !== true) {
    throw new TypeError(`${route.method} ${route.path} takes no idempotency key`)
  }
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(input.query ?? {})) {
    if (value !== undefined) query.set(name, String(value))
  }
  return {
    method: route.method,
    path: fillPath(route.path, input.params ?? {}) + (query.size === 0 ? '' : `?${query.toString()}`),
    headers: {
      Accept: contentTypeOf(route),
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...(idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey }),
      ...(sessionId === undefined ? {} : { 'X-Session-Id': sessionId }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(form === undefined ? {} : { body: form }),
  }
}

function fillPath(path: string, params: Values): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(params[name] ?? '')
    // Even encoded, dots mean "here" and "up" in a URL: the call would reach another operation.
    if (/^\.{0,2}$/.test(value)) throw new TypeError(`"${value}" cannot be the ${name} in ${path}`)
    return encodeURIComponent(value)
  })
}

async function repeat<T>(attempts: number, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work()
    } catch (error) {
      if (attempt >= attempts || !isTransient(error) || signal.aborted) throw error
      await pause(FIRST_DELAY_MS * 2 ** (attempt - 1), signal)
    }
  }
}
