/**
 * The server's side of the agent connection under a test's control: it checks signatures itself and sends what the test
 * says.
 */
import { createPublicKey, randomBytes, verify } from 'node:crypto'
import http from 'node:http'
import { WebSocketServer, type WebSocket } from 'ws'
import { makeMux, type Mux } from '../../src/base/net/mux.ts'
import {
  AGENT_PATH,
  AGENT_PROTOCOL,
  fromAgent,
  type Desired,
  type FromAgent,
  type FromServer,
  type HostReport,
} from '../../src/contract/agent.ts'
import { waitFor } from './wait.ts'

export interface AgentServer {
  readonly url: string
  readonly installation: string
  /** Public keys of known hosts by id, in base64url. */
  readonly keys: Map<string, string>
  /** Sent to every agent after its welcome, and immediately to a connected one. */
  want(desired: Omit<Desired, 'type'>): void
  /** Messages received, oldest first. */
  readonly heard: FromAgent[]
  readonly refusals: string[]
  /** Number of accepted connections. */
  readonly welcomes: number
  /** Waits for a report that matches `is`, and returns the last one. */
  report(what: string, is: (report: HostReport) => boolean): Promise<HostReport>
  /** The answer to a move: a refusal, or undefined to accept it. */
  onMove: (to: string) => { reason: string; message: string } | undefined
  /** Opens streams to the connected agent. */
  mux(): Mux
  say(message: FromServer): void
  /** Drops all connections without a close frame. */
  cut(): void
  /** From now on nothing is answered or received; the connection stays open. */
  freeze(): void
  close(): Promise<void>
}

export interface AgentServerOptions {
  readonly port?: number
  readonly installation?: string
  readonly heartbeatMs?: number
  readonly protocol?: number
  readonly keys?: ReadonlyMap<string, string>
}

export async function startAgentServer(options: AgentServerOptions = {}): Promise<AgentServer> {
  const installation = options.installation ?? 'test'
  const sockets = new Set<WebSocket>()
  const server = http.createServer((_, response) => response.writeHead(404).end())
  const listener = new WebSocketServer({ server, path: AGENT_PATH })
  const keys = new Map(options.keys)
  const heard: FromAgent[] = []
  const refusals: string[] = []
  let [wanted, current, welcomes]: [Desired | undefined, { socket: WebSocket; mux: Mux } | undefined, number] = [
    undefined,
    undefined,
    0,
  ]
  const say = (socket: WebSocket, message: FromServer): void => socket.send(JSON.stringify(message))
  const tell = (): void => {
    if (wanted !== undefined && current !== undefined) say(current.socket, wanted)
  }

  const isKnown = (hello: Extract<FromAgent, { type: 'hello' }>, nonce: string): boolean => {
    const x = keys.get(hello.hostId)
    if (x === undefined) return false
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
    // Spelled out, because agents of other versions rely on this format too.
    const statement = Buffer.from(`berth-agent/1/${installation}/${nonce}`)
    return verify(null, statement, key, Buffer.from(hello.signature, 'base64url'))
  }
  const hear = (socket: WebSocket, message: FromAgent, nonce: string): void => {
    if (message.type === 'hello') {
      if (!isKnown(message, nonce)) {
        refusals.push(message.hostId)
        say(socket, {
          type: 'refused',
          reason: 'unknown_host',
          message: 'This server knows no such host with this key',
        })
        return socket.close(1008)
      }
      welcomes += 1
      const mux = makeMux({
        side: 'server',
        send: (frame) => socket.send(frame),
        accept: (_, stream) => void stream.destroy(),
      })
      current = { socket, mux }
      say(socket, { type: 'welcome', heartbeatMs: options.heartbeatMs ?? 1_000 })
      tell()
    } else if (message.type === 'move') {
      const refusal = made.onMove(message.to)
      if (refusal !== undefined) return say(socket, { type: 'refused', ...refusal })
      if (wanted !== undefined) made.want({ ...wanted, generation: wanted.generation + 1, state: message.to })
    }
    return undefined
  }

  listener.on('connection', (socket) => {
    sockets.add(socket)
    const nonce = randomBytes(16).toString('base64url')
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    socket.on('message', (data, isBinary) => {
      if (isBinary) return current?.mux.receive(data as Buffer)
      const message = fromAgent.parse(JSON.parse((data as Buffer).toString()))
      heard.push(message)
      return hear(socket, message, nonce)
    })
    say(socket, { type: 'challenge', protocol: options.protocol ?? AGENT_PROTOCOL, installation, nonce })
  })
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }

  const made: AgentServer = {
    url: `http://127.0.0.1:${port}`,
    installation,
    keys,
    heard,
    refusals,
    get welcomes() {
      return welcomes
    },
    onMove: () => undefined,
    want: (desired) => {
      wanted = { type: 'desired', ...desired }
      tell()
    },
    report: (what, is) =>
      waitFor(what, () => heard.findLast((one): one is HostReport => one.type === 'report' && is(one))),
    mux: () => {
      if (current === undefined) throw new Error('no agent is there')
      return current.mux
    },
    say: (message) => {
      if (current !== undefined) say(current.socket, message)
    },
    cut: () => {
      for (const socket of sockets) socket.terminate()
    },
    freeze: () => {
      for (const socket of sockets) socket.pause()
    },
    close: async () => {
      for (const socket of sockets) socket.terminate()
      listener.close()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return made
}
