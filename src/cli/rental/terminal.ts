/** A terminal over a WebSocket: it carries key presses, output and the window size. */
import type { WebSocket } from 'ws'
import { runSession, type SessionTarget } from './session-socket.ts'

/** Ctrl-D. */
const END_OF_INPUT = Buffer.from([4])
/** Ctrl-D may be lost: within a line it ends only that line, and while a program starts it is ignored. So it is repeated. */
const REPEAT_END_MS = 500
const DEFAULT_SIZE = { columns: 80, rows: 24 }

/** Resolves with the exit code. */
export function runTerminal(target: SessionTarget): Promise<number> {
  const { columns, rows } = sizeOf()
  const query = { columns: String(columns), rows: String(rows) }
  return runSession(target, query, { begin: takeOver, receive: (data) => void process.stdout.write(data) })
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
