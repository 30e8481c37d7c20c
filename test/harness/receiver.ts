/** A webhook endpoint: a real HTTP server that stores its requests and answers as the test says. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Received {
  readonly path: string
  readonly headers: Record<string, string>
  readonly body: string
}

export interface Receiver {
  readonly url: string
  readonly received: Received[]
  answer: (request: Received, response: http.ServerResponse) => void | Promise<void>
  close(): Promise<void>
}

export async function startReceiver(): Promise<Receiver> {
  const server = http.createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const one: Received = {
        path: request.url ?? '',
        headers: request.headers as Record<string, string>,
        body: Buffer.concat(chunks).toString(),
      }
      receiver.received.push(one)
      await receiver.answer(one, response)
    })()
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const receiver: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received: [],
    answer: (_, response) => void response.end(),
    close: () => {
      server.closeAllConnections()
      return new Promise((done) => server.close(() => done()))
    },
  }
  return receiver
}

/** A response with only a status. */
export function status(code: number, headers: Record<string, string> = {}): Receiver['answer'] {
  return (_, response) => void response.writeHead(code, headers).end()
}
