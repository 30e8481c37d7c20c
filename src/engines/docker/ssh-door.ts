/**
 * SSH into containers, whatever their image: the server is ours and speaks on a stream that somebody relays to us; a
 * session in it is a program run inside the container. There is no way from here to the host: a session is nothing but
 * such a program, and ports are forwarded to the container itself and to nothing else.
 */
import net from 'node:net'
import { duplexPair, type Duplex } from 'node:stream'
import ssh2, { type AuthContext, type Connection, type ServerChannel } from 'ssh2'
import type { DockerClient } from './client.ts'
import { readOutput, startExecution, type Execution } from './execution.ts'
import { writeToChannel } from './ssh-channel.ts'
import { serveSession } from './ssh-session.ts'
import type { WorkloadFile } from './workload-file.ts'

export interface SshDoorOptions {
  readonly client: DockerClient
  readonly onError: (what: string, error: unknown) => void
}

export interface SshTarget {
  readonly id: string
  readonly container: string
  /** Where the container is in its own network; undefined where it has no address. */
  readonly address: string | undefined
  readonly file: WorkloadFile
}

const MAX_CONNECTIONS_PER_WORKLOAD = 64
const MAX_SESSIONS_PER_CONNECTION = 16
const MAX_FORWARDS_PER_CONNECTION = 64
const MAX_TRIES = 6
const LOGIN_MS = 30_000
const KEEP_ALIVE_MS = 15_000
const KEEP_ALIVE_TRIES = 4
/** How long the last bytes may take before the stream is closed on a client that does not read. */
const LINGER_MS = 5_000
const CONNECT_MS = 2_000
const IDENT = 'berth'
const ownNames = new Set(['localhost', '127.0.0.1', '::1', '0.0.0.0'])

/** $1 is the port. For what listens inside on the loopback address alone, by whatever the image has. */
const RELAY_SCRIPT = `
if command -v nc >/dev/null 2>&1; then exec nc 127.0.0.1 "$1"; fi
[ -x /bin/bash ] || exit 1
exec /bin/bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1; cat <&0 >&3 & exec cat <&3' bash "$1"`

export class SshDoor {
  readonly #options: SshDoorOptions
  readonly #open = new Map<string, Set<Duplex>>()

  constructor(options: SshDoorOptions) {
    this.#options = options
  }

  /** A stream on which a client may begin to speak SSH. */
  enter(target: SshTarget): Duplex {
    const open = this.#open.get(target.id) ?? new Set()
    if (open.size >= MAX_CONNECTIONS_PER_WORKLOAD) throw new Error('It has too many SSH connections already.')
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
      keepaliveCountMax: KEEP_ALIVE_TRIES,
    }
    const late = setTimeout(() => inside.destroy(), LOGIN_MS)
    inside.once('close', () => clearTimeout(late))
    const server = new ssh2.Server(config, (connection) => {
      connection.once('ready', () => clearTimeout(late))
      this.#serve(connection, inside, target)
    })
    // It asks for a socket, and needs no more than a stream.
    server.injectSocket(inside as net.Socket)
    return outside
  }

  /** Ends the connections of one, or of all. */
  close(id?: string): void {
    for (const [one, open] of this.#open) if (id === undefined || id === one) for (const end of open) end.destroy()
  }

  #serve(connection: Connection, transport: Duplex, target: SshTarget): void {
    const { client, onError } = this.#options
    let tries = 0
    let sessions = 0
    let forwards = 0
    // A client that breaks the protocol is ended by ssh2; there is nothing for us to do about it.
    connection.on('error', () => {})
    connection.on('authentication', (context) => {
      if (isAllowed(context, target.file.sshKeys)) return context.accept()
      // Asking which ways there are is not a try.
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

  /** Until both ends are done. Never rejects: nobody waits for it. */
  async #forward(target: SshTarget, transport: Duplex, port: number, asked: Asked): Promise<void> {
    const { client, onError } = this.#options
    let channel: ServerChannel | undefined
    try {
      const socket = target.address === undefined ? undefined : await connect(target.address, port)
      if (socket !== undefined) {
        channel = asked.accept()
        return await joinChannel(channel, transport, socket, socket)
      }
      const command = ['/bin/sh', '-c', RELAY_SCRIPT, 'sh', String(port)]
      const execution = await startExecution(client, target.container, { command })
      channel = asked.accept()
      await joinChannel(channel, transport, execution.socket, outputOf(execution))
      await execution.signal('HUP')
    } catch (error) {
      onError('SSH forwarding', error)
      refuse(asked, channel)
    }
  }
}

interface Asked {
  /** undefined: who has asked is gone. */
  accept(): ServerChannel | undefined
  reject(): void
}

function refuse(asked: Asked, channel: ServerChannel | undefined): void {
  try {
    if (channel === undefined) asked.reject()
    else channel.destroy()
  } catch {
    // Who has asked is gone.
  }
}

async function* outputOf(execution: Execution): AsyncGenerator<Buffer> {
  for await (const { isError, data } of readOutput(execution)) if (!isError) yield data
}

/** What ends at one end ends at the other. */
function joinEnds(outside: Duplex, inside: Duplex): void {
  outside.on('error', () => inside.destroy())
  outside.once('close', () => inside.destroy())
  inside.once('close', () => {
    if (outside.readableEnded) outside.destroy()
    else outside.push(null)
    setTimeout(() => outside.destroy(), LINGER_MS).unref()
  })
  inside.once('finish', () => setTimeout(() => inside.destroy(), LINGER_MS).unref())
  // Clients that end are not waited for.
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
  // At first a client only asks whether a key would do.
  if (context.signature === undefined || context.blob === undefined) return true
  // An error is a value too, and no yes.
  const verdict: unknown = key.verify(context.blob, context.signature, context.hashAlgo)
  return verdict === true
}

/** undefined: nothing listens there, as far as can be seen from outside. */
function connect(address: string, port: number): Promise<net.Socket | undefined> {
  return new Promise((resolve) => {
    const socket = net.connect({ host: address, port, allowHalfOpen: true })
    const late = setTimeout(() => fail(), CONNECT_MS)
    const fail = (): void => {
      clearTimeout(late)
      socket.destroy()
      resolve(undefined)
    }
    socket.once('error', fail)
    socket.once('connect', () => {
      clearTimeout(late)
      socket.off('error', fail)
      resolve(socket)
    })
  })
}

/** Until one of the two is closed. `from` is what is read of the socket. */
async function joinChannel(
  channel: ServerChannel | undefined,
  transport: Duplex,
  socket: net.Socket,
  from: AsyncIterable<Buffer>,
): Promise<void> {
  if (channel === undefined) return void socket.destroy()
  const gone = new Promise<void>((resolve) => channel.once('close', resolve))
  channel.on('error', () => socket.destroy())
  socket.on('error', () => socket.destroy())
  channel.pipe(socket)
  const passOn = async (): Promise<void> => {
    try {
      for await (const data of from) await writeToChannel(channel, channel, data, transport)
    } catch (error) {
      if (!socket.destroyed) throw error
    }
    channel.end()
  }
  await Promise.race([passOn(), gone])
  socket.destroy()
}
