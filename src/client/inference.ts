/**
 * Inference requests. Besides the response a caller needs the request ID to look up its cost, and responses can be
 * streamed. Nothing is retried here: every response costs money.
 */
import type { Api, OperationsAnswering } from '../contract/api.ts'
import type { BodyInputOf, ChunkOf } from '../contract/endpoint.ts'
import { ApiError, isClientError, TransportError, unreachable } from './error.ts'
import { readMessages } from './sse.ts'
import { parseAnswer, type CallOptions, type Request, type Transport } from './transport.ts'

/** Servers have their own timeouts and report them. This one is for servers that have disappeared. */
export const MODEL_TIMEOUT_MS = 3_600_000
/** An image of the maximum size is sent as one line. */
const CHUNK_CHARS = 64 * 1_048_576
/** Status for an error in a stream: the response had already started with 200. */
const BROKEN_STATUS = 502

/** Operations that run a model and return JSON. Speech is `generateAudio`: `createSpeech` returns raw audio. */
export type InferenceId = OperationsAnswering<'inference'>
/** Operations that can stream. */
export type StreamId = { [Op in InferenceId]: ChunkOf<Api[Op]> extends undefined ? never : Op }[InferenceId]

export interface InferenceInput<Op extends InferenceId> extends CallOptions {
  readonly body: BodyInputOf<Api[Op]>
  /** Requests of one conversation go to the engine that has its prefix cached. */
  readonly sessionId?: string | undefined
}

export interface InferenceAnswer<T> {
  /** The id for `getRequestCost` and `getInferenceRequest`. */
  readonly requestId: string
  readonly answer: T
}

/** Error events are thrown as an `ApiError`. */
export type Chunk<Op extends StreamId> = Exclude<ChunkOf<Api[Op]>, { readonly type: 'error' }>

/** Yields each chunk once. Read it to the end or `break`; `signal` cancels it at any time. */
export interface ChunkStream<T> extends AsyncIterable<T> {
  readonly requestId: string
}

export function requestIdOf(response: Response): string {
  return response.headers.get('x-inference-request-id') ?? ''
}

export async function openChunks<T>(
  transport: Transport,
  request: Request,
  { signal, timeoutMs = MODEL_TIMEOUT_MS }: CallOptions,
): Promise<ChunkStream<T>> {
  const connection = new AbortController()
  const end = (): void => connection.abort()
  signal?.addEventListener('abort', end, { once: true })
  const close = (): void => signal?.removeEventListener('abort', end)
  const problemOf = (error: unknown): unknown => {
    if (signal?.aborted === true) return new TransportError('aborted', 'The call was aborted', error)
    if (connection.signal.aborted) {
      return new TransportError('timeout', `${transport.url} sent nothing for ${timeoutMs / 1_000} s`, error)
    }
    return isClientError(error) ? error : unreachable(transport.url, error)
  }
  const opening = setTimeout(end, timeoutMs)
  try {
    if (signal?.aborted === true) end()
    const response = await transport.open(request, connection.signal)
    const requestId = requestIdOf(response)
    const read = async function* (): AsyncGenerator<T, void> {
      const options = { maxChars: CHUNK_CHARS, silenceMs: timeoutMs, onSilence: end }
      try {
        for await (const { data } of readMessages(response, options)) {
          if (data === '[DONE]') return
          yield readChunk(transport.url, data, requestId) as T
        }
        throw new TransportError('unreachable', 'The response was interrupted')
      } catch (error) {
        throw problemOf(error)
      } finally {
        close()
      }
    }
    return { requestId, [Symbol.asyncIterator]: read }
  } catch (error) {
    close()
    throw problemOf(error)
  } finally {
    clearTimeout(opening)
  }
}

interface ErrorChunk {
  readonly error?: { readonly message: string; readonly type: string; readonly code: string | null } | null
}

function readChunk(url: string, data: string, requestId: string): unknown {
  const value = parseAnswer(url, data)
  const { error } = value as ErrorChunk
  if (error === undefined || error === null) return value
  const { message, type, code } = error
  throw new ApiError(message, {
    status: BROKEN_STATUS,
    code: type,
    issues: [],
    requestId,
    ...(code === null ? {} : { reason: code }),
  })
}
