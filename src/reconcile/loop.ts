/**
 * Runs the reconcilers. A reconciler takes no input: it reads the database, finds what is due and acts, so it does not
 * matter why or how often it is woken, and a missed wake-up costs only a delay. Each runs when woken, and either on a
 * timer or when it has work, which one statement asks for all loops; never twice at once on one server. Several servers
 * share the work by leases on rows and turns of loops (store/platform/lease.ts).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { addMs, type Clock, type Instant } from '../base/instant.ts'
import type { Metrics } from '../base/metrics.ts'
import { signalWithin } from '../base/signal-within.ts'
import type { DueWork } from '../store/platform/due-work.ts'

export type Reconciler = TimedReconciler | DueReconciler

interface TimedReconciler extends Pass {
  readonly everyMs: number
}

interface DueReconciler extends Pass {
  /** SQL that is true while the loop has work. */
  readonly due: DueWork
}

interface Pass {
  readonly name: string
  /** One pass. True: there may be more to do immediately. */
  run(signal: AbortSignal): Promise<boolean>
}

export interface Loops {
  wake(name: string): void
  /** Reports a write to the database: loops may have work sooner than expected. */
  noteChange(): void
  /** Resolves when the passes in progress have ended. */
  stop(): Promise<void>
}

const GATHER_MS = 10
/**
 * At the start of the server, loops make their first passes one after another, or at most this far apart: all at once,
 * each would open a connection.
 */
const FIRST_PASSES_APART_MS = 50
const DUE_EVERY_MS = 1_000
/** If no work becomes due within this time, the next check is at its end, or after a write. */
const LOOK_AHEAD_MS = 5_000
/**
 * The pause after a pass is this many times its duration, up to a limit, so that no loop uses a whole core when there
 * are many rentals.
 */
const REST_FACTOR = 4
const MAX_REST_MS = 5_000
const BACK_OFF_MS = [500, 1_000, 2_000, 5_000, 10_000, 30_000] as const

interface Asking {
  readonly clock: Clock
  /** Which loops have work at an instant (store/platform/due-work.ts). */
  readonly readDue: (loops: ReadonlyMap<string, DueWork>, at: Instant) => Promise<readonly string[]>
}

interface LoopTools extends Asking {
  readonly onError: (name: string, error: unknown) => void
  readonly metrics?: Metrics
}

export function startLoops(reconcilers: readonly Reconciler[], tools: LoopTools): Loops {
  const record = recordPasses(tools.metrics)
  const stop = new AbortController()
  const stopped = new Promise((resolve) => stop.signal.addEventListener('abort', resolve))
  const loops = new Map<string, Loop>()
  const due = new Map(reconcilers.flatMap((one) => ('due' in one ? [[one.name, one.due] as const] : [])))
  const { askAll, noteChange } = askForWork(tools, due, (name) => {
    const loop = loops.get(name)
    if (loop?.isIdle === true) loop.wake()
  })
  let turn: Promise<unknown> = Promise.resolve()
  const running = [askAll, ...reconcilers].map((reconciler) => {
    const loop = new Loop(reconciler, { signal: stop.signal, onError: tools.onError, noteChange, record })
    loops.set(reconciler.name, loop)
    const ownTurn = turn
    turn = Promise.race([loop.firstPass, ownTurn.then(() => Promise.race([stopped, delay(FIRST_PASSES_APART_MS)]))])
    return ownTurn.then(() => loop.run())
  })
  return {
    wake: (name) => {
      noteChange()
      loops.get(name)?.wake()
    },
    noteChange,
    stop: async () => {
      stop.abort()
      for (const loop of loops.values()) loop.wake()
      await Promise.all(running)
    },
  }
}

type RecordPass = (loop: string, outcome: 'ok' | 'error', ms: number) => void

function recordPasses(metrics: Metrics | undefined): RecordPass {
  const passes = metrics?.counter('berth_reconcile_passes_total', 'Reconciler passes, by loop and outcome')
  const seconds = metrics?.histogram(
    'berth_reconcile_seconds',
    'Duration of a reconciler pass',
    [0.005, 0.02, 0.1, 0.5, 2, 10, 60],
  )
  return (loop, outcome, ms) => {
    passes?.add({ loop, outcome })
    seconds?.observe(ms / 1_000, { loop })
  }
}

interface PassTools extends Pick<LoopTools, 'onError'> {
  readonly signal: AbortSignal
  readonly noteChange: () => void
  readonly record: RecordPass
}

/** Runs one reconciler, pass after pass. */
class Loop {
  readonly firstPass: Promise<void>
  /** Whether the loop waits for work, rather than for its retry after an error. */
  isIdle = false
  readonly #reconciler: Reconciler
  readonly #tools: PassTools
  #endFirstPass = (): void => {}
  #failures = 0
  #isWoken = false
  #wakeUp = (): void => {}

  constructor(reconciler: Reconciler, tools: PassTools) {
    this.#reconciler = reconciler
    this.#tools = tools
    this.firstPass = new Promise((resolve) => (this.#endFirstPass = resolve))
  }

  wake(): void {
    this.#isWoken = true
    this.#wakeUp()
  }

  async run(): Promise<void> {
    const { signal, noteChange } = this.#tools
    while (!signal.aborted) {
      this.#isWoken = false
      const waitMs = await this.#pass()
      if (signal.aborted) return
      if ('due' in this.#reconciler) noteChange()
      this.#endFirstPass()
      this.isIdle = waitMs === undefined
      if (waitMs !== 0) await this.#pause(waitMs)
      this.isIdle = false
      // Under load, wake-ups arrive in bursts; a short wait turns a burst into one pass.
      if (this.#isWoken) await new Promise((resolve) => setTimeout(resolve, GATHER_MS))
    }
  }

  /** Returns the pause until the next pass. undefined: until there is work. */
  async #pass(): Promise<number | undefined> {
    const { name } = this.#reconciler
    const { signal, record, onError } = this.#tools
    const everyMs = 'everyMs' in this.#reconciler ? this.#reconciler.everyMs : undefined
    const startedAt = performance.now()
    const takenMs = (): number => performance.now() - startedAt
    try {
      const isMore = await this.#reconciler.run(signal)
      this.#failures = 0
      const restMs = Math.min(REST_FACTOR * takenMs(), MAX_REST_MS)
      record(name, 'ok', takenMs())
      return isMore ? 0 : everyMs === undefined ? undefined : Math.max(everyMs, restMs)
    } catch (error) {
      if (signal.aborted) return undefined
      const waitMs = BACK_OFF_MS[Math.min(this.#failures, BACK_OFF_MS.length - 1)] ?? 30_000
      this.#failures += 1
      record(name, 'error', takenMs())
      onError(name, error)
      return waitMs
    }
  }

  #pause(ms: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      if (this.#isWoken || this.#tools.signal.aborted) return resolve()
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms)
      this.#wakeUp = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/** Wakes loops when they have work. */
function askForWork(
  { clock, readDue }: Asking,
  due: ReadonlyMap<string, DueWork>,
  wake: (name: string) => void,
): { askAll: TimedReconciler; noteChange: () => void } {
  /** No work becomes due before `lookAheadAt`, and nothing has been written since that was read. */
  let isQuiet = false
  let lookAheadAt = clock.now()
  let changes = 0
  const run = async (): Promise<boolean> => {
    const now = clock.now()
    if (now >= lookAheadAt) {
      const changesBefore = changes
      const next = addMs(now, LOOK_AHEAD_MS)
      const coming = await readDue(due, next)
      lookAheadAt = next
      isQuiet = coming.length === 0 && changes === changesBefore
    }
    if (!isQuiet) for (const name of await readDue(due, now)) wake(name)
    return false
  }
  const noteChange = (): void => {
    changes += 1
    isQuiet = false
  }
  return { askAll: { name: 'due-work', everyMs: DUE_EVERY_MS, run }, noteChange }
}

/** Runs `work` on all items, `width` at a time; errors are thrown after the last item. */
export async function eachOf<T>(items: readonly T[], width: number, work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items]
  const worker = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  const errors: unknown[] = []
  const workers = Array.from({ length: Math.min(width, items.length) }, async () => {
    while (queue.length > 0) await worker().catch((error: unknown) => void errors.push(error))
  })
  await Promise.all(workers)
  throwAll(errors)
}

/** Throws a single error as it is, and several as one AggregateError. */
export function throwAll(errors: readonly unknown[]): void {
  if (errors.length > 1) throw new AggregateError(errors, `${errors.length} items failed`)
  if (errors.length === 1) throw errors[0]
}

/** Aborts when the server stops or the call times out, whichever comes first. */
export function callSignal(signal: AbortSignal, timeoutMs: number): AbortSignal {
  return signalWithin(signal, timeoutMs)
}

/** 1 s, 2 s, 4 s … up to a minute. */
export function backOffMs(attempts: number): number {
  return Math.min(60_000, 1_000 * 2 ** Math.min(Math.max(attempts - 1, 0), 6))
}
