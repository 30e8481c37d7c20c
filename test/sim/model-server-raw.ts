/** A server that sends exactly the bytes a test gives it, and a sink for the resulting events. */
import net, { type AddressInfo, type Socket } from 'node:net'

export interface RawServer {
  readonly address:
    | { readonly kind: 'unix'; readonly path: string }
    | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly tls: false }
  /** Received text, one entry per connection. */
  readonly received: string[]
  readonly sockets: Socket[]
  close(): Promise<void>
}

/** Passes each request (they all end with an empty line, or with `{}`) to `answer`. */
export async function startRawServer(
  answer: (socket: Socket, requests: number) => void,
  socketPath?: string,
): Promise<RawServer> {
  const received: string[] = []
  const sockets: Socket[] = []
  let requests = 0
  const server = net.createServer((socket) => {
    const place = sockets.push(socket) - 1
    received.push('')
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      received[place] += bytes.toString('latin1')
      if (!/(\r\n\r\n|\{\})$/.test(received[place] ?? '')) return
      requests += 1
      answer(socket, requests)
    })
  })
  await new Promise<void>((done) => {
    if (socketPath === undefined) server.listen(0, '127.0.0.1', done)
    else server.listen(socketPath, done)
  })
  return {
    address:
      socketPath === undefined
        ? { kind: 'tcp', host: '127.0.0.1', port: (server.address() as AddressInfo).port, tls: false }
        : { kind: 'unix', path: socketPath },
    received,
    sockets,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((done) => server.close(() => done()))
    },
  }
}

/** Keeps the answer, and throws if calls come in the wrong order. */
export class RawSink<Connection, Head, Fault> {
  connection: Connection | undefined
  head: Head | undefined
  body = ''
  over: 'end' | Fault | undefined
  detail = ''
  onEveryData: (() => void) | undefined

  onHead(head: Head): void {
    this.head = head
  }

  onData(bytes: Buffer): void {
    this.body += bytes.toString('latin1')
    this.onEveryData?.()
  }

  onEnd(): void {
    this.#finish('end', '')
  }

  onFault(kind: Fault, detail: string): void {
    this.#finish(kind, detail)
  }

  #finish(over: 'end' | Fault, detail: string): void {
    if (this.over !== undefined || this.connection !== undefined) throw new Error('the end came in the wrong order')
    this.over = over
    this.detail = detail
  }
}
