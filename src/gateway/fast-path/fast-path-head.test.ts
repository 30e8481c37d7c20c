/** Only unambiguous heads are accepted; each ambiguity tested here enables request smuggling. */
import { describe, expect, it } from 'vitest'
import { readFastPathHead } from './fast-path-head.ts'

const lines = [
  'POST /v1/chat/completions HTTP/1.1',
  'Host: localhost',
  'Authorization: Bearer bk_x',
  'Content-Type: application/json',
  'Content-Length: 12',
]
const head = (...more: string[]): Buffer => Buffer.from([...lines, ...more, '', ''].join('\r\n') + '{"model":1}\n')

describe('the head of a chat request', () => {
  it('is read', () => {
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const bytes = head('Accept: */*', 'Connection: keep-alive', `traceparent: ${traceparent}`, 'X-Session-Id: a')
    expect(readFastPathHead(bytes)).toEqual({
      hosts: ['localhost'],
      authorization: 'Bearer bk_x',
      bodyBytes: 12,
      headBytes: bytes.length - 12,
      traceparent,
      session: 'a',
    })
  })

  it.each([
    ['chunked', head('Transfer-Encoding: chunked')],
    ['two lengths', head('Content-Length: 13')],
    ['two keys', head('Authorization: Bearer bk_y')],
    ['two hosts', head('Host: other')],
    ['Connection: close', head('Connection: close')],
    ['an upgrade', head('Upgrade: websocket')],
    ['an expectation', head('Expect: 100-continue')],
    ['a folded line', head('X-A: b', ' c')],
    ['a space before the colon', head('X-A : b')],
    ['a bare line feed', head('X-A: b\nX-B: c')],
    ['a byte beyond ASCII', head('X-A: \u00e9')],
    ['an origin', head('Origin: https://app.example.com')],
    ['a body in gzip', head('Content-Encoding: gzip')],
    ['another path', Buffer.from(head().toString().replace('/v1/chat', '/v2/chat'))],
    ['a query', Buffer.from(head().toString().replace('completions ', 'completions?x '))],
    ['an old version', Buffer.from(head().toString().replace('HTTP/1.1', 'HTTP/1.0'))],
    ['a signed length', Buffer.from(head().toString().replace('h: 12', 'h: +12'))],
    ['a length in hex', Buffer.from(head().toString().replace('h: 12', 'h: 0x12'))],
    ['no key', Buffer.from(head().toString().replace('Authorization', 'X-Other'))],
    ['a form', Buffer.from(head().toString().replace('application/json', 'text/plain'))],
    ['half of it', head().subarray(0, 80)],
  ])('with %s is for node:http', (_what, bytes) => {
    expect(readFastPathHead(bytes)).toBeUndefined()
  })
})
