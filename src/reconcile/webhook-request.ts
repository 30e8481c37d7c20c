/**
 * One attempt at a delivery: sends a Standard Webhooks message and describes the outcome for the webhook's owner. The
 * message id is that of the event and the same for all attempts, so that a receiver can drop duplicates: delivery is at
 * least once.
 */
import { Webhook } from 'standardwebhooks'
import { request, type Dispatcher } from 'undici'
import { toDate, type Instant } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { OutboundRefused } from '../base/net/outbound.ts'
import type { EventRecord } from '../contract/event.ts'

export interface WebhookRequest {
  readonly url: string
  /** Secrets as `whsec_…`. The message carries a signature of each. */
  readonly secrets: readonly string[]
  readonly event: EventRecord
  readonly at: Instant
}

export type Outcome =
  | { kind: 'delivered'; status: number }
  | { kind: 'refused'; status: number; error: string; retryAfter: string | undefined }
  | { kind: 'unanswered'; error: string }

export async function sendWebhook(
  message: WebhookRequest,
  options: { agent: Dispatcher; timeoutMs: number; signal: AbortSignal },
): Promise<Outcome> {
  const body = formatMessage(message.event)
  const controller = new AbortController()
  const stop = (): void => controller.abort()
  // The timeout covers the whole exchange: a trickle of bytes does not extend it.
  const timer = setTimeout(() => controller.abort(new DOMException('timed out', 'TimeoutError')), options.timeoutMs)
  options.signal.addEventListener('abort', stop, { once: true })
  try {
    const answer = await request(message.url, {
      dispatcher: options.agent,
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': 'Berth-Webhooks/1', ...sign(message, body) },
      body,
      signal: controller.signal,
    })
    // Only the status counts. A short body is read, so that the connection can be reused; a long one is dropped.
    await answer.body
      .dump({ limit: limits.webhookResponseBytes, signal: controller.signal })
      .catch(() => answer.body.destroy())
    return outcomeOf(answer.statusCode, answer.headers['retry-after'])
  } catch (error) {
    return { kind: 'unanswered', error: sentenceOf(error) }
  } finally {
    clearTimeout(timer)
    options.signal.removeEventListener('abort', stop)
  }
}

function formatMessage(event: EventRecord): string {
  const { id, subject, data } = event
  return JSON.stringify({ type: event.type, timestamp: event.at, data: { ...data, subject, id } })
}

function sign(message: WebhookRequest, body: string): Record<string, string> {
  const id = `evt_${message.event.id}`
  const at = toDate(message.at)
  return {
    'webhook-id': id,
    'webhook-timestamp': Math.floor(message.at / 1_000).toString(),
    'webhook-signature': message.secrets.map((secret) => new Webhook(secret).sign(id, at, body)).join(' '),
  }
}

function outcomeOf(status: number, retryAfter: string | string[] | undefined): Outcome {
  if (status >= 200 && status < 300) return { kind: 'delivered', status }
  const error =
    status >= 300 && status < 400
      ? `HTTP ${status}; redirects are not followed`
      : `HTTP ${status}; expected a status from 200 to 299`
  return { kind: 'refused', status, error, retryAfter: typeof retryAfter === 'string' ? retryAfter : undefined }
}

const sentences: ReadonlyMap<string, string> = new Map([
  ['ENOTFOUND', new OutboundRefused().message],
  ['ENODATA', new OutboundRefused().message],
  ['ETIMEOUT', 'The host name could not be resolved'],
  ['ESERVFAIL', 'The host name could not be resolved'],
  ['EAI_AGAIN', 'The host name could not be resolved'],
  ['ECONNREFUSED', 'The connection was refused'],
  ['ECONNRESET', 'The connection was closed before a response arrived'],
  ['UND_ERR_SOCKET', 'The connection was closed before a response arrived'],
  ['EHOSTUNREACH', 'The host could not be reached'],
  ['ENETUNREACH', 'The host could not be reached'],
  ['UND_ERR_CONNECT_TIMEOUT', 'The request timed out'],
  ['UND_ERR_HEADERS_TIMEOUT', 'The request timed out'],
  ['ETIMEDOUT', 'The request timed out'],
  ['UND_ERR_HEADERS_OVERFLOW', 'The response was not valid HTTP'],
])

/** Our own text: the message of a library could contain an internal address. */
function sentenceOf(error: unknown): string {
  if (error instanceof OutboundRefused) return error.message
  if (!(error instanceof Error)) return 'The request failed'
  if (error.name === 'TimeoutError') return 'The request timed out'
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (code.startsWith('HPE_')) return 'The response was not valid HTTP'
  if (/TLS|SSL|CERT|SIGNATURE|^EPROTO$/.test(code)) return 'The TLS handshake failed; check the certificate'
  return sentences.get(code) ?? 'The request failed'
}
