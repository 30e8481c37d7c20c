/** Streams into a running container other than SSH: its published ports, its log, a terminal, a command. */
import net from 'node:net'
import type { Duplex } from 'node:stream'
import { z } from 'zod'
import { within } from '../../base/within.ts'
import type { StreamRequest } from '../../contract/agent.ts'
import type { RuntimeStream } from '../runtime.ts'
import type { DockerClient } from './client.ts'
import { executionStream, shellCommand, startExecution, type ExecutionOrder } from './execution.ts'
import { openLogs } from './logs.ts'
import type { Container } from './reply.ts'

const CONNECT_MS = 10_000
const TERM = 'xterm-256color'
const windowSize = z.object({ columns: z.int().min(1).max(1_000), rows: z.int().min(1).max(1_000) })

export async function openStream(
  client: DockerClient,
  container: Container,
  request: Exclude<StreamRequest, { kind: 'disk' }>,
  signal: AbortSignal,
): Promise<RuntimeStream> {
  if (request.kind === 'logs') return { stream: await openLogs(client, container, request, signal) }
  if (container.State.Status !== 'running') throw new Error('The container is not running.')
  if (request.kind === 'port') return { stream: await openPort(container, request.port) }
  return openExecution(client, container, request)
}

async function openPort(container: Container, port: number): Promise<Duplex> {
  const [published] = container.NetworkSettings.Ports[`${port}/tcp`] ?? []
  if (published === undefined) throw new Error(`Port ${port} is not published.`)
  const host = published.HostIp === '0.0.0.0' || published.HostIp === '' ? '127.0.0.1' : published.HostIp
  const socket = net.connect({ host, port: Number(published.HostPort), allowHalfOpen: true })
  const connected = new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  try {
    await within(CONNECT_MS, connected, 'late')
    return socket
  } catch {
    socket.destroy()
    throw new Error(`Nothing is listening on port ${port}.`)
  }
}

async function openExecution(
  client: DockerClient,
  container: Container,
  request: StreamRequest & { kind: 'terminal' | 'command' },
): Promise<RuntimeStream> {
  const listeners: Array<(value: unknown) => void> = []
  let ended: { exitCode: number } | undefined
  const execution = await startExecution(client, container.Id, executionOrder(request))
  const stream = executionStream(execution, (exitCode) => {
    ended = { exitCode }
    for (const listener of listeners) listener(ended)
  })
  return {
    stream,
    signal: (value) => {
      const size = windowSize.safeParse(value)
      if (size.success && execution.tty) void execution.resize(size.data.columns, size.data.rows)
    },
    onSignal: (listener) => {
      listeners.push(listener)
      if (ended !== undefined) listener(ended)
    },
  }
}

function executionOrder(request: StreamRequest & { kind: 'terminal' | 'command' }): ExecutionOrder {
  if (request.kind === 'command') return { command: request.command }
  const { columns, rows, command } = request
  return { command: command ?? shellCommand(), env: [`TERM=${TERM}`], terminal: { columns, rows } }
}
