/** Connections to a port of a machine through QEMU's forwarded port on the host's loopback. */
import net from 'node:net'
import { contained } from '../../base/net/contained.ts'

const FIRST_BANNER_MS = 1_000
const BANNER_MS = 5_000

/**
 * QEMU accepts every connection, even if nothing listens inside, so only received data counts. Slow machines get more
 * time.
 */
export async function hasBanner(port: number, bootingMs: number): Promise<boolean> {
  const socket = net.connect(port, '127.0.0.1')
  return new Promise((resolve) => {
    const settle = (value: boolean): void => {
      socket.destroy()
      resolve(value)
    }
    socket.setTimeout(Math.min(BANNER_MS, FIRST_BANNER_MS + bootingMs / 10), () => settle(false))
    socket.once(
      'data',
      contained(
        () => settle(false),
        (chunk) => settle(chunk.toString('latin1').startsWith('SSH-')),
      ),
    )
    socket.once('error', () => settle(false))
    socket.once('close', () => settle(false))
  })
}

export function connectTo(port: number, signal: AbortSignal): Promise<net.Socket> {
  const socket = net.connect(port, '127.0.0.1')
  const abort = (): void => void socket.destroy(new Error('The connection was aborted'))
  signal.addEventListener('abort', abort, { once: true })
  socket.once('close', () => signal.removeEventListener('abort', abort))
  if (signal.aborted) abort()
  return new Promise((resolve, reject) => {
    socket.once('connect', () => resolve(socket))
    // This listener stays: the caller may be gone before anyone else listens.
    socket.on('error', reject)
  })
}
