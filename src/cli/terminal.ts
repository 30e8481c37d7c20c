/** A terminal over a WebSocket: this terminal's keys there, what is written there here, its size, and its exit code. */
import type { IncomingMessage } from 'node:http'
import { WebSocket } from 'ws'
import { apiErrorOf, unreachable } from '../client/error.ts'
import { CliError, exitCodes } from './shell.ts'

/** Server side: server/session-sockets.ts. */
const PROTOCOL = 'berth.terminal'
const HANDSHAKE_MS = 30_000
const REFUSAL_BYTES = 65_536
/** What a terminal takes for the end of the input. */
const END_OF_INPUT = Buffer.from([4])
/** It may be lost: one in a line that was begun ends only that, and one that comes while a program starts is forgotten. */
const END_AGAIN_MS = 500
const USUAL_SIZE = { columns: 80, rows: 24 }

export interface TerminalOptions {
  readonly url: string
  readonly key: string
  readonly rentalId: number
  /** Empty: a shell. */
  readonly command: readonly string[]
}

/** Resolves with the exit code. */
export function runTerminal(options: TerminalOptions): Promise<number> {
  const { url, key, rentalId, command } = options
  const size = sizeOf()
  const query = new URLSearchParams({ columns: String(size.columns), rows: String(size.rows) })
  for (const word of command) query.append('command', word)
  const address = `${url.replace(/^http/, 'ws')}/v2/alpha/on-demand/rentals/${rentalId}/terminal?${query.toString()}`
  const socket = new WebSocket(address, PROTOCOL, {
    headers: { Authorization: `Bearer ${key}` },
    handshakeTimeout: HANDSHAKE_MS,
  })
  return new Promise((resolve, reject) => {
    let exitCode: number | null | undefined
    let leave = (): void => {}
    socket.once('open', () => {
      leave = takeOver(socket)
    })
    socket.once('unexpected-response', (_, response) => {
      readRefusal(response).then(reject, reject)
    })
    socket.once('error', (error) => {
      leave()
      reject(unreachable(url, error))
    })
    socket.on('message', (data, isBinary) => {
      if (isBinary) process.stdout.write(data as Buffer)
      else exitCode = readExitCode((data as Buffer).toString())
    })
    socket.once('close', (code, reason) => {
      leave()
      if (typeof exitCode === 'number') resolve(exitCode)
      else if (code === 1_000) resolve(exitCode === null ? exitCodes.failed : exitCodes.ok)
      else reject(new CliError(exitCodes.failed, `The terminal was cut: ${reason.toString() || `code ${code}`}.`))
    })
  })
}

/** Takes this terminal's keys as they are pressed. Returns how to give it back. */
function takeOver(socket: WebSocket): () => void {
  const { stdin, stdout } = process
  const send = (chunk: Buffer): void => {
    socket.send(chunk)
  }
  let ending: NodeJS.Timeout | undefined
  const end = (): void => {
    socket.send(END_OF_INPUT)
    ending = setInterval(() => socket.send(END_OF_INPUT), END_AGAIN_MS)
  }
  const resize = (): void => socket.send(JSON.stringify(sizeOf()))
  if (stdin.isTTY) stdin.setRawMode(true)
  stdin.on('data', send)
  stdin.once('end', end)
  stdout.on('resize', resize)
  return () => {
    stdin.off('data', send)
    stdin.off('end', end)
    clearInterval(ending)
    stdout.off('resize', resize)
    if (stdin.isTTY) stdin.setRawMode(false)
    stdin.pause()
    // A pipe whose other end stays open would keep the command alive; a file has no other end.
    if ('unref' in stdin) stdin.unref()
  }
}

function sizeOf(): { columns: number; rows: number } {
  const { columns, rows } = process.stdout
  return columns > 0 && rows > 0 ? { columns, rows } : USUAL_SIZE
}

function readExitCode(text: string): number | null | undefined {
  try {
    const { exitCode } = JSON.parse(text) as { exitCode?: number | null }
    return exitCode
  } catch {
    return undefined
  }
}

/** The server has answered instead of opening one. */
async function readRefusal(response: IncomingMessage): Promise<unknown> {
  let text = ''
  for await (const chunk of response) {
    text += String(chunk)
    if (text.length > REFUSAL_BYTES) break
  }
  const headers = new Headers()
  for (const [name, value] of Object.entries(response.headers)) {
    if (typeof value === 'string') headers.set(name, value)
  }
  return apiErrorOf(response.statusCode ?? 0, headers, text)
}
