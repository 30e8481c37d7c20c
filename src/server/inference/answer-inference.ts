/**
 * Inference requests on the full path: access and schema are checked; here they become work for the gateway, and its
 * answers become HTTP.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../base/instant.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { api, type Api, type OperationsAnswering } from '../../contract/api.ts'
import type { BodyOf, Endpoint } from '../../contract/endpoint.ts'
import { imageSide } from '../../contract/media.ts'
import type { Caller } from '../../gateway/call.ts'
import { chat } from '../../gateway/dialect/chat.ts'
import { completion } from '../../gateway/dialect/completion.ts'
import { message } from '../../gateway/dialect/message.ts'
import type { Dialect } from '../../gateway/dialect/dialect.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { embeddingWork, imageWork } from '../../gateway/media/media-work.ts'
import { rerankWork } from '../../gateway/media/rerank.ts'
import { openaiImageEvents } from '../../gateway/media/image-events.ts'
import { streamMedia, type MediaEvents } from '../../gateway/media/media-stream.ts'
import { speechFileWork, speechWork } from '../../gateway/media/speech.ts'
import { streamSpeech } from '../../gateway/media/speech-stream.ts'
import { transcriptEvents, transcriptionWork } from '../../gateway/media/transcription.ts'
import type { MediaClient, MediaWork } from '../../gateway/media/media.ts'
import type { CallHeaders } from '../../gateway/upstream/trace.ts'
import { failurePage, requestIdOf, writePage } from '../http/error-page.ts'
import { NodeReply } from '../http/node-reply.ts'
import { endUnread } from '../http/unread-answer.ts'

export type InferenceOperation = OperationsAnswering<'inference' | 'audio'>

/** Writes failures in the form of the operation. */
export function inferencePages(
  operation: InferenceOperation,
  requestId = '',
): (failure: Failure) => { status: number; body: string } {
  return (failure) => {
    const page = failurePage(api[operation], failure)
    return { status: page.status, body: writePage(page, requestId) }
  }
}

export interface InferenceCall {
  readonly operation: InferenceOperation
  readonly caller: Caller
  /** The contract's schema has parsed it; `request.body` has it as it was sent. */
  readonly body: unknown
  /** The file of a form. */
  readonly upload?: Buffer | undefined
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

export interface InferenceOptions {
  readonly gateway: Gateway
  readonly works: InferenceWorks
}

/** undefined: the answer was written to the raw response. */
export async function answerInference(
  { gateway, works }: InferenceOptions,
  call: InferenceCall,
): Promise<Result<unknown> | undefined> {
  const work = works[call.operation] as Dialect | WorkOf<unknown>
  if (typeof work !== 'function') {
    await answerChat(gateway, work, call)
    return undefined
  }
  const named = new Set(Object.keys((call.request.body ?? call.body) as object))
  const media = work(call.body, named, call.upload ?? Buffer.alloc(0))
  if (call.operation === 'createSpeech') {
    await streamSpeechAnswer(gateway, media, call)
    return undefined
  }
  if (isStreamed(call)) {
    await streamMediaAnswer(gateway, media, call)
    return undefined
  }
  const gone = new AbortController()
  const { raw } = call.reply
  const leave = (): void => {
    if (!raw.writableFinished) gone.abort()
  }
  if (raw.destroyed) leave()
  else raw.once('close', leave)
  return runMedia(gateway, media, call, { signal: gone.signal })
}

function isStreamed({ operation, body }: InferenceCall): boolean {
  const endpoint: Endpoint = api[operation]
  // A form has texts only.
  return endpoint.chunk !== undefined && [true, 'true'].includes((body as { stream?: true | 'true' }).stream ?? '')
}

async function answerChat(
  gateway: Gateway,
  dialect: Dialect,
  { operation, caller, request, reply }: InferenceCall,
): Promise<void> {
  const requestId = requestIdOf(reply)
  const answer = takeOver(operation, reply)
  const { bodyBytes } = request
  const body = request.body as Record<string, unknown>
  await answered(answer, request, async () => {
    const nameIgnored = (names: readonly string[]): void => answer.nameIgnored(names)
    const client = { dialect, body, bodyBytes, nameIgnored }
    const refused = await gateway.chat(caller, client, headersOf(request, requestId), answer)
    if (refused !== undefined) answer.refuse(refused)
  })
}

async function streamMediaAnswer(gateway: Gateway, work: Result<MediaWork>, call: InferenceCall): Promise<void> {
  const answer = takeOver(call.operation, call.reply)
  await answered(answer, call.request, () =>
    streamMedia(answer, {
      run: (onProgress, signal) => runMedia(gateway, work, call, { signal, onProgress }),
      errorOf: streamErrorOf(call),
      events: work.ok ? eventsOf(call, work.value, gateway.clock) : undefined,
    }),
  )
}

/** undefined: our own. */
function eventsOf({ operation }: InferenceCall, work: MediaWork, clock: Clock): MediaEvents | undefined {
  if (operation === 'createTranscription') return transcriptEvents()
  if (operation !== 'generateImageBySecondPath') return undefined
  // The sides of the request are not those of the image where its `size` says other ones.
  const sides = work.body as { readonly width: number; readonly height: number }
  return openaiImageEvents(sides, clock)
}

async function streamSpeechAnswer(gateway: Gateway, work: Result<MediaWork>, call: InferenceCall): Promise<void> {
  const answer = takeOver(call.operation, call.reply)
  const { response_format: format, stream_format: form, input } = call.body as BodyOf<Api['createSpeech']>
  await answered(answer, call.request, () =>
    streamSpeech(answer, {
      format: format ?? 'mp3',
      asEvents: form === 'sse',
      characters: Array.from(input).length,
      run: (client) => runMedia(gateway, work, call, client),
      errorOf: streamErrorOf(call),
    }),
  )
}

function streamErrorOf({ operation }: InferenceCall): (failure: Failure) => unknown {
  return (failure) => {
    const { error } = failurePage(api[operation], failure).body as { error: object }
    return { ...error, code: failure.reason ?? failure.kind }
  }
}

async function runMedia(
  gateway: Gateway,
  work: Result<MediaWork>,
  { caller, request, reply }: InferenceCall,
  client: MediaClient,
): Promise<Result<unknown>> {
  if (!work.ok) return work
  await gateway.whenKnown(work.value.modelName, caller)
  await gateway.whenStarted(work.value.modelName, work.value.kind)
  const headers = headersOf(request, requestIdOf(reply))
  const answer = await gateway.media.run(gateway.catalog, caller, work.value, headers, client)
  endUnread(reply.raw)
  return answer
}

function takeOver(operation: InferenceOperation, reply: FastifyReply): NodeReply {
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value)
  }
  reply.hijack()
  return new NodeReply(reply.raw, inferencePages(operation, requestIdOf(reply)))
}

async function answered(answer: NodeReply, request: FastifyRequest, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    // The response is hijacked: nobody else would end it.
    request.log.error({ err: error }, 'request failed')
    if (answer.hasBegun) return answer.abort()
    answer.refuse(fail('internal_error'))
  }
}

/** `named`: the parameters that the client sent; the others are defaults. */
export type WorkOf<Body> = (body: Body, named: ReadonlySet<string>, upload: Buffer) => Result<MediaWork>

export type InferenceWorks = { readonly [Op in InferenceOperation]: Dialect | WorkOf<BodyOf<Api[Op]>> }

/** Dialects that need more than the request are made by the caller. */
export function makeInferenceWorks(dialects: Pick<InferenceWorks, 'createResponse'>): InferenceWorks {
  return { ...works, ...dialects }
}

export const works: Omit<InferenceWorks, 'createResponse'> = {
  createChatCompletion: chat,
  createCompletion: completion,
  createMessage: message,
  createEmbedding: (body) => ok(embeddingWork(body)),
  rerank: (body) => ok(rerankWork(body)),
  rerankBySecondPath: (body) => ok(rerankWork(body)),
  rerankByThirdPath: (body) => ok(rerankWork(body)),
  generateImage: (body, named) => ok(imageWork(body, { named, modelField: 'model_name' })),
  generateImageBySecondPath: secondImageWork,
  generateAudio: (body) => ok(speechWork(body)),
  createTranscription: (body, _named, upload) => transcriptionWork(body, upload),
  createSpeech: ({ input: text, model, voice, speed, response_format: format }) => {
    const speaker = typeof voice === 'string' ? voice : voice?.id
    return ok(speechFileWork({ text, model, speaker, speed: speed ?? 1 }, format ?? 'mp3'))
  },
}

/** Also takes the OpenAI names. A schema of fields cannot say that one of two names is required. */
function secondImageWork(
  body: BodyOf<Api['generateImageBySecondPath']>,
  named: ReadonlySet<string>,
): Result<MediaWork> {
  const { model_name, model, size, n, response_format: format, stream, partial_images: partials, ...rest } = body
  const name = model_name ?? model
  if (name === undefined) return failField(['model'], 'model_missing')
  const sides = readSize(size)
  if (sides === undefined) {
    return failField(['size'], 'bad_size')
  }
  // An explicit side wins over the one in `size`.
  const width = named.has('width') ? body.width : (sides.width ?? body.width)
  const height = named.has('height') ? body.height : (sides.height ?? body.height)
  const modelField = model_name === undefined ? 'model' : 'model_name'
  const count = n ?? 1
  const form = {
    named,
    modelField,
    data: format ?? 'b64_json',
    count,
    // An event does not name its image, so unfinished ones of several images could not be told apart.
    partials: stream === true && count === 1 ? (partials ?? 0) : 0,
  } as const
  return ok(imageWork({ ...rest, model_name: name, width, height }, form))
}

function readSize(size: string | null | undefined): { width?: number; height?: number } | undefined {
  if (size === undefined || size === null || size === 'auto') return {}
  const [, width, height] = /^(\d{1,5})x(\d{1,5})$/.exec(size) ?? []
  const sides = { width: Number(width), height: Number(height) }
  return imageSide.safeParse(sides.width).success && imageSide.safeParse(sides.height).success ? sides : undefined
}

function headersOf(request: FastifyRequest, requestId: string): CallHeaders {
  const text = (name: string): string | undefined => {
    const value = request.headers[name]
    return typeof value === 'string' ? value : undefined
  }
  return { requestId, traceparent: text('traceparent'), session: text('x-session-id') }
}
