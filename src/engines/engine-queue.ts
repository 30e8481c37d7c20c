import { fail, type Failure, type Result } from '../contract/result.ts'

interface Lane {
  /** How many are worked on at once. */
  readonly places: number
  active: number
  /** Units of work that were taken and not yet done, waiting ones included. */
  outstandingUnits: number
  /** Since when it is busy without a break; undefined: it is idle. */
  busySince: number | undefined
  busyMs: number
  doneUnits: number
}

interface Waiting {
  readonly lane: Lane
  readonly begin: () => void
  readonly onAhead: ((ahead: number) => void) | undefined
  /** What was told last. */
  ahead: number | undefined
}

const MIN_RETRY_MS = 1_000
const MAX_RETRY_MS = 600_000
/** Past this the record counts half, so that the estimate follows what is now. */
const RECORD_MS = 300_000

/**
 * Requests that wait for a place. Each lane has places of its own and works on its requests side by side; all lanes
 * share the room for waiting. The estimate of a wait is from what the lane has done until now.
 */
export class WorkQueue {
  readonly #limit: number
  readonly #lanes: ReadonlyMap<string, Lane>
  readonly #waiting: Waiting[] = []
  #total = 0

  /** `msPerUnit`: a guess, used until the lane has done something. */
  constructor(limit: number, lanes: Readonly<Record<string, { places: number; msPerUnit: number }>>) {
    this.#limit = limit
    this.#lanes = new Map(
      Object.entries(lanes).map(([name, { places, msPerUnit }]) => [
        name,
        { places, active: 0, outstandingUnits: 0, busySince: undefined, busyMs: msPerUnit, doneUnits: 1 },
      ]),
    )
  }

  get places(): number {
    return [...this.#lanes.values()].reduce((sum, lane) => sum + lane.places, 0)
  }

  /**
   * Waits for a place and works. Full: `unavailable`, at once. Throws the signal's reason when it is aborted before.
   * While it waits, `onAhead` hears how many of its lane come before it, those that are worked on included.
   */
  async run<T>(
    laneName: string,
    units: number,
    signal: AbortSignal,
    work: () => Promise<Result<T>>,
    onAhead?: (ahead: number) => void,
  ): Promise<Result<T>> {
    const lane = this.#lanes.get(laneName)
    if (lane === undefined) throw new Error(`no lane ${laneName}`)
    if (lane.active >= lane.places && this.#waiting.length >= this.#limit) return this.#full(lane)
    this.#total += 1
    lane.outstandingUnits += units
    try {
      if (lane.active >= lane.places) await this.#wait(lane, signal, onAhead)
      else enter(lane)
    } catch (cause) {
      lane.outstandingUnits -= units
      throw cause
    }
    try {
      const result = await work()
      lane.doneUnits += units
      return result
    } finally {
      lane.outstandingUnits -= units
      this.#leave(lane)
    }
  }

  metricsText(): string {
    const active = [...this.#lanes.values()].reduce((sum, lane) => sum + lane.active, 0)
    return [
      ['requests_processing', 'gauge', 'Requests that are worked on', active],
      ['requests_deferred', 'gauge', 'Requests that wait for a place', this.#waiting.length],
      ['requests_total', 'counter', 'Requests that were taken, since the start', this.#total],
    ]
      .flatMap(([name, type, help, value]) => [
        `# HELP berth_engine_${name} ${help}`,
        `# TYPE berth_engine_${name} ${type}`,
        `berth_engine_${name} ${value}`,
      ])
      .join('\n')
      .concat('\n')
  }

  /** Resolved with a place taken. */
  #wait(lane: Lane, signal: AbortSignal, onAhead: Waiting['onAhead']): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        reject(signal.reason as Error)
        this.#tellAhead(lane)
      }
      const waiting: Waiting = {
        lane,
        onAhead,
        ahead: undefined,
        begin: () => {
          signal.removeEventListener('abort', leave)
          resolve()
        },
      }
      if (signal.aborted) return reject(signal.reason as Error)
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(waiting)
      this.#tellAhead(lane)
    })
  }

  #tellAhead(lane: Lane): void {
    for (const [i, waiting] of this.#waiting.filter((one) => one.lane === lane).entries()) {
      const ahead = lane.active + i
      if (waiting.ahead === ahead) continue
      waiting.ahead = ahead
      waiting.onAhead?.(ahead)
    }
  }

  #leave(lane: Lane): void {
    lane.active -= 1
    const next = this.#waiting.findIndex((waiting) => waiting.lane === lane)
    const [first] = next < 0 ? [] : this.#waiting.splice(next, 1)
    if (first !== undefined) {
      enter(lane)
      first.begin()
      this.#tellAhead(lane)
    }
    record(lane)
  }

  #full(lane: Lane): Failure {
    record(lane)
    const ms = (lane.outstandingUnits * lane.busyMs) / lane.doneUnits
    const retryAfterMs = Math.min(Math.max(ms, MIN_RETRY_MS), MAX_RETRY_MS)
    return fail('queue_full', { waiting: this.#waiting.length, retryAfterMs })
  }
}

function enter(lane: Lane): void {
  lane.active += 1
  lane.busySince ??= performance.now()
}

/** Adds the time since it was last done to the record. */
function record(lane: Lane): void {
  const now = performance.now()
  lane.busyMs += lane.busySince === undefined ? 0 : now - lane.busySince
  lane.busySince = lane.active > 0 ? now : undefined
  if (lane.busyMs <= RECORD_MS) return
  lane.busyMs /= 2
  lane.doneUnits /= 2
}
