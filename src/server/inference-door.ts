/**
 * The inference operations on the wire, as far as they come through node:http: the contract has been checked, the key
 * counted; here they are put into the gateway's words.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { nanoUsdOf, usdToNumber } from '../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../base/result.ts'
import { api, type OperationId } from '../contract/api.ts'
import type { BodyOf, ResponseOf } from '../contract/endpoint.ts'
import { pictureSide } from '../contract/media.ts'
import type { Caller } from '../gateway/call.ts'
import type { ServedModel } from '../gateway/catalog.ts'
import { isReady } from '../gateway/chat-call.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { bareAudio, embeddingWork, imageWork, speechWork } from '../gateway/media-work.ts'
import { streamMedia } from '../gateway/media-stream.ts'
import type { MediaClient, MediaWork } from '../gateway/media.ts'
import type { CallHeaders } from '../gateway/trace.ts'
import { errorPage, failurePage } from './error-page.ts'
import { NodeReply } from './node-reply.ts'
import { endUnread } from './unread-answer.ts'

type Api = typeof api

export function inferencePage(failure: Failure): { status: number; body: string } {
  const { status, body } = failurePage(api.createChatCompletion, failure)
  return { status, body: JSON.stringify(body) }
}

/** Answers by itself, on the raw response. */
export async function answerChat(
  gateway: Gateway,
  caller: Caller,
  operation: 'chat' | 'completion',
  request: FastifyRequest,
  reply: FastifyReply,
  requestId: string,
): Promise<void> {
  const answer = takeOver(reply)
  const { bodyBytes } = request
  const body = request.body as Record<string, unknown>
  await answered(answer, request, async () => {
    const chat = { operation, body, bodyBytes }
    const refused = await gateway.chat(caller, chat, headersOf(request, requestId), answer)
    if (refused !== undefined) answer.refuse(refused)
  })
}

export interface MediaRequest {
  readonly caller: Caller
  readonly operation: OperationId
  readonly parsed: unknown
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly requestId: string
}

export async function answerMedia(gateway: Gateway, asked: MediaRequest): Promise<Result<unknown>> {
  const { reply } = asked
  const gone = new AbortController()
  const leave = (): void => {
    if (!reply.raw.writableFinished) gone.abort()
  }
  if (reply.raw.destroyed) leave()
  else reply.raw.once('close', leave)
  return runMedia(gateway, asked, { signal: gone.signal })
}

/** With events on the way. Answers by itself, on the raw response. */
export async function streamMediaAnswer(gateway: Gateway, asked: MediaRequest): Promise<void> {
  const answer = takeOver(asked.reply)
  await answered(answer, asked.request, () =>
    streamMedia(answer, {
      run: (onProgress, signal) => runMedia(gateway, asked, { signal, onProgress }),
      errorOf: (failure) => {
        const { error } = failurePage(api.generateImage, failure).body as { error: object }
        return { ...error, code: failure.reason ?? failure.kind }
      },
    }),
  )
}

async function runMedia(gateway: Gateway, asked: MediaRequest, client: MediaClient): Promise<Result<unknown>> {
  const { caller, operation, parsed, request, requestId } = asked
  const work = workOf(operation, parsed, request.body)
  if (!work.ok) return work
  await gateway.whenStarted(work.value.modelName, work.value.kind)
  const answer = await gateway.media.run(gateway.catalog, caller, work.value, headersOf(request, requestId), client)
  endUnread(asked.reply.raw)
  return answer
}

function takeOver(reply: FastifyReply): NodeReply {
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value)
  }
  reply.hijack()
  return new NodeReply(reply.raw, inferencePage)
}

async function answered(answer: NodeReply, request: FastifyRequest, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    // The response is ours by now: nobody else would end it.
    request.log.error({ err: error }, 'request failed')
    if (answer.hasBegun) return answer.abort()
    const page = errorPage('v1', 500, { message: 'Something went wrong here; it was written down' })
    answer.send(page.status, 'application/json; charset=utf-8', JSON.stringify(page.body))
  }
}

type WorkOf<Body> = (body: Body, named: ReadonlySet<string>) => Result<MediaWork>

/** `named`: the parameters that the client has sent, where the others are defaults. */
const works: { readonly [Op in OperationId]?: WorkOf<BodyOf<Api[Op]>> } = {
  createEmbedding: (body) => ok(embeddingWork(body)),
  generateImage: (body, named) => ok(imageWork(body, { named, modelField: 'model_name' })),
  generateImageBySecondPath: secondImageWork,
  generateAudio: (body) => ok(speechWork(body)),
  createSpeech: ({ input: text, model, voice, speed }) => {
    const speaker = typeof voice === 'string' ? voice : voice?.id
    return ok(bareAudio(speechWork({ text, model, speaker, speed: speed ?? 1 })))
  },
}

function workOf(operation: OperationId, parsed: unknown, sent: unknown): Result<MediaWork> {
  const work = works[operation] as WorkOf<unknown> | undefined
  if (work === undefined) return fail('invalid', 'This operation does not run models')
  return work(parsed, new Set(Object.keys(sent as object)))
}

/** The names of the OpenAI convention beside ours: which of two is needed is more than a schema of fields can say. */
function secondImageWork(
  body: BodyOf<Api['generateImageBySecondPath']>,
  named: ReadonlySet<string>,
): Result<MediaWork> {
  const { model_name, model, size, n, response_format: format, stream: _stream, ...rest } = body
  const name = model_name ?? model
  if (name === undefined) return failField(['model'], 'Name the model that is to make the picture', 'model_missing')
  const sides = readSize(size)
  if (sides === undefined) {
    return failField(['size'], 'Width and height, as in 512x512, with 128 to 2496 pixels each', 'bad_size')
  }
  // A side that was named comes before one that is a part of the size.
  const width = named.has('width') ? body.width : (sides.width ?? body.width)
  const height = named.has('height') ? body.height : (sides.height ?? body.height)
  const modelField = model_name === undefined ? 'model' : 'model_name'
  const form = { named, modelField, data: format ?? 'b64_json', count: n ?? 1 } as const
  return ok(imageWork({ ...rest, model_name: name, width, height }, form))
}

function readSize(size: string | null | undefined): { width?: number; height?: number } | undefined {
  if (size === undefined || size === null || size === 'auto') return {}
  const [, width, height] = /^(\d{1,5})x(\d{1,5})$/.exec(size) ?? []
  const sides = { width: Number(width), height: Number(height) }
  return pictureSide.safeParse(sides.width).success && pictureSide.safeParse(sides.height).success ? sides : undefined
}

function headersOf(request: FastifyRequest, requestId: string): CallHeaders {
  const text = (name: string): string | undefined => {
    const value = request.headers[name]
    return typeof value === 'string' ? value : undefined
  }
  return { requestId, traceparent: text('traceparent'), session: text('x-session-id') }
}

export function listServedModels(gateway: Gateway, caller: Caller): ResponseOf<Api['listModels']> {
  const models = [...gateway.catalog.values()].filter(
    (model) => caller.allowedModels === null || caller.allowedModels.includes(model.name),
  )
  return { object: 'list', data: models.map(modelView) }
}

export function findServedModel(gateway: Gateway, caller: Caller, id: string): Result<ResponseOf<Api['getModel']>> {
  const model = caller.allowedModels === null || caller.allowedModels.includes(id) ? gateway.catalog.get(id) : undefined
  if (model !== undefined) return ok(modelView(model))
  return fail('not_found', `The model ${JSON.stringify(id)} does not exist; GET /v1/models lists those that do`, {
    reason: 'model_not_found',
  })
}

function modelView(model: ServedModel): ResponseOf<Api['listModels']>['data'][number] {
  const perMillion = (price: bigint): number => usdToNumber(nanoUsdOf(price))
  return {
    id: model.name,
    object: 'model',
    created: Math.floor(model.createdAt / 1_000),
    owned_by: 'berth',
    context_length: model.contextTokens,
    ...(model.kind === 'image'
      ? { input_price: null, output_price: null, pixel_step_price: perMillion(model.prices.pixelStep) }
      : { input_price: perMillion(model.prices.input), output_price: perMillion(model.prices.output) }),
    supports_chat: model.kind === 'chat',
    supports_tools: model.supportsTools,
    supports_image_input: model.supportsImageInput,
    kind: model.kind,
    status: statusOf(model),
  }
}

function statusOf(model: ServedModel): 'ready' | 'loading' | 'unavailable' {
  if (isReady(model)) return 'ready'
  return model.notReady === undefined || model.notReady.phase === 'failed' ? 'unavailable' : 'loading'
}
