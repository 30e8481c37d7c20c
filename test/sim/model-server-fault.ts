/** The faults of a simulated model server, all observed on real ones. */
import type { ServerResponse } from 'node:http'

export type Fault =
  /** Hangs, at once or after some events. */
  | { readonly kind: 'hang'; readonly afterEvents?: number }
  /** Closes the connection: with RST, or with FIN. */
  | { readonly kind: 'reset' | 'finish'; readonly afterEvents?: number }
  | { readonly kind: 'garbage' }
  /** Splits a character between two packets. */
  | { readonly kind: 'split_character' }
  | { readonly kind: 'long_line'; readonly bytes: number }
  | {
      readonly kind: 'status'
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      readonly body?: string
    }
  /** Announces more bytes than it sends, or fewer. */
  | { readonly kind: 'wrong_length'; readonly byBytes: number }
  /** One byte at a time. */
  | { readonly kind: 'trickle'; readonly everyMs: number }

const PACKET_GAP_MS = 20
const GARBAGE = Buffer.from('\u0000\u0001 this is no HTTP \r\n\r\n\u00ff', 'latin1')

/** Plays the fault instead of answering with `body`. `gone` is called before the server cuts the connection itself. */
export function playFault(fault: Fault, response: ServerResponse, body: Buffer, gone: () => void): void {
  const socket = response.socket
  if (socket === null) return
  switch (fault.kind) {
    case 'hang':
      return
    case 'reset':
      gone()
      return void socket.resetAndDestroy()
    case 'finish':
      gone()
      return void socket.end()
    case 'garbage':
      gone()
      return void socket.end(GARBAGE)
    case 'status':
      response.writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers })
      return void response.end(fault.body ?? JSON.stringify({ error: { message: `simulated ${fault.status}` } }))
    case 'split_character':
      return splitCharacter(response)
    case 'long_line':
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: ')
      response.write(Buffer.alloc(fault.bytes, 'x'))
      return void response.end('\n\ndata: [DONE]\n\n')
    case 'wrong_length':
      gone()
      socket.write(`HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n`)
      return void socket.end(
        Buffer.concat([Buffer.from(`Content-Length: ${body.length + fault.byBytes}\r\n\r\n`), body]),
      )
    case 'trickle':
      return trickle(response, body, fault.everyMs)
  }
}

function splitCharacter(response: ServerResponse): void {
  const event = Buffer.from('data: {"choices":[{"index":0,"delta":{"content":"€"},"finish_reason":"stop"}]}\n\n')
  const middle = event.indexOf(Buffer.from('€')) + 1
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(event.subarray(0, middle))
  setTimeout(() => {
    response.write(event.subarray(middle))
    response.end('data: [DONE]\n\n')
  }, PACKET_GAP_MS)
}

function trickle(response: ServerResponse, body: Buffer, everyMs: number): void {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length })
  let at = 0
  const timer = setInterval(() => {
    if (at < body.length) response.write(body.subarray(at, at + 1))
    else response.end()
    at += 1
    if (at > body.length) clearInterval(timer)
  }, everyMs)
  response.on('close', () => clearInterval(timer))
}
