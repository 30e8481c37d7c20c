/** Followers of event streams as bare sockets, so that thousands of them fit into the bench. */
import net from 'node:net'

const OPEN_AT_A_TIME = 100

export interface Follower {
  readonly socket: net.Socket
  /** Events received; heartbeats do not count. */
  events: number
}

export interface Followers {
  readonly all: readonly Follower[]
  /** Resolves when each has received this many events. */
  untilAllHave(events: number): Promise<void>
  close(): void
}

/** One for each key. Resolves when all of them have the first bytes of their stream. */
export async function follow(url: string, keys: readonly string[], { reads = true } = {}): Promise<Followers> {
  const { hostname, port } = new URL(url)
  const all: Follower[] = []
  /** Called with those that have received an event. */
  let received: (one: Follower, found: number) => void = () => {}
  const open = (key: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = net.connect(Number.parseInt(port, 10), hostname)
      const follower = { socket, events: 0 }
      all.push(follower)
      let isOpen = false
      socket.write(
        `GET /v2/events/stream HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${key}\r\nAccept: text/event-stream\r\n\r\n`,
      )
      socket.on('data', (bytes) => {
        if (!isOpen) {
          isOpen = true
          const head = bytes.toString('latin1', 0, 40)
          if (!head.startsWith('HTTP/1.1 200')) return reject(new Error(`no stream: ${bytes.toString()}`))
          resolve()
          if (!reads) socket.pause()
        }
        const found = countEvents(bytes)
        if (found === 0) return
        follower.events += found
        received(follower, found)
      })
      socket.on('error', reject)
    })
  const waiting = [...keys]
  const worker = async (): Promise<void> => {
    for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) await open(key)
  }
  await Promise.all(Array.from({ length: OPEN_AT_A_TIME }, worker))
  return {
    all,
    untilAllHave: (events) =>
      new Promise((resolve) => {
        let left = all.filter((one) => one.events < events).length
        if (left === 0) return resolve()
        received = (one, found) => {
          if (one.events >= events && one.events - found < events) left -= 1
          if (left === 0) resolve()
        }
      }),
    close: () => all.forEach(({ socket }) => socket.destroy()),
  }
}

/** An event begins with its id; a chunk always has whole events, which are small. */
function countEvents(bytes: Buffer): number {
  let found = 0
  for (let at = bytes.indexOf('id: '); at !== -1; at = bytes.indexOf('id: ', at + 4)) found += 1
  return found
}
