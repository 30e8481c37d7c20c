/**
 * Reading of accepted sockets into one buffer for all of them. Node gives this to sockets that connect (`onread`); for
 * each read of an accepted one it allocates 64 KiB anew, which is a good part of what a small request costs. The same
 * fields do their work on an accepted socket, so they are looked up on a socket that has them. Where they cannot be
 * found, sockets are read in the usual way.
 */
import { Socket, type SocketConstructorOpts } from 'node:net'

const BUFFER_BYTES = 65_536

export interface SharedBufferRead {
  /** From here on what is read goes into the stream, for whoever listens there. */
  end(): void
}

type Internals = Socket & { _handle?: { useUserBuffer?: (buffer: Uint8Array) => void } | null } & Record<
    symbol,
    unknown
  >

const buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES)
const fields = findFields()

/** `listener` is given bytes that are only valid during the call. */
export function readIntoSharedBuffer(socket: Socket, listener: (bytes: Buffer) => void): SharedBufferRead {
  const inside = socket as Internals
  const { _handle: handle } = inside
  if (fields === undefined || typeof handle?.useUserBuffer !== 'function') {
    socket.on('data', listener)
    return { end: () => void socket.off('data', listener) }
  }
  let isEnded = false
  inside[fields.buffer] = buffer
  inside[fields.make] = null
  inside[fields.callback] = (length: number): boolean => {
    if (isEnded) return socket.push(Buffer.from(buffer.subarray(0, length)))
    listener(buffer.subarray(0, length))
    return true
  }
  handle.useUserBuffer(buffer)
  return { end: () => void (isEnded = true) }
}

function findFields(): { buffer: symbol; callback: symbol; make: symbol } | undefined {
  const options = { onread: { buffer: Buffer.alloc(1), callback: () => true } }
  const sample = new Socket(options as SocketConstructorOpts)
  const named = new Map(Object.getOwnPropertySymbols(sample).map((symbol) => [symbol.description, symbol]))
  sample.destroy()
  const [buffer, callback, make] = [named.get('kBuffer'), named.get('kBufferCb'), named.get('kBufferGen')]
  if (buffer === undefined || callback === undefined || make === undefined) return undefined
  return { buffer, callback, make }
}
