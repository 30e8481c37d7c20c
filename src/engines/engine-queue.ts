/** The request queue of the speech, image and embedding engines. */
import { fail, type Failure, type Result } from '../contract/result.ts'

interface Lane {
  /** How many requests are processed at once. */
  readonly places: number
  active: number
  /** Units of work accepted but not finished, including waiting ones. */
  outstandingUnits: number
  /** Busy since; undefined: idle. */
  busySince: number | undefined
  busyMs: number
  doneUnits: number
}

interface Waiting {
  readonly lane: Lane
  readonly begin: () => void
  readonly onAhead: ((ahead: number) => void) | undefined
  /** Last reported. */
  ahead: number | undefined
}

const MIN_RETRY_MS = 1_000
const MAX_RETRY_MS = 600_000
/** Beyond this the measurements are halved, so that the estimate follows the current speed. */
const RECORD_MS = 300_000

/**
 * A bounded queue with lanes. Each lane processes a number of requests at once; all lanes share the queue's limit. The
 * estimated wait is based on the lane's measured speed.
 */
export class WorkQueue {
  readonly #limit: number
  readonly #lanes: ReadonlyMap<string, Lane>
  readonly #waiting: Waiting[] = []
  #total = 0

  /** `msPerUnit`: an estimate, used until the lane has finished something. */
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
   * Waits for a place, then runs `work`. A full queue fails at once. Throws the signal's reason if it is aborted while
   * waiting. `onAhead` gets the number of requests ahead in its lane, including those being processed.
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
      ['requests_processing', 'gauge', 'Requests being processed', active],
      ['requests_deferred', 'gauge', 'Requests waiting in the queue', this.#waiting.length],
      ['requests_total', 'counter', 'Requests accepted since the start', this.#total],
    ]
      .flatMap(([name, type, help, value]) => [
        `# HELP berth_engine_${name} ${help}`,
        `# TYPE berth_engine_${name} ${type}`,
        `berth_engine_${name} ${value}`,
      ])
      .join('\n')
      .concat('\n')
  }

  /** Resolves once it has a place. */
  #wait(lane: Lane, signal: AbortSignal, onAhead: Waiting['onAhead']): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        reject(signal.reason as Error)
        this.#reportAhead(lane)
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
      this.#reportAhead(lane)
    })
  }

  #reportAhead(lane: Lane): void {
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
      this.#reportAhead(lane)
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

/** Adds the busy time since the last call. */
function record(lane: Lane): void {
  const now = performance.now()
  lane.busyMs += lane.busySince === undefined ? 0 : now - lane.busySince
  lane.busySince = lane.active > 0 ? now : undefined
  if (lane.busyMs <= RECORD_MS) return
  lane.busyMs /= 2
  lane.doneUnits /= 2
}
