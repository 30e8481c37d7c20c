/**
 * The proxy for HTTP ports with a real application behind it: an HTTP and WebSocket server in this process that a test
 * agent connects to, as the agent of a host would connect to a container.
 */
import { once } from 'node:events'
import http, { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import net, { type AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { WebSocket, WebSocketServer } from 'ws'
import { createPortCode, findOwnPort, type OwnPort } from '../../src/app/rental/port.ts'
import { streamRequest } from '../../src/contract/agent.ts'
import type { WorkloadPort } from '../../src/domain/workload.ts'
import { transact } from '../../src/store/platform/database.ts'
import {
  insertHostRental,
  startHostSockets,
  TestAgent,
  type HostSockets,
  type HostSocketsOptions,
  type RentalChange,
} from './host-sockets.ts'
import { openTestAccount, type TestAccount } from './identity.ts'

export const PRIVATE = 8_888
export const PUBLIC = 8_000
export const RAW = 9_000
const ports: WorkloadPort[] = [
  { port: PRIVATE, protocol: 'http', access: 'private', healthPath: '/health' },
  { port: PUBLIC, protocol: 'http', access: 'public', healthPath: null },
  { port: RAW, protocol: 'tcp', access: 'public', healthPath: null },
]

export interface Sent {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string | string[]>>
  readonly body?: string
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface PortLab extends HostSockets {
  readonly owner: TestAccount
  readonly name: string
  readonly rentalId: number
  agent: TestAgent
  /** Answers HTTP requests; replaced by tests. */
  serve: (request: IncomingMessage, response: ServerResponse) => void
  /** Handles connections of the workload instead of the application. undefined: the application. */
  connect: ((stream: Duplex) => void) | undefined
  readonly heads: Array<{ url: string | undefined; rawHeaders: readonly string[]; headers: IncomingHttpHeaders }>
  connectAgent(): Promise<TestAgent>
  host(port?: number, name?: string): string
  request(sent: Sent, port?: number, name?: string): http.ClientRequest
  send(sent: Sent, port?: number, name?: string): Promise<Answer>
  ownPort(port?: number): Promise<OwnPort>
  /** A code, as the console would get it. */
  code(port?: number, keyId?: string): Promise<string>
  /** A cookie for a private port, as a browser would send it. */
  cookie(port?: number, keyId?: string): Promise<string>
  webSocket(headers: Readonly<Record<string, string>>, port?: number): WebSocket
  addRental(change: RentalChange, account?: TestAccount): Promise<number>
}

export async function startPortLab(options: HostSocketsOptions = {}): Promise<PortLab> {
  const sockets = await startHostSockets(options)
  const owner = await openTestAccount(sockets)
  const testHost = await sockets.addHost('host-1')
  const name = 'brave-teal-otter'
  const listening = Number(new URL(sockets.httpUrl).port)
  const application = http.createServer((request, response) => {
    const { url, rawHeaders, headers } = request
    lab.heads.push({ url, rawHeaders, headers })
    lab.serve(request, response)
  })
  const echo = new WebSocketServer({ noServer: true })
  application.on('upgrade', (request, socket, head) => {
    const { url, rawHeaders, headers } = request
    lab.heads.push({ url, rawHeaders, headers })
    echo.handleUpgrade(request, socket, head, (opened) => {
      opened.on('message', (data, isBinary) => opened.send(data as Buffer, { binary: isBinary }))
    })
  })
  application.listen(0, '127.0.0.1')
  await once(application, 'listening')
  const { port: applicationPort } = application.address() as AddressInfo

  const addRental: PortLab['addRental'] = (change, account = owner) =>
    insertHostRental(
      sockets.app,
      { accountId: account.accountId, personId: account.actor.personId, keyId: account.actor.keyId },
      { ports, ...change },
    )
  const request: PortLab['request'] = ({ method = 'GET', path = '/', headers }, port, rentalName) =>
    http.request({
      host: '127.0.0.1',
      port: listening,
      method,
      path,
      agent: false,
      setHost: false,
      headers: { Host: lab.host(port, rentalName), ...headers },
    })
  const ownPort = async (port = PRIVATE): Promise<OwnPort> => {
    const found = await findOwnPort(sockets.database.db, owner.actor, name, port)
    if (!found.ok) throw new Error(found.message)
    return found.value
  }
  const code: PortLab['code'] = async (port = PRIVATE, keyId = owner.actor.keyId) => {
    const made = await ownPort(port)
    return (await transact(sockets.database, (tx) => createPortCode(tx, { ...owner.actor, keyId }, made))).code
  }
  const send: PortLab['send'] = async (sent, port, rentalName) => {
    const asked = request(sent, port, rentalName)
    asked.end(sent.body)
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    return { status: answer.statusCode ?? 0, headers: answer.headers, body: await text(answer) }
  }
  const lab: PortLab = {
    ...sockets,
    owner,
    name,
    rentalId: await addRental({ name }),
    agent: undefined as unknown as TestAgent,
    serve: (_, response) => response.end('hello'),
    connect: undefined,
    heads: [],
    connectAgent: async () => {
      lab.agent = await new TestAgent(sockets.httpUrl, testHost, (asked, stream) => {
        streamRequest.parse(asked)
        if (lab.connect !== undefined) return lab.connect(stream)
        const socket = net.connect({ port: applicationPort, host: '127.0.0.1', allowHalfOpen: true })
        socket.on('error', () => stream.destroy())
        stream.on('close', () => socket.destroy())
        stream.pipe(socket).pipe(stream)
      }).enter()
      return lab.agent
    },
    host: (port = PRIVATE, rentalName = name) => `${rentalName}-${port}.localhost:${listening}`,
    request,
    send,
    ownPort,
    code,
    cookie: async (port = PRIVATE, keyId) => {
      const opened = await send({ path: `/.berth/open?code=${await code(port, keyId)}` }, port)
      return String(opened.headers['set-cookie']?.[0]).split(';')[0] ?? ''
    },
    webSocket: (headers, port) =>
      new WebSocket(`ws://127.0.0.1:${listening}/socket?x=1`, { headers: { Host: lab.host(port), ...headers } }),
    addRental,
    close: async () => {
      await lab.agent.end()
      application.closeAllConnections()
      application.close()
      for (const client of echo.clients) client.terminate()
      await sockets.close()
    },
  }
  await lab.connectAgent()
  return lab
}
