/**
 * Streams into pods through the API server: logs, terminals, commands, ports. All but logs are WebSockets whose
 * messages begin with the number of a channel. In the protocol of ports neither side can end alone, so a connection
 * whose client has no more to send stays open until the program in the pod closes it.
 */
import { Duplex } from 'node:stream'
import { createWebSocketStream, WebSocket } from 'ws'
import { z } from 'zod'
import { contained } from '../../base/net/contained.ts'
import { frameOutput } from '../../base/net/output-frame.ts'
import type { StreamRequest } from '../../contract/agent.ts'
import { shellCommand } from '../../runtimes/docker/execution.ts'
import { logStream } from '../../runtimes/log-stream.ts'
import type { RuntimeStream } from '../../runtimes/runtime.ts'
import { ApiRefused, type KubernetesApi } from './api.ts'
import type { Cluster } from './cluster.ts'
import { openLogs } from './logs.ts'
import { CONTAINER, podPath, readExternalId, type PodAddress } from './names.ts'
import { statusObject } from './objects.ts'
import { portForwardPath, SSH_TARGET } from './virtual-machine.ts'

const EXEC_PROTOCOL = 'v5.channel.k8s.io'
const PORT_PROTOCOL = 'v4.channel.k8s.io'
const PLAIN_PROTOCOL = 'plain.kubevirt.io'
const SSH_PORT = 22
const channels = { stdin: 0, stdout: 1, stderr: 2, status: 3, resize: 4, close: 255 } as const
/** A connection is for one port, which has these channels. */
const portChannels = { data: 0, error: 1 } as const
/** The first message of each channel of a port repeats the port. */
const PORT_HEAD_BYTES = 2
const PING_MS = 30_000

const size = z.object({ columns: z.number(), rows: z.number() })

export async function openStream(
  clusters: readonly Cluster[],
  request: StreamRequest,
  signal: AbortSignal,
): Promise<RuntimeStream> {
  const address = readExternalId(request.workloadId)
  const cluster = clusters.find(({ config }) => config.name === address?.cluster)
  if (address === undefined || cluster === undefined) throw new Error('There is no such machine.')
  const { api } = cluster
  try {
    return cluster.config.virtualMachines === undefined
      ? await open(api, address, request, signal)
      : await openOfMachine(api, address, request, signal)
  } catch (error) {
    if (!(error instanceof ApiRefused)) throw error
    // The original message names the cluster's objects.
    throw new Error(
      error.status === 404 ? 'The machine is gone.' : 'The machine has no output yet, or is not running.',
      {
        cause: error,
      },
    )
  }
}

async function open(
  api: KubernetesApi,
  address: PodAddress,
  request: StreamRequest,
  signal: AbortSignal,
): Promise<RuntimeStream> {
  switch (request.kind) {
    case 'logs':
      return { stream: logStream(await openLogs(api, address, request, signal)) }
    case 'terminal':
    case 'command':
      return openExecution(api, address, request, signal)
    case 'port':
      return { stream: await openPort(api, address, request.port, signal) }
    case 'disk':
      throw new Error('The disk of a pod cannot be copied.')
  }
}

/** KubeVirt forwards the ports of a guest; anything else needs its own tools. */
async function openOfMachine(
  api: KubernetesApi,
  address: PodAddress,
  request: StreamRequest,
  signal: AbortSignal,
): Promise<RuntimeStream> {
  if (request.kind !== 'port') throw new Error('Log in to the virtual machine by SSH for this.')
  const port = request.port === SSH_TARGET ? SSH_PORT : request.port
  const socket = await api.connect(portForwardPath(address, port), {}, PLAIN_PROTOCOL, signal)
  return { stream: createWebSocketStream(socket) }
}

async function openExecution(
  api: KubernetesApi,
  address: PodAddress,
  request: StreamRequest & { kind: 'terminal' | 'command' },
  signal: AbortSignal,
): Promise<RuntimeStream> {
  const tty = request.kind === 'terminal'
  const query = {
    container: CONTAINER,
    stdin: 'true',
    stdout: 'true',
    // A terminal has one output for both.
    stderr: String(!tty),
    tty: String(tty),
    command: request.command ?? shellCommand(),
  }
  const socket = await api.connect(`${podPath(address)}/exec`, query, EXEC_PROTOCOL, signal)
  const listeners: Array<(value: unknown) => void> = []
  let ended: { exitCode: number | null } | undefined
  const stream = channelStream(socket, {
    out: channels.stdin,
    take: (channel, data, push) => {
      if (channel === channels.stdout) return push(tty ? data : frameOutput('out', data))
      if (channel === channels.stderr) return push(frameOutput('error', data))
      if (channel !== channels.status) return
      ended = { exitCode: exitCodeOf(data) }
      for (const listener of listeners) listener(ended)
    },
    // Closing only the input of a terminal would hang up a shell that still writes.
    end: () => {
      if (!tty && socket.readyState === WebSocket.OPEN) socket.send(Buffer.from([channels.close, channels.stdin]))
    },
    isComplete: () => ended !== undefined,
  })
  const resize = (value: unknown): void => {
    const read = size.safeParse(value)
    if (!tty || !read.success || socket.readyState !== WebSocket.OPEN) return
    const { columns: Width, rows: Height } = read.data
    socket.send(frame(channels.resize, Buffer.from(JSON.stringify({ Width, Height }))))
  }
  resize(request)
  const onSignal = (listener: (value: unknown) => void): void => {
    listeners.push(listener)
    if (ended !== undefined) listener(ended)
  }
  return { stream, signal: resize, onSignal }
}

export async function openPort(
  api: KubernetesApi,
  address: PodAddress,
  port: number,
  signal: AbortSignal,
): Promise<Duplex> {
  const query = { ports: String(port) }
  const socket = await api.connect(`${podPath(address)}/portforward`, query, PORT_PROTOCOL, signal)
  const heads: Record<number, number> = { [portChannels.data]: PORT_HEAD_BYTES, [portChannels.error]: PORT_HEAD_BYTES }
  let fault: string | undefined
  return channelStream(socket, {
    out: portChannels.data,
    take: (channel, data, push) => {
      const skip = Math.min(heads[channel] ?? 0, data.length)
      heads[channel] = (heads[channel] ?? 0) - skip
      const payload = data.subarray(skip)
      if (payload.length === 0) return
      if (channel === portChannels.data) push(payload)
      else fault = portFault(port, payload.toString('utf8'))
    },
    end: () => {},
    isComplete: () => fault === undefined,
    fault: () => fault,
  })
}

/** Replaces the text of the cluster, which names paths of the node. */
function portFault(port: number, text: string): string {
  return /refused/i.test(text) ? `Nothing is listening on port ${port}.` : `Port ${port} could not be reached.`
}

interface ChannelOptions {
  /** The channel that written bytes go to. */
  readonly out: number
  take(channel: number, data: Buffer, push: (data: Buffer) => void): void
  /** Called when the writer has ended. */
  end(): void
  /** Called when the connection has closed, to tell whether that is its regular end. */
  isComplete(): boolean
  fault?(): string | undefined
}

function channelStream(socket: WebSocket, options: ChannelOptions): Duplex {
  const stream = new Duplex({
    read: () => socket.resume(),
    write: (chunk: Buffer, _encoding, done) => {
      // A program may end before it has read all of its input.
      const failed = (error: Error): void => done(options.isComplete() ? null : error)
      if (socket.readyState !== WebSocket.OPEN) return failed(new Error('The connection to the pod is closed.'))
      socket.send(frame(options.out, chunk), (error) => (error ? failed(error) : done()))
    },
    final: (done) => {
      options.end()
      done()
    },
    destroy: (error, done) => {
      clearInterval(pinging)
      if (socket.readyState === WebSocket.OPEN) socket.close()
      else socket.terminate()
      done(error)
    },
  })
  // Load balancers in front of API servers close silent connections.
  const pinging = setInterval(() => socket.readyState === WebSocket.OPEN && socket.ping(), PING_MS).unref()
  const push = (data: Buffer): void => {
    if (!stream.push(data)) socket.pause()
  }
  const end = (error: Error): unknown => stream.destroy(error)
  const receive = (message: Buffer): void => {
    const channel = message[0]
    if (channel !== undefined && !stream.destroyed) options.take(channel, message.subarray(1), push)
  }
  socket.on('message', contained(end, receive))
  socket.on('error', end)
  socket.once('close', () => {
    if (stream.destroyed) return
    if (options.isComplete()) stream.push(null)
    else stream.destroy(new Error(options.fault?.() ?? 'The connection to the pod was closed.'))
  })
  return stream
}

function frame(channel: number, data: Buffer): Buffer {
  return Buffer.concat([Buffer.from([channel]), data])
}

/** null: a signal ended the program, or the cluster reports no exit code. */
function exitCodeOf(data: Buffer): number | null {
  try {
    const status = statusObject.parse(JSON.parse(data.toString('utf8')))
    if (status.status === 'Success') return 0
    const code = Number(status.details?.causes?.find(({ reason }) => reason === 'ExitCode')?.message)
    return Number.isInteger(code) ? code : null
  } catch {
    return null
  }
}
