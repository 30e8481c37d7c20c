/** Answers that are read as they come, without the limits of `fetch`, which gives up on one that is silent for five minutes. */
import http from 'node:http'
import https from 'node:https'
import { text } from 'node:stream/consumers'
import { answerTo } from '../../base/net/http-answer.ts'
import { apiErrorOf, unreachable } from '../../client/error.ts'
import type { Session } from './session.ts'

export async function openDownload(
  { client, key }: Pick<Session, 'client' | 'key'>,
  path: string,
): Promise<AsyncIterable<Buffer>> {
  const address = `${client.url}${path}`
  const { request: open } = address.startsWith('https:') ? https : http
  const request = open(address, { headers: { Authorization: `Bearer ${key}` } })
  request.end()
  const response = await answerTo(request).catch((error: unknown) => {
    throw unreachable(client.url, error)
  })
  const status = response.statusCode ?? 0
  if (status >= 200 && status < 300) return response
  const headers = new Headers(Object.entries(response.headers).map(([name, value]) => [name, String(value)]))
  throw apiErrorOf(status, headers, await text(response))
}
