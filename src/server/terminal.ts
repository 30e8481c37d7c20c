/** A WebSocket and a stream to a host, joined: bytes both ways with each side holding the other back, and signals. */
import { WebSocket } from 'ws'
import { z } from 'zod'
import type { MuxStream } from '../base/mux.ts'

const BACKLOG_BYTES = 262_144
/** Close reasons have 123 bytes. */
const REASON_BYTES = 123
const GOODBYE_MS = 1_000
/** One is not enough: it is also missed when it is the server that stood still. */
const SILENT_BEATS = 2
/** A window is told its size so often at most; the last one counts. */
const RESIZE_EVERY_MS = 50

const resize = z.strictObject({ columns: z.int().min(1).max(1_000), rows: z.int().min(1).max(1_000) })
const exit = z.object({ exitCode: z.int().nullable() })

export interface TerminalCheck {
  readonly everyMs: number
  /** Asked each time: a key that was revoked ends what was opened with it. */
  stillValid(): Promise<boolean>
}

export function joinTerminal(socket: WebSocket, stream: MuxStream, check: TerminalCheck): void {
  // How often it was asked since it answered, or took what it was sent: on a slow line the one may stand behind much of
  // the other.
  let askedInVain = 0
  let exitCode: number | null | undefined
  const close = (code: number, reason: string): void => {
    socket.close(code, Buffer.from(reason).subarray(0, REASON_BYTES).toString().replaceAll('\uFFFD', ''))
    setTimeout(() => socket.terminate(), GOODBYE_MS).unref()
  }

  const checkKey = async (): Promise<void> => {
    if (await check.stillValid()) return
    stream.destroy()
    close(1008, 'the key is no longer good')
  }
  const beat = setInterval(() => {
    if (askedInVain >= SILENT_BEATS) return socket.terminate()
    askedInVain += 1
    socket.ping()
    void checkKey()
  }, check.everyMs).unref()

  // Signals are not held back as bytes are, so a flood of sizes would pile up on the way to the host.
  let nextSize: z.output<typeof resize> | undefined
  let resting: NodeJS.Timeout | undefined
  const tellSize = (size: z.output<typeof resize>): void => {
    if (resting !== undefined) return void (nextSize = size)
    stream.sendSignal(size)
    resting = setTimeout(() => {
      resting = undefined
      const last = nextSize
      nextSize = undefined
      if (last !== undefined) tellSize(last)
    }, RESIZE_EVERY_MS)
  }

  socket.on('pong', () => (askedInVain = 0))
  socket.on('error', () => socket.terminate())
  socket.once('close', () => {
    clearInterval(beat)
    clearTimeout(resting)
    stream.destroy()
  })
  socket.on('message', (data, isBinary) => {
    if (socket.readyState !== WebSocket.OPEN) return
    askedInVain = 0
    if (!isBinary) {
      const size = readResize((data as Buffer).toString())
      if (size === undefined) return close(1007, 'a text frame is {"columns": …, "rows": …}')
      return tellSize(size)
    }
    if (!stream.write(data)) socket.pause()
  })
  stream.on('drain', () => socket.resume())

  stream.on('signal', (value) => {
    const parsed = exit.safeParse(value)
    if (parsed.success) exitCode = parsed.data.exitCode
  })
  stream.on('data', (piece: Buffer) => {
    socket.send(piece, (error) => {
      if (error === undefined || error === null) askedInVain = 0
      if (socket.bufferedAmount < BACKLOG_BYTES) stream.resume()
    })
    if (socket.bufferedAmount >= BACKLOG_BYTES) stream.pause()
  })
  // The signal may overtake the last bytes; a client that has read it needs to read no further.
  stream.once('end', () => {
    if (exitCode !== undefined) socket.send(JSON.stringify({ exitCode }))
    close(1000, 'it has ended')
  })
  stream.once('error', (error: Error) => close(1011, error.message))
}

function readResize(text: string): z.output<typeof resize> | undefined {
  try {
    return resize.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
