/** Asks a Node process for the size of its heap, over the inspector that it was started with. */
import { WebSocket } from 'undici'

export interface HeapProbe {
  /** MB in use after garbage collection. */
  heapMb(): Promise<number>
  close(): void
}

const ANSWER_WITHIN_MS = 30_000

export async function openHeapProbe(port: number): Promise<HeapProbe> {
  const listed = await fetch(`http://127.0.0.1:${port}/json/list`)
  const [target] = (await listed.json()) as Array<{ webSocketDebuggerUrl: string }>
  if (target === undefined) throw new Error('the inspector shows no process')
  const socket = new WebSocket(target.webSocketDebuggerUrl)
  const waiting = new Map<number, (result: unknown) => void>()
  let asked = 0
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener('open', () => resolve())
    socket.addEventListener('error', () => reject(new Error('the inspector does not answer')))
  })
  socket.addEventListener('message', ({ data }) => {
    const { id, result } = JSON.parse(String(data)) as { id?: number; result?: unknown }
    if (id === undefined) return
    waiting.get(id)?.(result)
    waiting.delete(id)
  })
  const ask = (method: string): Promise<unknown> => {
    asked += 1
    const id = asked
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`${method}: no answer of the inspector`)), ANSWER_WITHIN_MS)
      waiting.set(id, (result) => {
        clearTimeout(late)
        resolve(result)
      })
      socket.send(JSON.stringify({ id, method }))
    })
  }
  return {
    heapMb: async () => {
      await ask('HeapProfiler.collectGarbage')
      const { usedSize } = (await ask('Runtime.getHeapUsage')) as { usedSize: number }
      return usedSize / 2 ** 20
    },
    close: () => socket.close(),
  }
}
