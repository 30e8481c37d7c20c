/**
 * Wake-ups between servers: after a commit, the loops and streams of all servers should look at the database soon. A
 * wake-up carries no data and may be lost, since every loop also looks for work by itself. Notifications are batched and
 * sent outside the transactions, which keeps PostgreSQL's single notification queue out of their commits.
 */
import type { Database } from '../../store/platform/database.ts'
import { notify, type Log } from '../../store/platform/listener.ts'

const CHANNEL = 'berth_wake'
const GATHER_MS = 20
/** PostgreSQL allows 8,000 bytes per notification. */
const PAYLOAD_BYTES = 7_000

export interface Bus {
  /** Wake-ups whose name begins with `prefix` are not for loops: `listener` gets the rest of the name. */
  on(prefix: string, listener: (rest: string) => void): void
  publish(wake: ReadonlySet<string>): void
  close(): void
}

export function openBus(options: {
  database: Database
  log: Log
  wakeLoop: (name: string) => void
  /** Wake-ups of other servers may have been lost. */
  onGap: () => void
}): Bus {
  let gathered = new Set<string>()
  let timer: NodeJS.Timeout | undefined
  const listeners = new Map<string, (rest: string) => void>()
  const wakeUp = (name: string): void => {
    for (const [prefix, wake] of listeners) if (name.startsWith(prefix)) return wake(name.slice(prefix.length))
    options.wakeLoop(name)
  }
  const listener = options.database.notifications.listen({
    channel: CHANNEL,
    onNotification: (payload) => {
      for (const name of payload.split(',')) if (name !== '') wakeUp(name)
    },
    onGap: options.onGap,
  })

  const flush = (): void => {
    timer = undefined
    const payloads = inPieces([...gathered])
    gathered = new Set()
    notify(options.database.pool, CHANNEL, payloads).catch((error: unknown) =>
      options.log.warn({ err: error }, 'could not send a wake-up; the loops run on their timers'),
    )
  }

  return {
    on: (prefix, wake) => void listeners.set(prefix, wake),
    publish: (wake) => {
      if (wake.size === 0) return
      for (const name of wake) {
        wakeUp(name)
        gathered.add(name)
      }
      timer ??= setTimeout(flush, GATHER_MS).unref()
    },
    close: () => {
      clearTimeout(timer)
      listener.close()
    },
  }
}

/** Makes as few comma-separated lists as possible. */
function inPieces(names: readonly string[]): string[] {
  const pieces: string[] = []
  for (const name of names) {
    const last = pieces.at(-1)
    if (last === undefined || last.length + name.length >= PAYLOAD_BYTES) pieces.push(name)
    else pieces[pieces.length - 1] = `${last},${name}`
  }
  return pieces
}
