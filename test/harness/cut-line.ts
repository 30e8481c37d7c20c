/** A proxy to a server that can be cut and restored: to its clients, the server stops and starts again. */
import { once } from 'node:events'
import net from 'node:net'
import { ownPorts } from './own-port.ts'

interface CutLine {
  readonly url: string
  cut(): Promise<void>
  mend(): Promise<void>
  close(): Promise<void>
}

export async function openLine(serverUrl: string): Promise<CutLine> {
  const { port } = new URL(serverUrl)
  const open = new Set<net.Socket>()
  const listener = net.createServer((near) => {
    const far = net.connect(Number(port), '127.0.0.1')
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        open.delete(one)
        other.destroy()
      })
      one.pipe(other)
    }
  })
  const ownPort = ownPorts()
  const listen = async (): Promise<void> => {
    listener.listen(ownPort, '127.0.0.1')
    await once(listener, 'listening')
  }
  await listen()
  const cut = async (): Promise<void> => {
    const closed = once(listener, 'close')
    listener.close()
    for (const socket of open) socket.destroy()
    await closed
  }
  return {
    url: `http://127.0.0.1:${ownPort}`,
    cut,
    mend: listen,
    close: async () => {
      if (listener.listening) await cut()
    },
  }
}
