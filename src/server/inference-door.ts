/**
 * The inference operations on the wire, as far as they come through node:http: the contract has been checked, the key
 * counted; here they are put into the gateway's words.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { nanoUsdOf, usdToNumber } from '../base/money.ts'
import { fail, type Failure, type Result } from '../base/result.ts'
import { api, type OperationId } from '../contract/api.ts'
import type { BodyOf, Endpoint, ResponseOf } from '../contract/endpoint.ts'
import type { Caller } from '../gateway/call.ts'
import type { ServedModel } from '../gateway/catalog.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { embeddingWork, imageWork, speechWork } from '../gateway/media-work.ts'
import type { MediaWork } from '../gateway/media.ts'
import type { CallHeaders } from '../gateway/trace.ts'
import { failurePage } from './error-page.ts'
import { NodeReply } from './node-reply.ts'

type Api = typeof api

export function inferencePage(failure: Failure): { status: number; body: string } {
  const { status, body } = failurePage(api.createChatCompletion as Endpoint, failure)
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
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value)
  }
  reply.hijack()
  const answer = new NodeReply(reply.raw, inferencePage)
  // As the client wrote it: the schema's defaults are ours, and an engine has its own.
  const body = request.body as Record<string, unknown>
  const refused = await gateway.chat(caller, operation, body, headersOf(request, requestId), answer)
  if (refused !== undefined) answer.refuse(refused)
}

export async function answerMedia(
  gateway: Gateway,
  caller: Caller,
  operation: OperationId,
  parsed: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  requestId: string,
): Promise<Result<unknown>> {
  const work = workOf(operation, parsed, request.body)
  if (work === undefined) return fail('invalid', 'This operation does not run models')
  const gone = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort()
  })
  return gateway.media.run(gateway.catalog, caller, work, headersOf(request, requestId), gone.signal)
}

function workOf(operation: OperationId, parsed: unknown, sent: unknown): MediaWork | undefined {
  switch (operation) {
    case 'createEmbedding':
      return embeddingWork(parsed as BodyOf<Api['createEmbedding']>)
    case 'generateImage':
    case 'generateImageBySecondPath':
      return imageWork(parsed as BodyOf<Api['generateImage']>, new Set(Object.keys(sent as object)))
    case 'generateAudio':
      return speechWork(parsed as BodyOf<Api['generateAudio']>)
    default:
      return undefined
  }
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

function modelView(model: ServedModel): ResponseOf<Api['listModels']>['data'][number] {
  const perMillion = (price: bigint): number => usdToNumber(nanoUsdOf(price))
  return {
    id: model.name,
    object: 'model',
    created: Math.floor(model.createdAt / 1_000),
    owned_by: 'berth',
    context_length: model.contextTokens,
    input_price: perMillion(model.prices.input),
    output_price: perMillion(model.prices.output),
    supports_chat: model.kind === 'chat',
    supports_tools: model.supportsTools,
    supports_image_input: model.supportsImageInput,
    kind: model.kind,
    status: model.notReady !== undefined ? 'loading' : model.deployments.length > 0 ? 'ready' : 'unavailable',
  }
}
