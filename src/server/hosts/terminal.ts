/** Joins a WebSocket and a stream to a host: bytes both ways with back-pressure, and signals. */
import { WebSocket } from 'ws'
import { z } from 'zod'
import { contained } from '../../base/net/contained.ts'
import type { MuxStream } from '../../base/net/mux.ts'

const BACKLOG_BYTES = 262_144
/** Close reasons may have 123 bytes. */
const REASON_BYTES = 123
/** One missed ping is not enough: the server itself may have been suspended. */
const SILENT_BEATS = 2
/** Resizes are sent at most this often; only the last one counts. */
const RESIZE_EVERY_MS = 50

const resize = z.strictObject({ columns: z.int().min(1).max(1_000), rows: z.int().min(1).max(1_000) })
/** The client has no more input. */
const inputEnd = z.strictObject({ end: z.literal(true) })
const fromClient = z.union([resize, inputEnd])
const exit = z.object({ exitCode: z.int().nullable() })

export interface TerminalCheck {
  readonly everyMs: number
  /**
   * Disconnects a client that answers no pings. false: the client may be busy for any time, such as a pager that takes
   * the output of a command; TCP keep-alive detects when its machine is gone.
   */
  readonly needsPongs: boolean
  /** Checked each time: revoking a key ends its terminals. */
  stillValid(): Promise<boolean>
}

export function joinTerminal(socket: WebSocket, stream: MuxStream, check: TerminalCheck): void {
  // Pings since the client answered or took data: on a slow line the answer may queue behind much data.
  let missedPings = 0
  let exitCode: number | null | undefined
  const close = (code: number, reason: string): void => closeWith(socket, code, reason)
  const checkKey = async (): Promise<void> => {
    if (await check.stillValid()) return
    stream.destroy()
    close(1008, 'the key is no longer valid')
  }
  const heartbeat = setInterval(() => {
    if (missedPings >= SILENT_BEATS) return socket.terminate()
    if (check.needsPongs) missedPings += 1
    socket.ping()
    void checkKey()
  }, check.everyMs).unref()

  const sizes = sendSizes(stream)
  socket.on('pong', () => (missedPings = 0))
  socket.on('error', () => socket.terminate())
  socket.once('close', () => {
    clearInterval(heartbeat)
    sizes.stop()
    stream.destroy()
  })
  const take = (data: Buffer, isBinary: boolean): void => {
    if (socket.readyState !== WebSocket.OPEN) return
    missedPings = 0
    if (!isBinary) {
      const message = readMessage(data.toString())
      if (message === undefined) {
        return close(1007, 'text messages must be {"columns": …, "rows": …} or {"end": true}')
      }
      return void ('end' in message ? stream.end() : sizes.send(message))
    }
    if (stream.writableEnded) return close(1007, 'no input can follow {"end": true}')
    if (!stream.write(data)) socket.pause()
  }
  const end = (): void => socket.terminate()
  socket.on(
    'message',
    contained(end, (data, isBinary) => take(data as Buffer, isBinary)),
  )
  stream.on('drain', () => socket.resume())

  const takeSignal = (value: unknown): void => {
    const parsed = exit.safeParse(value)
    if (parsed.success) exitCode = parsed.data.exitCode
  }
  const show = (piece: Buffer): void => {
    socket.send(piece, (error) => {
      if (error === undefined || error === null) missedPings = 0
      if (socket.bufferedAmount < BACKLOG_BYTES) stream.resume()
    })
    if (socket.bufferedAmount >= BACKLOG_BYTES) stream.pause()
  }
  stream.on('signal', contained(end, takeSignal))
  stream.on('data', contained(end, show))
  // The signal may overtake the last bytes; a client that has read it may stop reading.
  stream.once('end', () => {
    if (exitCode !== undefined) socket.send(JSON.stringify({ exitCode }))
    // A closing connection has a time limit, and a slow client may need longer to read the last bytes.
    socket.ping(undefined, undefined, () => close(1000, 'the session has ended'))
  })
  stream.once('error', (error: Error) => close(1011, error.message))
}

function closeWith(socket: WebSocket, code: number, reason: string): void {
  socket.close(code, Buffer.from(reason).subarray(0, REASON_BYTES).toString().replaceAll('\uFFFD', ''))
  // Unread input would reset the connection, and the client would lose the last output.
  socket.resume()
}

/** Limits the rate of resizes: signals have no back-pressure, so a flood would pile up on the way to the host. */
function sendSizes(stream: MuxStream): { send: (size: z.output<typeof resize>) => void; stop: () => void } {
  let nextSize: z.output<typeof resize> | undefined
  let timer: NodeJS.Timeout | undefined
  const send = (size: z.output<typeof resize>): void => {
    if (timer !== undefined) return void (nextSize = size)
    stream.sendSignal(size)
    timer = setTimeout(() => {
      timer = undefined
      const last = nextSize
      nextSize = undefined
      if (last !== undefined) send(last)
    }, RESIZE_EVERY_MS)
  }
  return { send, stop: () => clearTimeout(timer) }
}

function readMessage(text: string): z.output<typeof fromClient> | undefined {
  try {
    return fromClient.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
