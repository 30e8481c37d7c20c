/** A proxy that cuts one connection at a chosen moment, and forwards all others. */
import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'

/** Before the server hears of it, within the request, when the server has answered, and within the answer. */
export const cuts = ['before', 'within-request', 'after', 'within-answer'] as const
export type Cut = (typeof cuts)[number]

export interface CuttingProxy {
  readonly url: string
  /** The next request is cut. */
  arm(cut: Cut): void
  /** How many requests were cut. */
  cutCount(): number
  close(): Promise<void>
}

export async function openCuttingProxy(serverUrl: string): Promise<CuttingProxy> {
  let armed: Cut | undefined
  let count = 0
  const open = new Set<net.Socket>()
  const listener = net.createServer((near) => {
    const far = net.connect(Number(new URL(serverUrl).port), '127.0.0.1')
    let cut: Cut | undefined
    const end = (): void => {
      count += 1
      cut = undefined
      near.resetAndDestroy()
      far.destroy()
    }
    for (const socket of [near, far]) {
      open.add(socket)
      socket.on('error', () => [near, far].forEach((one) => one.destroy()))
      socket.on('close', () => {
        open.delete(socket)
        for (const one of [near, far]) one.destroy()
      })
    }
    near.on('data', (bytes: Buffer) => {
      // A connection may carry several requests: the one after `arm` is cut.
      if (armed !== undefined) [cut, armed] = [armed, undefined]
      if (cut === 'before') return end()
      if (cut === 'within-request') return far.write(bytes.subarray(0, bytes.length >> 1), end)
      far.write(bytes)
    })
    far.on('data', (bytes: Buffer) => {
      if (cut === 'after') return end()
      if (cut === 'within-answer') return near.write(bytes.subarray(0, bytes.length >> 1), end)
      near.write(bytes)
    })
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  return {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    arm: (cut) => {
      armed = cut
    },
    cutCount: () => count,
    close: async () => {
      const closed = once(listener, 'close')
      listener.close()
      for (const socket of open) socket.destroy()
      await closed
    },
  }
}
