/** Requests to one server; every failure of `fetch` becomes an error with a kind. */
import { limits } from '../base/limits.ts'
import { apiErrorOf, TransportError, unreachable } from './error.ts'

export interface TransportOptions {
  /** URL of the server: `http://127.0.0.1:8420`, with the path prefix if a proxy adds one. */
  readonly url: string
  /** Without a key only public operations work. */
  readonly key?: string | undefined
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Time limit of a call, including retries. */
  readonly timeoutMs?: number | undefined
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number | undefined
}

export interface Request {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | FormData
}

export interface Transport {
  readonly url: string
  send(request: Request, signal: AbortSignal): Promise<{ response: Response; text: string }>
  /** Opens an event stream. */
  open(request: Request, signal: AbortSignal): Promise<Response>
  /** Ends the work at the timeout or with the caller's signal; the error's kind shows which. */
  within<T>(input: CallOptions, work: (signal: AbortSignal) => Promise<T>): Promise<T>
}

export function openTransport(options: TransportOptions): Transport {
  const url = options.url.replace(/\/+$/, '')
  if (!/^https?:\/\/[^/]/.test(url) || !URL.canParse(url)) {
    throw new TypeError(`"${options.url}" is not an http or https URL`)
  }
  const fetch = options.fetch ?? globalThis.fetch
  const authorization = options.key === undefined ? {} : { Authorization: `Bearer ${options.key}` }

  const start = async ({ path, headers, ...init }: Request, signal: AbortSignal): Promise<Response> => {
    try {
      return await fetch(`${url}${path}`, { ...init, headers: { ...headers, ...authorization }, signal })
    } catch (error) {
      throw unreachable(url, error)
    }
  }
  const readText = async (response: Response): Promise<string> => {
    try {
      return await response.text()
    } catch (error) {
      throw unreachable(url, error)
    }
  }

  return {
    url,
    send: async (request, signal) => {
      const response = await start(request, signal)
      return { response, text: await readText(response) }
    },
    open: async (request, signal) => {
      const response = await start(request, signal)
      if (!response.ok) throw apiErrorOf(response.status, response.headers, await readText(response))
      if (response.headers.get('content-type')?.startsWith('text/event-stream') !== true) throw notBerthServer(url)
      return response
    },
    within: async (input, work) => {
      const timeoutMs = input.timeoutMs ?? options.timeoutMs ?? limits.requestTimeoutMs
      const controller = new AbortController()
      const abort = (): void => controller.abort()
      const timer = setTimeout(abort, timeoutMs)
      input.signal?.addEventListener('abort', abort, { once: true })
      if (input.signal?.aborted === true) abort()
      try {
        return await work(controller.signal)
      } catch (error) {
        if (!controller.signal.aborted) throw error
        if (input.signal?.aborted === true) throw new TransportError('aborted', 'The call was aborted', error)
        throw new TransportError('timeout', `${url} did not respond within ${timeoutMs / 1_000} s`, error)
      } finally {
        clearTimeout(timer)
        input.signal?.removeEventListener('abort', abort)
      }
    },
  }
}

export function parseAnswer(url: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw notBerthServer(url, error)
  }
}

export function notBerthServer(url: string, cause?: unknown): TransportError {
  return new TransportError('garbled', `The server at ${url} is not a Berth server`, cause)
}
