/**
 * Calls to identity providers. Each has a limit of time and size. What the owner of an account has set up is called at
 * public addresses and over HTTPS only.
 */
import { fetch as request, type Dispatcher, type BodyInit } from 'undici'
import { outboundAgent } from '../../base/net/outbound.ts'
import { limits } from '../../base/limits.ts'

/** The provider did not answer as a provider: the cause is at its side or in between. */
export class ProviderUnreachable extends Error {}

/** The part of a request that openid-client and we set. */
export interface ProviderRequest {
  readonly method?: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: ArrayBuffer | ReadableStream | Uint8Array | URLSearchParams | string | null | undefined
}

export type ProviderFetch = (url: string, init: ProviderRequest) => Promise<Response>

export class ProviderHttp {
  readonly #open: Dispatcher
  readonly #guarded: Dispatcher
  readonly #timeoutMs: number

  constructor({ timeoutMs = limits.ssoTimeoutMs }: { readonly timeoutMs?: number | undefined } = {}) {
    this.#timeoutMs = timeoutMs
    this.#open = outboundAgent({ allowPrivate: true, timeoutMs })
    this.#guarded = outboundAgent({ allowPrivate: false, timeoutMs })
  }

  /** `allowPrivate`: the operator has set the provider up. */
  fetchFor(allowPrivate: boolean): ProviderFetch {
    const dispatcher = allowPrivate ? this.#open : this.#guarded
    return (url, init) => this.#fetch(url, init, dispatcher, allowPrivate)
  }

  async #fetch(url: string, init: ProviderRequest, dispatcher: Dispatcher, allowPrivate: boolean): Promise<Response> {
    if (!isProviderUrl(url, allowPrivate)) throw new ProviderUnreachable(`${hostOf(url)} is not called without HTTPS`)
    const signal = AbortSignal.timeout(this.#timeoutMs)
    try {
      const { method = 'GET', headers, body } = init
      const sent = body instanceof URLSearchParams ? body.toString() : (body as BodyInit)
      const answer = await request(url, { method, headers, body: sent, signal, dispatcher, redirect: 'manual' })
      if (answer.status >= 500) {
        await answer.body?.cancel()
        throw new ProviderUnreachable(`${hostOf(url)} answered with status ${answer.status}`)
      }
      const content = await readLimited(answer.body)
      // The Response of undici is another class than the global one, which openid-client checks for.
      return new Response(isBodiless(answer.status) ? null : content, {
        status: answer.status,
        headers: [...answer.headers],
      })
    } catch (error) {
      if (error instanceof ProviderUnreachable) throw error
      throw new ProviderUnreachable(`${hostOf(url)}: ${problemOf(error, signal)}`, { cause: error })
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#open.destroy(), this.#guarded.destroy()])
  }
}

/** HTTP without encryption is for tests and development: on this machine, by the operator. */
export function isProviderUrl(url: string, allowPrivate: boolean): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, hostname, username, password } = new URL(url)
  if (username !== '' || password !== '') return false
  return protocol === 'https:' || (allowPrivate && protocol === 'http:' && isLoopback(hostname))
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname)
}

function isBodiless(status: number): boolean {
  return status === 204 || status === 304
}

async function readLimited(body: AsyncIterable<Uint8Array> | null): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of body ?? []) {
    bytes += part.length
    if (bytes > limits.ssoResponseBytes)
      throw new ProviderUnreachable(`the answer is longer than ${limits.ssoResponseBytes} bytes`)
    parts.push(part)
  }
  return Uint8Array.from(Buffer.concat(parts))
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : 'an address'
}

function problemOf(error: unknown, { aborted }: AbortSignal): string {
  if (aborted) return 'no answer in time'
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return cause instanceof Error ? cause.message : 'no answer'
}
