/**
 * The control socket of a running agent, for `berth agent status` and the like: a unix socket in its folder that only
 * its own user can open. One line of JSON per request and reply.
 */
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { z } from 'zod'
import { contained } from '../base/net/contained.ts'
import { AgentError } from './agent-error.ts'
import type { AgentFolder } from './folder.ts'

const controlRequest = z.discriminatedUnion('command', [
  z.object({ command: z.literal('status') }),
  /** Ends the agent with a status that asks its supervisor to start it again. */
  z.object({ command: z.literal('restart') }),
  z.object({ command: z.literal('move'), to: z.enum(['ready', 'draining', 'left']) }),
])
export type ControlRequest = z.output<typeof controlRequest>

const controlReply = z.union([
  z.object({ ok: z.literal(true), value: z.unknown() }),
  z.object({ ok: z.literal(false), message: z.string() }),
])
type ControlReply = z.output<typeof controlReply>

const SOCKET_NAME = 'control.sock'
/** The kernel's limit is 108 bytes with the terminating zero. */
const MAX_PATH_BYTES = 107
const MAX_LINE_CHARS = 65_536
/** This is longer than the server may take to answer a move. */
const ASK_MS = 20_000

export async function serveControl(
  folder: AgentFolder,
  answer: (request: ControlRequest) => Promise<unknown>,
): Promise<{ close(): void }> {
  const file = socketPath(folder)
  // We hold the folder's lock, so an existing socket is stale.
  fs.rmSync(file, { force: true })
  const server = net.createServer((socket) => {
    socket.setTimeout(ASK_MS, () => socket.destroy())
    // The client may disconnect before the reply.
    socket.on('error', () => {})
    readLine(socket, (line) => {
      void replyTo(line, answer).then((reply) => socket.end(`${JSON.stringify(reply)}\n`))
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(file, resolve)
  })
  fs.chmodSync(file, 0o600)
  return { close: () => void server.close() }
}

/** undefined: no agent is running in that folder. */
export function askControl(folder: AgentFolder, request: ControlRequest): Promise<{ value: unknown } | undefined> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(socketPath(folder))
    socket.setTimeout(ASK_MS, () => socket.destroy(new AgentError('The agent did not respond in time.')))
    socket.on('connect', () => socket.write(`${JSON.stringify(request)}\n`))
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ECONNREFUSED') resolve(undefined)
      else reject(error)
    })
    socket.on('close', () => reject(new AgentError('The agent stopped before it responded.')))
    readLine(socket, (line) => {
      const reply = controlReply.safeParse(parseJson(line))
      if (!reply.success) reject(new AgentError('The agent sent an invalid reply.'))
      else if (reply.data.ok) resolve({ value: reply.data.value })
      else reject(new AgentError(reply.data.message))
      socket.destroy()
    })
  })
}

async function replyTo(line: string, answer: (request: ControlRequest) => Promise<unknown>): Promise<ControlReply> {
  const request = controlRequest.safeParse(parseJson(line))
  if (!request.success)
    return { ok: false, message: 'The agent does not support this request; it may be an older version.' }
  try {
    return { ok: true, value: (await answer(request.data)) ?? null }
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : String(error) }
  }
}

function readLine(socket: net.Socket, onLine: (line: string) => void): void {
  let text = ''
  let isDone = false
  socket.setEncoding('utf8')
  const read = (part: string): void => {
    if (isDone) return
    text += part
    const end = text.indexOf('\n')
    if (end === -1 && text.length > MAX_LINE_CHARS) socket.destroy()
    if (end === -1) return
    isDone = true
    onLine(text.slice(0, end))
  }
  socket.on(
    'data',
    contained((error) => socket.destroy(error), read),
  )
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function socketPath(folder: AgentFolder): string {
  const file = path.join(folder.dir, SOCKET_NAME)
  if (Buffer.byteLength(file) <= MAX_PATH_BYTES) return file
  throw new AgentError(`The path of the agent's folder is too long for a socket: ${folder.dir}.`, [
    'Choose a shorter one with --dir.',
  ])
}
