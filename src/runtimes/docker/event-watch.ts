/**
 * Follows the daemon's events for our containers. An event triggers a new scan, and tells a failed workload from an
 * interrupted one: a container that exits while the stream is open has failed by itself; one that exits while it is not
 * (restart of the agent, the daemon or the host) has not, and is started again.
 */
import { parseInstant, type Instant } from '../../base/instant.ts'
import { filterOf, type DockerClient } from './client.ts'
import { TAG_LABEL } from './container-order.ts'
import { readJsonLines } from './json-lines.ts'

const BACK_OFF_MS = [100, 200, 500, 1_000, 2_000, 5_000] as const

export class EventWatch {
  readonly #client: DockerClient
  readonly #onError: (what: string, error: unknown) => void
  readonly #listeners = new Set<() => void>()
  readonly #closing = new AbortController()
  #watchingSince: Instant | undefined

  constructor(client: DockerClient, onError: (what: string, error: unknown) => void) {
    this.#client = client
    this.#onError = onError
    void this.#run()
  }

  /** Whether it exited while we were watching, by the daemon's clock. */
  saw(finishedAt: string): boolean {
    const at = parseInstant(finishedAt)
    return this.#watchingSince !== undefined && at !== undefined && at > this.#watchingSince
  }

  listen(changed: () => void): () => void {
    this.#listeners.add(changed)
    return () => this.#listeners.delete(changed)
  }

  close(): void {
    this.#closing.abort()
    this.#listeners.clear()
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing
    let failures = 0
    while (!signal.aborted) {
      try {
        await this.#follow(() => (failures = 0))
      } catch (error) {
        // Reported once, not with every attempt while the daemon is down.
        if (failures === 0 && !signal.aborted) this.#onError('events of the container engine', error)
      }
      this.#watchingSince = undefined
      if (signal.aborted) return
      this.notify()
      const waitMs = BACK_OFF_MS[Math.min(failures, BACK_OFF_MS.length - 1)] ?? 5_000
      failures += 1
      await pause(waitMs, signal)
    }
  }

  async #follow(connected: () => void): Promise<void> {
    const { signal } = this.#closing
    const events = ['start', 'die', 'oom', 'destroy']
    const filters = filterOf({ type: ['container'], event: events, label: [TAG_LABEL] })
    const body = await this.#client.stream('GET', '/events', { query: { filters }, signal })
    try {
      // Read after the stream is open: any later exit is seen.
      const info = await this.#client.info(signal)
      this.#watchingSince = info.SystemTime === undefined ? undefined : parseInstant(info.SystemTime)
      connected()
      this.notify()
      for await (const event of readJsonLines(body)) {
        void event
        this.notify()
      }
    } finally {
      body.destroy()
    }
  }

  /** Asks for a new scan. */
  notify(): void {
    for (const listener of this.#listeners) listener()
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms)
    function done(): void {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    signal.addEventListener('abort', done)
  })
}
