/** A terminal over a WebSocket: it carries key presses, output, the window size and the exit code. */
import type { IncomingMessage } from 'node:http'
import { WebSocket } from 'ws'
import { apiErrorOf, unreachable } from '../client/error.ts'
import { CliError, exitCodes } from './shell.ts'

/** Server side: server/session-sockets.ts. */
const PROTOCOL = 'berth.terminal'
const HANDSHAKE_MS = 30_000
const MAX_ERROR_BYTES = 65_536
/** Ctrl-D. */
const END_OF_INPUT = Buffer.from([4])
/** Ctrl-D may be lost: within a line it ends only that line, and while a program starts it is ignored. So it is repeated. */
const REPEAT_END_MS = 500
const DEFAULT_SIZE = { columns: 80, rows: 24 }

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
      readError(response).then(reject, reject)
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
      else
        reject(new CliError(exitCodes.failed, `The terminal was disconnected: ${reason.toString() || `code ${code}`}.`))
    })
  })
}

/** Sends key presses as they come. Returns a function that restores this terminal. */
function takeOver(socket: WebSocket): () => void {
  const { stdin, stdout } = process
  const send = (chunk: Buffer): void => {
    socket.send(chunk)
  }
  let ending: NodeJS.Timeout | undefined
  const end = (): void => {
    socket.send(END_OF_INPUT)
    ending = setInterval(() => socket.send(END_OF_INPUT), REPEAT_END_MS)
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
    // An open pipe would keep the command alive; a file cannot be unreferenced.
    if ('unref' in stdin) stdin.unref()
  }
}

function sizeOf(): { columns: number; rows: number } {
  const { columns, rows } = process.stdout
  return columns > 0 && rows > 0 ? { columns, rows } : DEFAULT_SIZE
}

function readExitCode(text: string): number | null | undefined {
  try {
    const { exitCode } = JSON.parse(text) as { exitCode?: number | null }
    return exitCode
  } catch {
    return undefined
  }
}

/** The server answered with an error instead of opening a terminal. */
async function readError(response: IncomingMessage): Promise<unknown> {
  let text = ''
  for await (const chunk of response) {
    text += String(chunk)
    if (text.length > MAX_ERROR_BYTES) break
  }
  const headers = new Headers()
  for (const [name, value] of Object.entries(response.headers)) {
    if (typeof value === 'string') headers.set(name, value)
  }
  return apiErrorOf(response.statusCode ?? 0, headers, text)
}
