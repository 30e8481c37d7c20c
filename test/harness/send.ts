/** One operation of the contract as plain HTTP, with any headers. */
import type { Endpoint } from '../../src/contract/endpoint.ts'
import type { Example } from './examples.ts'
import { exchange } from './exchange.ts'
import type { Reply } from './exchange.ts'

export type Request = Pick<Endpoint, 'method' | 'path'>

export function send(
  url: string,
  request: Request,
  example: Example,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  return exchange(`${url}${addressOf(request.path, example)}`, { method: request.method, headers, body: example.body })
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
