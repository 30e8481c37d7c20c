/** A browser from the server's point of view: it signs in, keeps its cookie and sends browser headers. */
import http from 'node:http'
import { text } from 'node:stream/consumers'

export interface Answer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly text: string
}

export interface Asked {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

/** Unlike `fetch`, it sends every header and path as given, including those that browsers reserve. */
export async function ask(url: string, path: string, asked: Asked = {}): Promise<Answer> {
  const { method = 'GET', headers = {}, body } = asked
  const { hostname, port } = new URL(url)
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    const sent = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    const type = sent === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': sent.length }
    const request = http.request({ hostname, port, path, method, headers: { ...type, ...headers }, agent: false })
    request.once('response', resolve).once('error', reject).end(sent)
  })
  const encoding = response.headers['content-encoding'] === undefined ? 'utf8' : 'latin1'
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text: await text(response.setEncoding(encoding)),
  }
}

/** Also for callers that use `fetch`. */
export const consoleHeaders = { 'X-Berth-Console': '1' } as const

export async function postSession(url: string, key: string, headers: Record<string, string> = {}): Promise<Answer> {
  return ask(url, '/console/session', { method: 'POST', headers: { ...consoleHeaders, ...headers }, body: { key } })
}

/** The cookie as a browser sends it back. */
export function cookieOf(answer: Answer): string {
  const [set = ''] = answer.headers['set-cookie'] ?? []
  const [cookie = ''] = set.split(';')
  if (!/^(__Host-)?berth_session=/.test(cookie)) throw new Error(`no cookie: ${answer.status} ${answer.text}`)
  return cookie
}

export async function signInWith(url: string, key: string): Promise<string> {
  return cookieOf(await postSession(url, key))
}
