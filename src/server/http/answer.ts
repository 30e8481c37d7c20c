/**
 * One function for each kind of answer that the contract declares (`answers` of an operation). A kind without a function
 * does not compile, nor does an operation without an entry in its kind's table.
 */
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../../app/app.ts'
import { limits } from '../../base/limits.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { Api, OperationId, OperationsAnswering } from '../../contract/api.ts'
import type { AnswerKind, Endpoint, ParamsOf, QueryOf } from '../../contract/endpoint.ts'
import { countRefusal, inferenceCaller, mayStillCall, type AccessOptions, type Admitted } from './access.ts'
import { BodyBuffer } from '../../domain/body-budget.ts'
import { PlainText } from '../../gateway/media/transcript.ts'
import { answerInference, type InferenceWorks } from '../inference/answer-inference.ts'
import { credentialsOf } from './credentials.ts'
import { writerOf } from '../../contract/wire.ts'
import { errorFormOf, type ErrorPage, type InputIssue } from '../../contract/error-form.ts'
import { failurePage, requestIdOf, writePage } from './error-page.ts'
import { resumeAfter, type EventStreamOptions, type EventStreams } from '../events/event-stream.ts'
import type { Download, FormRequest, Handlers } from './handler.ts'
import { isCompressible, sendJson, WrittenEvents, WrittenJson } from './json-answer.ts'
import { openDownload } from '../handlers/file.ts'
import { openMessageBatchResults } from '../handlers/message-batch-results.ts'
import { openJobOutput } from '../handlers/job-output.ts'
import type { LogStreams } from '../handlers/rental-logs.ts'
import { exportUse } from '../handlers/rental-use.ts'
import { readForm, type FormFile } from './multipart.ts'
import { growBodyRoom } from './request-body.ts'
import { validate } from './validation.ts'

export interface AnswerOptions extends AccessOptions {
  readonly handlers: Handlers
  readonly streams: EventStreams
  readonly logs: LogStreams
  readonly works: InferenceWorks
  /** Parses every answer by its schema: for tests and development. */
  readonly checkResponses: boolean
}

/** A request that has passed access control and validation. */
export interface Call {
  readonly operation: OperationId
  readonly endpoint: Endpoint
  readonly caller: Admitted
  readonly input: { readonly params: unknown; readonly query: unknown; readonly body: unknown }
  readonly idempotencyKey: string | undefined
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

type Answer = (options: AnswerOptions, call: Call) => Promise<unknown>

export const answers: { readonly [Kind in AnswerKind]: Answer } = {
  json: async (options, call) => {
    const { operation, endpoint, request, reply } = call
    const result = await runHandler(options, call).catch(rejectedForm)
    if (result instanceof RejectedForm) return send(reply, errorFormOf(endpoint).writeInvalid('body', result.issues))
    if (!result.ok) return sendFailure(options, call, result)
    const { value } = result
    if (value instanceof WrittenEvents) return reply.type('text/event-stream; charset=utf-8').send(value.text)
    const mayCompress = isCompressible(operation, endpoint)
    return sendJson(request, reply, { value, write: writerOf(operation), mayCompress })
  },

  html: async (options, call) => {
    const result = await runHandler(options, call)
    if (!result.ok) return sendFailure(options, call, result)
    return call.reply
      .header('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'; img-src data:")
      .type('text/html; charset=utf-8')
      .send(result.value)
  },

  csv: async (options, call) => {
    const result = await runHandler(options, call)
    if (!result.ok) return sendFailure(options, call, result)
    return call.reply
      .header('Content-Disposition', 'attachment; filename="statement.csv"')
      .type('text/csv; charset=utf-8')
      .send(result.value)
  },

  events: async (options, call) => {
    const { caller, input, request, reply } = call
    const lastId = request.headers['last-event-id']
    const { after } = input.query as { after?: string }
    const stream = {
      of: eventSources[call.operation as keyof typeof eventSources],
      after: resumeAfter(typeof lastId === 'string' ? lastId : undefined, after),
      stillValid: stillValid(options, call),
      credential: `${call.operation} ${JSON.stringify(credentialsOf(request))}`,
    }
    copyHeaders(reply)
    return hijack(options, call, await options.streams.open(caller, stream, reply.raw))
  },

  text: async (options, call) => {
    copyHeaders(call.reply)
    return hijack(options, call, await textStreams[call.operation as keyof typeof textStreams](options, call))
  },

  file: async (options, call) => {
    const opened = await downloads[call.operation as keyof typeof downloads](options.app, call)
    if (!opened.ok) return sendFailure(options, call, opened)
    const { name, bytes, content } = opened.value
    if (bytes !== undefined) call.reply.header('Content-Length', bytes)
    return call.reply
      .header('Content-Disposition', `attachment; filename*=UTF-8''${encodeURIComponent(name)}`)
      .type('application/octet-stream')
      .send(Readable.from(content, { objectMode: false }))
  },

  inference: runModel,
  audio: runModel,
}

const eventSources: { readonly [Op in OperationsAnswering<'events'>]: EventStreamOptions['of'] } = {
  followEvents: 'account',
  followAllEvents: 'everyone',
}

type OpenTextStream = (options: AnswerOptions, call: Call) => Promise<Result<void>>

const textStreams: { readonly [Op in OperationsAnswering<'text'>]: OpenTextStream } = {
  getRentalLogs: (options, call) => {
    const { id } = call.input.params as ParamsOf<Api['getRentalLogs']>
    const query = call.input.query as QueryOf<Api['getRentalLogs']>
    return options.logs.open(call.caller, { id, query, stillValid: stillValid(options, call) }, call.reply.raw)
  },
  exportMetrics: async (options, { caller, reply }) => {
    const text = await exportUse(options.app, caller.accountId)
    reply.raw.writeHead(200, { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' }).end(text)
    return ok(undefined)
  },
}

const downloads: {
  readonly [Op in OperationsAnswering<'file'>]: (app: App, call: Call) => Promise<Result<Download>>
} = {
  downloadFile: (app, { caller, input }) =>
    openDownload(app, caller.accountId, (input.params as ParamsOf<Api['downloadFile']>).id),
  getMessageBatchResults: (app, { caller, input }) =>
    openMessageBatchResults(app, caller.accountId, (input.params as ParamsOf<Api['getMessageBatchResults']>).id),
  downloadJobOutput: (app, { caller, input }) =>
    openJobOutput(
      app,
      caller,
      (input.params as ParamsOf<Api['downloadJobOutput']>).id,
      input.query as QueryOf<Api['downloadJobOutput']>,
    ),
}

async function runModel(options: AnswerOptions, call: Call): Promise<unknown> {
  const { operation, endpoint, caller, request, reply } = call
  const sent = endpoint.takes === 'multipart' ? await readSound(call).catch(rejectedForm) : ok(call.input)
  if (sent instanceof RejectedForm) return send(reply, errorFormOf(endpoint).writeInvalid('body', sent.issues))
  if (!sent.ok) return sendFailure(options, call, sent)
  const result = await answerInference(options, {
    ...sent.value,
    operation: operation as OperationsAnswering<'inference' | 'audio'>,
    caller: inferenceCaller(options, caller),
    request,
    reply,
  })
  if (result === undefined) return reply
  if (!result.ok) return sendFailure(options, call, result)
  if (result.value instanceof PlainText) return reply.type(result.value.type).send(result.value.text)
  if (options.checkResponses) endpoint.response.parse(result.value)
  return sendJson(request, reply, { value: result.value, mayCompress: false })
}

async function runHandler(options: AnswerOptions, call: Call): Promise<Result<unknown>> {
  const { operation, endpoint, caller, request } = call
  const handler = options.handlers[operation as keyof Handlers] as (
    app: App,
    request: FormRequest<OperationId>,
  ) => Promise<Result<unknown>>
  const result = await handler(options.app, {
    ...call.input,
    operation,
    actor: caller,
    allowedModels: 'key' in caller ? caller.key.allowed_models : null,
    requestId: request.id,
    baseUrl: baseUrlOf(request),
    idempotencyKey: call.idempotencyKey,
    address: request.ip,
    readUpload: uploadReader(call),
    setHeader: (name: string, value: string) => void call.reply.header(name, value),
  } as FormRequest<OperationId>)
  if (result.ok && options.checkResponses && !(result.value instanceof WrittenEvents)) {
    const { value } = result
    endpoint.response.parse(
      value instanceof WrittenJson ? JSON.parse(value.bytes.toString()) : writerOf(operation)(value),
    )
  }
  return result
}

/** A recording is read whole: its length is its price. */
async function readSound(call: Call): Promise<Result<{ body: unknown; upload: Buffer }>> {
  const take = async ({ content }: FormFile): Promise<Result<Buffer>> => {
    const buffer = new BodyBuffer(undefined)
    for await (const bytes of content) {
      const refused = growBodyRoom(call.request, bytes.length)
      if (refused !== undefined) return refused
      buffer.add(bytes)
    }
    return buffer.bytes > limits.soundBytes ? fail('body_too_large') : ok(buffer.whole())
  }
  const drop = (): Promise<void> => Promise.resolve()
  const read = await uploadReader(call)({ fileField: 'file', maxBytes: limits.soundBytes }, { take, drop })
  return read.ok ? ok({ body: read.value.body, upload: read.value.file }) : read
}

/** The schema has rejected the fields of a form. */
class RejectedForm extends Error {
  readonly issues: readonly InputIssue[]

  constructor(issues: readonly InputIssue[]) {
    super('a form was rejected')
    this.issues = issues
  }
}

function rejectedForm(error: unknown): RejectedForm {
  if (error instanceof RejectedForm) return error
  throw error
}

function uploadReader({ endpoint, request }: Call): FormRequest<OperationId>['readUpload'] {
  return async (options, { take, drop }) => {
    const form = await readForm(request.raw, options, take)
    if (!form.ok) return form
    const { fields, file } = form.value
    const body = validate(endpoint.body, fields)
    if (body.ok && file !== undefined) return ok({ body: body.value as never, file })
    if (file !== undefined) await drop(file)
    if (!body.ok) throw new RejectedForm(body.issues)
    return failField([options.fileField], 'file_missing')
  }
}

function stillValid(options: AnswerOptions, { endpoint, request }: Call): () => Promise<boolean> {
  const credentials = credentialsOf(request)
  return () => mayStillCall(options, endpoint, credentials)
}

/** Copies the headers for an answer that is written to the raw response. */
function copyHeaders(reply: FastifyReply): void {
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value)
  }
}

/** A stream that has opened owns the socket. */
function hijack(options: AnswerOptions, call: Call, opened: Result<void>): FastifyReply {
  return opened.ok ? call.reply.hijack() : sendFailure(options, call, opened)
}

/** Accepts only characters that are safe in a command line, since the URL is shown in commands to copy. */
export function baseUrlOf(request: FastifyRequest): string | undefined {
  return /^[\w.:[\]-]{1,260}$/.test(request.host) ? `${request.protocol}://${request.host}` : undefined
}

function sendFailure(options: AnswerOptions, { endpoint, request, reply }: Call, failure: Failure): FastifyReply {
  const answer = countRefusal(options, endpoint, failure, request, reply)
  return send(reply, failurePage(endpoint, answer), answer)
}

export function send(reply: FastifyReply, page: ErrorPage, failure?: Failure): FastifyReply {
  if (failure?.retryAfterMs !== undefined) reply.header('Retry-After', Math.ceil(failure.retryAfterMs / 1_000))
  return reply
    .code(page.status)
    .type('application/json; charset=utf-8')
    .send(writePage(page, requestIdOf(reply)))
}
