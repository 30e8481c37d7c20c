/**
 * A client that sends chat bodies byte for byte over a kept connection. The fast path hands a connection over for good
 * at the first request it does not handle, so a fast-path client reconnects after each such answer.
 */
import net from 'node:net'

export interface RawAnswer {
  readonly status: number
  readonly head: string
  readonly body: string
  readonly requestId: string
}

/** The fast path accepts only the usual spelling of this content type. */
const contentTypes = { fast: 'application/json', full: 'application/json;charset=utf-8' } as const

export class RawChatClient {
  readonly #port: number
  readonly #key: string
  readonly #path: keyof typeof contentTypes
  #socket: net.Socket | undefined

  constructor(url: string, key: string, path: keyof typeof contentTypes) {
    this.#port = Number.parseInt(new URL(url).port, 10)
    this.#key = key
    this.#path = path
  }

  async send(body: Buffer): Promise<RawAnswer> {
    const socket = this.#connected()
    const head =
      `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${this.#key}\r\n` +
      `Content-Type: ${contentTypes[this.#path]}\r\nContent-Length: ${body.length}\r\n\r\n`
    const answer = readAnswer(socket)
    socket.write(Buffer.concat([Buffer.from(head), body]))
    const { status, head: answerHead, ...rest } = await answer
    // Only node:http sends a date.
    const isHandedOver = this.#path === 'fast' && /^date:/im.test(answerHead)
    if (isHandedOver || /^connection: close/im.test(answerHead)) this.close()
    return { status, head: answerHead, ...rest }
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = undefined
  }

  #connected(): net.Socket {
    if (this.#socket !== undefined && !this.#socket.destroyed) return this.#socket
    this.#socket = net.connect(this.#port, '127.0.0.1').setNoDelay(true)
    return this.#socket
  }
}

function readAnswer(socket: net.Socket): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    let text = ''
    const over = (): void => void socket.off('data', read).off('close', ended).off('error', ended)
    const ended = (error: unknown): void => {
      over()
      reject(new Error(`the connection ended (${String(error)}) after ${JSON.stringify(text.slice(0, 200))}`))
    }
    const read = (bytes: Buffer): void => {
      text += bytes.toString('latin1')
      const answer = wholeAnswer(text)
      if (answer === undefined) return
      over()
      resolve(answer)
    }
    socket.on('data', read).on('close', ended).on('error', ended)
  })
}

function wholeAnswer(text: string): RawAnswer | undefined {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = text.slice(0, end)
  const body = text.slice(end + 4)
  const length = /^content-length: (\d+)/im.exec(head)?.[1]
  const isWhole = length === undefined ? body.endsWith('0\r\n\r\n') : body.length >= Number(length)
  if (!isWhole) return undefined
  return {
    status: Number(head.slice(9, 12)),
    head,
    body: Buffer.from(body, 'latin1').toString(),
    requestId: /^x-inference-request-id: (\S+)/im.exec(head)?.[1] ?? '',
  }
}
