/** One request and its whole response, as plain HTTP. It takes a quarter of the CPU time of `fetch`, of which a test run makes many. */
import { Agent, request } from 'undici'

export interface Reply {
  readonly status: number
  readonly headers: Headers
  // Tests read bodies of every shape; `expect` is the type check.
  // eslint-disable-next-line typescript/no-explicit-any
  readonly body: any
}

export interface Asked {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  /** Sent as it is if it is text or a form; as JSON otherwise. */
  readonly body: unknown
}

const agent = new Agent()

export async function exchange(url: string, { method, headers, body }: Asked): Promise<Reply> {
  const form = body instanceof FormData ? new Response(body) : undefined
  const contentType = form?.headers.get('content-type') ?? 'application/json'
  const bytes = form === undefined ? undefined : Buffer.from(await form.arrayBuffer())
  const response = await request(url, {
    dispatcher: agent,
    method,
    headers: { ...(body === undefined ? {} : { 'Content-Type': contentType }), ...headers },
    body: bytes ?? (body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body)),
  })
  const type = String(response.headers['content-type'] ?? '')
  const text = type.includes('event-stream') ? leave(response.body) : await response.body.text()
  let shown: Headers | undefined
  return {
    status: response.statusCode,
    get headers() {
      return (shown ??= headersOf(response.headers))
    },
    body: type.includes('json') ? JSON.parse(text) : text,
  }
}

type Response = Awaited<ReturnType<typeof request>>

/** An event stream does not end: its start is the response. */
function leave(body: Response['body']): string {
  body.on('error', () => {}).destroy()
  return ''
}

function headersOf(received: Response['headers']): Headers {
  const headers = new Headers()
  for (const [name, values = []] of Object.entries(received)) {
    for (const value of [values].flat()) headers.append(name, value)
  }
  return headers
}
