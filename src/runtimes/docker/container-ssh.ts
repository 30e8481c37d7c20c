/**
 * SSH into containers, whatever their image: our own SSH server on a relayed stream. A session is a program inside the
 * container, and ports are forwarded only to the container itself, so nothing here leads to the host.
 */
import net from 'node:net'
import { duplexPair, type Duplex } from 'node:stream'
import ssh2, { type AuthContext, type Connection, type ServerChannel } from 'ssh2'
import type { DockerClient } from './client.ts'
import { readOutput, startExecution, type Execution } from './execution.ts'
import { writeToChannel } from './ssh-channel.ts'
import { serveSession } from './ssh-session.ts'
import type { WorkloadFile } from './workload-file.ts'

export interface ContainerSshOptions {
  readonly client: DockerClient
  readonly onError: (what: string, error: unknown) => void
}

export interface SshTarget {
  readonly id: string
  readonly container: string
  /** The container's address in its own network. */
  readonly address: string | undefined
  readonly file: WorkloadFile
}

const MAX_CONNECTIONS_PER_WORKLOAD = 64
const MAX_SESSIONS_PER_CONNECTION = 16
const MAX_FORWARDS_PER_CONNECTION = 64
const MAX_TRIES = 6
const LOGIN_MS = 30_000
const KEEP_ALIVE_MS = 15_000
const MAX_KEEP_ALIVE_TRIES = 4
/** How long a client may take to read the last bytes. */
const LINGER_MS = 5_000
const CONNECT_MS = 2_000
const IDENT = 'berth'
const ownNames = new Set(['localhost', '127.0.0.1', '::1', '0.0.0.0'])

/** $1 is the port. For servers that listen on the loopback address only, with the tools of the image. */
const RELAY_SCRIPT = `
if command -v nc >/dev/null 2>&1; then exec nc 127.0.0.1 "$1"; fi
[ -x /bin/bash ] || exit 1
exec /bin/bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1; cat <&0 >&3 & exec cat <&3' bash "$1"`

export class ContainerSsh {
  readonly #options: ContainerSshOptions
  readonly #open = new Map<string, Set<Duplex>>()

  constructor(options: ContainerSshOptions) {
    this.#options = options
  }

  /** A stream for the client's side of an SSH connection. */
  connect(target: SshTarget): Duplex {
    const open = this.#open.get(target.id) ?? new Set()
    if (open.size >= MAX_CONNECTIONS_PER_WORKLOAD) throw new Error('Too many SSH connections to this container.')
    const [outside, inside] = duplexPair()
    this.#open.set(target.id, open.add(inside))
    joinEnds(outside, inside)
    inside.once('close', () => {
      open.delete(inside)
      if (open.size === 0 && this.#open.get(target.id) === open) this.#open.delete(target.id)
    })
    const config = {
      hostKeys: [target.file.hostKey],
      ident: IDENT,
      keepaliveInterval: KEEP_ALIVE_MS,
      keepaliveCountMax: MAX_KEEP_ALIVE_TRIES,
    }
    const deadline = setTimeout(() => inside.destroy(), LOGIN_MS)
    inside.once('close', () => clearTimeout(deadline))
    const server = new ssh2.Server(config, (connection) => {
      connection.once('ready', () => clearTimeout(deadline))
      this.#serve(connection, inside, target)
    })
    // Typed as a socket, but a stream is enough.
    server.injectSocket(inside as net.Socket)
    return outside
  }

  /** Closes the connections of one container, or of all. */
  close(id?: string): void {
    for (const [one, open] of this.#open) if (id === undefined || id === one) for (const end of open) end.destroy()
  }

  #serve(connection: Connection, transport: Duplex, target: SshTarget): void {
    const { client, onError } = this.#options
    let tries = 0
    let sessions = 0
    let forwards = 0
    // ssh2 itself disconnects a client that violates the protocol.
    connection.on('error', () => {})
    connection.on('authentication', (context) => {
      if (isAllowed(context, target.file.sshKeys)) return context.accept()
      // Asking for the available methods is not an attempt.
      if (context.method !== 'none') tries += 1
      if (tries >= MAX_TRIES) connection.end()
      else context.reject(['publickey'])
    })
    connection.on('session', (accept, reject) => {
      if (sessions >= MAX_SESSIONS_PER_CONNECTION) return reject()
      const session = accept() as ReturnType<typeof accept> | undefined
      if (session === undefined) return
      sessions += 1
      serveSession(session, { client, container: target.container, transport, onError }, () => (sessions -= 1))
    })
    connection.on('tcpip', (accept, reject, info) => {
      const isOwn = ownNames.has(info.destIP) || info.destIP === target.address || info.destIP === target.container
      if (!isOwn || forwards >= MAX_FORWARDS_PER_CONNECTION) return reject()
      forwards += 1
      void this.#forward(target, transport, info.destPort, { accept, reject }).finally(() => (forwards -= 1))
    })
  }

  /** Forwards until both ends are done. Never rejects: nobody waits for it. */
  async #forward(target: SshTarget, transport: Duplex, port: number, request: Asked): Promise<void> {
    const { client, onError } = this.#options
    let channel: ServerChannel | undefined
    try {
      const socket = target.address === undefined ? undefined : await connect(target.address, port)
      if (socket !== undefined) {
        channel = request.accept()
        return await joinChannel(channel, transport, socket, socket)
      }
      const command = ['/bin/sh', '-c', RELAY_SCRIPT, 'sh', String(port)]
      const execution = await startExecution(client, target.container, { command })
      channel = request.accept()
      await joinChannel(channel, transport, execution.socket, outputOf(execution))
      await execution.signal('HUP')
    } catch (error) {
      onError('SSH forwarding', error)
      refuse(request, channel)
    }
  }
}

interface Asked {
  /** undefined: the client is gone. */
  accept(): ServerChannel | undefined
  reject(): void
}

function refuse(request: Asked, channel: ServerChannel | undefined): void {
  try {
    if (channel === undefined) request.reject()
    else channel.destroy()
  } catch {
    // The client is gone.
  }
}

async function* outputOf(execution: Execution): AsyncGenerator<Buffer> {
  for await (const { isError, data } of readOutput(execution)) if (!isError) yield data
}

/** Closes each end with the other. */
function joinEnds(outside: Duplex, inside: Duplex): void {
  outside.on('error', () => inside.destroy())
  outside.once('close', () => inside.destroy())
  inside.once('close', () => {
    if (outside.readableEnded) outside.destroy()
    else outside.push(null)
    setTimeout(() => outside.destroy(), LINGER_MS).unref()
  })
  inside.once('finish', () => setTimeout(() => inside.destroy(), LINGER_MS).unref())
  // A client that ends is not waited for.
  inside.once('end', () => inside.end())
}

function isAllowed(context: AuthContext, sshKeys: readonly string[]): boolean {
  if (context.method !== 'publickey') return false
  const offered = context.key.data.toString('base64')
  const text = sshKeys.find((one) => one.split(' ')[1] === offered)
  const key = text === undefined ? undefined : ssh2.utils.parseKey(text)
  if (key === undefined || key instanceof Error || Array.isArray(key) || key.type !== context.key.algo) return false
  // SHA-1 is not taken.
  if (key.type === 'ssh-rsa' && context.hashAlgo === undefined) return false
  // A client first asks whether a key would be accepted.
  if (context.signature === undefined || context.blob === undefined) return true
  // `verify` may return an error object, which is truthy.
  const verdict: unknown = key.verify(context.blob, context.signature, context.hashAlgo)
  return verdict === true
}

/** undefined: nothing is listening there that can be reached from outside. */
function connect(address: string, port: number): Promise<net.Socket | undefined> {
  return new Promise((resolve) => {
    const socket = net.connect({ host: address, port, allowHalfOpen: true })
    const deadline = setTimeout(() => fail(), CONNECT_MS)
    const fail = (): void => {
      clearTimeout(deadline)
      socket.destroy()
      resolve(undefined)
    }
    socket.once('error', fail)
    // Stays: the client may be gone before anyone else listens.
    socket.on('error', () => socket.destroy())
    socket.once('connect', () => {
      clearTimeout(deadline)
      socket.off('error', fail)
      resolve(socket)
    })
  })
}

/** Joins two streams until one of them is closed. `from` is the socket's output. */
async function joinChannel(
  channel: ServerChannel | undefined,
  transport: Duplex,
  socket: net.Socket,
  from: AsyncIterable<Buffer>,
): Promise<void> {
  if (channel === undefined) return void socket.destroy()
  const channelClose = new Promise<void>((resolve) => channel.once('close', resolve))
  channel.on('error', () => socket.destroy())
  socket.on('error', () => socket.destroy())
  channel.pipe(socket)
  const forward = async (): Promise<void> => {
    try {
      for await (const data of from) await writeToChannel(channel, channel, data, transport)
    } catch (error) {
      if (!socket.destroyed) throw error
    }
    channel.end()
  }
  await Promise.race([forward(), channelClose])
  socket.destroy()
}
