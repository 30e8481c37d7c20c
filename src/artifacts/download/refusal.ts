/**
 * Reads why a server answered without the file, if it says so in a known form: Berth and most others in JSON, S3 stores
 * in XML, model hubs in a header. Pages for browsers are ignored, since their text means nothing in a log.
 */
import { fail, type Failure } from '../../contract/result.ts'
import { whereOf, type Answer } from './http-get.ts'

const RETRY_AFTER_MS = 60_000
const MAX_BODY_BYTES = 16_384
const MAX_BODY_MS = 5_000
const MAX_CAUSE_CHARS = 300

/** undefined: the status is a success. Reads the body of any other answer. */
export async function refusalOf(answer: Answer): Promise<Failure | undefined> {
  const { status, headers, url } = answer
  if (status === 200 || status === 206) return undefined
  const facts = { url: whereOf(url), status, cause: await causeOf(answer) }
  if (status === 408 || status === 425 || status === 429 || status >= 500) {
    const seconds = Number(headers['retry-after'])
    const retryAfterMs = Math.min(seconds * 1_000, RETRY_AFTER_MS)
    return fail('bad_status', { ...facts, failureKind: 'unavailable', ...(seconds > 0 ? { retryAfterMs } : {}) })
  }
  return fail('bad_status', { ...facts, failureKind: status === 404 || status === 410 ? 'not_found' : 'invalid' })
}

async function causeOf(answer: Answer): Promise<string | null> {
  const { 'x-error-message': header, 'content-type': type = '' } = answer.headers
  if (typeof header === 'string') return asCause(header)
  return causeIn(type, await readStart(answer))
}

/** null: the body says nothing that people can read. */
export function causeIn(contentType: string, body: string): string | null {
  if (/\bjson\b/.test(contentType)) return asCause(jsonCause(body))
  if (/\bxml\b/.test(contentType)) {
    return asCause([element('Code', body), element('Message', body)].filter((text) => text !== '').join(': '))
  }
  return contentType.startsWith('text/plain') ? asCause(body) : null
}

/** Web frameworks put the cause into `message`, `error` or `detail`; `error` may be an object with these fields. */
function jsonCause(body: string): string {
  try {
    for (let value: unknown = JSON.parse(body), depth = 0; depth < 2; depth += 1) {
      const { message, error, detail } = (value ?? {}) as Record<string, unknown>
      const text = [message, error, detail].find((one) => typeof one === 'string')
      if (typeof text === 'string') return text
      value = error
    }
  } catch {
    // The body is not JSON, or was cut off.
  }
  return ''
}

function element(name: string, xml: string): string {
  const [, text = ''] = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml) ?? []
  return text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&apos;', "'")
    .replaceAll('&amp;', '&')
}

/** Returns one line, without the period of its sentence. */
function asCause(text: string): string | null {
  const line = text
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .trim()
    .slice(0, MAX_CAUSE_CHARS)
    .replace(/\.$/, '')
  return line === '' ? null : line
}

/** Reads until the end, a limit or an error: a body that breaks off may still contain the cause. */
async function readStart({ body }: Answer): Promise<string> {
  const deadline = setTimeout(() => body.destroy(), MAX_BODY_MS)
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes >= MAX_BODY_BYTES) break
    }
  } catch {
    // An error of the connection is ignored: the status is the reason to report.
  } finally {
    clearTimeout(deadline)
  }
  return Buffer.concat(chunks).subarray(0, MAX_BODY_BYTES).toString('utf8')
}
