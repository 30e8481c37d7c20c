/** One operation of the contract as plain HTTP, with any headers. */
import type { Endpoint } from '../../src/contract/endpoint.ts'
import type { Example } from './examples.ts'
import type { Reply } from './server.ts'

export type Request = Pick<Endpoint, 'method' | 'path'>

export async function send(
  url: string,
  request: Request,
  example: Example,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  const { body } = example
  const leave = new AbortController()
  const response = await fetch(`${url}${addressOf(request.path, example)}`, {
    method: request.method,
    headers: { ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
    signal: leave.signal,
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const type = response.headers.get('content-type') ?? ''
  // An event stream does not end: its start is the response.
  if (type.includes('event-stream')) leave.abort()
  const text = leave.signal.aborted ? '' : await response.text()
  return { status: response.status, headers: response.headers, body: type.includes('json') ? JSON.parse(text) : text }
}

export function addressOf(path: string, { params = {}, query = {} }: Example): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name]
    if (value === undefined) throw new Error(`the example for ${path} has no ${name}`)
    return encodeURIComponent(value)
  })
  const asked = new URLSearchParams(query).toString()
  return asked === '' ? filled : `${filled}?${asked}`
}
