/** The WebSocket of a program in a container: its bytes, and its exit code at the end. Server: server/hosts/session-sockets.ts. */
import type { IncomingMessage } from 'node:http'
import { WebSocket } from 'ws'
import { apiErrorOf, unreachable } from '../../client/error.ts'
import { sentence } from '../kit/failure.ts'
import { CliError, exitCodes } from '../kit/shell.ts'

const PROTOCOL = 'berth.terminal'
const HANDSHAKE_MS = 30_000
const MAX_ERROR_BYTES = 65_536

export interface SessionTarget {
  readonly url: string
  readonly key: string
  readonly rentalId: number
  /** Empty: a shell. */
  readonly command: readonly string[]
}

export interface SocketUse {
  /** Ends the session. */
  readonly signal?: AbortSignal
  /** Called when the connection is open. Returns what to do when it is over, however it ends. */
  readonly begin: (socket: WebSocket) => () => void
  readonly receive: (data: Buffer, socket: WebSocket) => void
}

/** Resolves with the exit code. */
export function runSession(
  { url, key, rentalId, command }: SessionTarget,
  query: Readonly<Record<string, string>>,
  { begin, receive, signal }: SocketUse,
): Promise<number> {
  const words = new URLSearchParams(query)
  for (const word of command) words.append('command', word)
  const address = `${url.replace(/^http/, 'ws')}/v2/rentals/${rentalId}/terminal?${words.toString()}`
  const socket = new WebSocket(address, PROTOCOL, {
    headers: { Authorization: `Bearer ${key}` },
    handshakeTimeout: HANDSHAKE_MS,
  })
  signal?.addEventListener('abort', () => socket.terminate(), { once: true })
  return new Promise((resolve, reject) => {
    let exitCode: number | null | undefined
    let finish = (): void => {}
    socket.once('open', () => {
      finish = begin(socket)
    })
    socket.once('unexpected-response', (_, response) => {
      readError(response).then(reject, reject)
    })
    socket.once('error', (error) => {
      finish()
      reject(unreachable(url, error))
    })
    socket.on('message', (data, isBinary) => {
      if (isBinary) receive(data as Buffer, socket)
      else exitCode = readExitCode((data as Buffer).toString())
    })
    socket.once('close', (code, reason) => {
      finish()
      if (typeof exitCode === 'number') resolve(exitCode)
      else if (code === 1_000) resolve(exitCode === null ? exitCodes.failed : exitCodes.ok)
      else
        reject(
          new CliError(
            exitCodes.failed,
            sentence(`The connection to the machine was closed: ${reason.toString() || `code ${code}`}`),
            ['To check on it: berth ls'],
          ),
        )
    })
  })
}

function readExitCode(text: string): number | null | undefined {
  try {
    const { exitCode } = JSON.parse(text) as { exitCode?: number | null }
    return exitCode
  } catch {
    return undefined
  }
}

/** The server answered with an error instead of opening a session. */
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
