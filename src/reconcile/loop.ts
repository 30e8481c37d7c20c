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
  /** Whether there is work now. */
  readonly due: DueWork
}

interface Pass {
  readonly name: string
  /** One pass. True: there may be more to do immediately. */
  run(signal: AbortSignal): Promise<boolean>
}

export interface Loops {
  wake(name: string): void
  /** Something was written to the database: there may be work sooner than expected. */
  noteChange(): void
  /** Resolves when the passes in progress have ended. */
  stop(): Promise<void>
}

const GATHER_MS = 10
/** At a start, loops make their first passes one after another, or this far apart: at once, each would open a connection. */
const FIRST_PASSES_APART_MS = 50
const DUE_EVERY_MS = 1_000
/** If no work comes due by itself in this time, it is asked for again only after that, or when something was written. */
const LOOK_AHEAD_MS = 5_000
/** The pause after a pass is this many times its duration, within this limit: with many rentals a loop takes no whole core. */
const REST_FACTOR = 4
const MAX_REST_MS = 5_000
const BACK_OFF_MS = [500, 1_000, 2_000, 5_000, 10_000, 30_000] as const

interface Asking {
  readonly clock: Clock
  /** Which loops have work at an instant (store/platform/due-work.ts). */
  readonly readDue: (loops: ReadonlyMap<string, DueWork>, at: Instant) => Promise<readonly string[]>
}

export function startLoops(
  reconcilers: readonly Reconciler[],
  tools: Asking & { onError: (name: string, error: unknown) => void; metrics?: Metrics },
): Loops {
  const passes = tools.metrics?.counter('berth_reconcile_passes_total', 'Reconciler passes, by loop and outcome')
  const seconds = tools.metrics?.histogram(
    'berth_reconcile_seconds',
    'Duration of a reconciler pass',
    [0.005, 0.02, 0.1, 0.5, 2, 10, 60],
  )
  const stop = new AbortController()
  const stopped = new Promise((resolve) => stop.signal.addEventListener('abort', resolve))
  const wakers = new Map<string, () => void>()
  /** Loops that wait for work, and not for their turn after an error. */
  const idle = new Set<string>()
  const wake = (name: string): void => wakers.get(name)?.()
  const due = new Map(reconcilers.flatMap((one) => ('due' in one ? [[one.name, one.due] as const] : [])))
  const { askAll, noteChange } = askForWork(tools, due, (name) => {
    if (idle.has(name)) wake(name)
  })
  let turn: Promise<unknown> = Promise.resolve()
  const running = [askAll, ...reconcilers].map((reconciler) => {
    const ownTurn = turn
    let endTurn = () => {}
    const ended = new Promise<void>((resolve) => (endTurn = resolve))
    turn = Promise.race([ended, ownTurn.then(() => Promise.race([stopped, delay(FIRST_PASSES_APART_MS)]))])
    let woken = false
    let wakeUp = () => {}
    wakers.set(reconciler.name, () => {
      woken = true
      wakeUp()
    })
    const pause = (ms: number | undefined) =>
      new Promise<void>((resolve) => {
        if (woken || stop.signal.aborted) return resolve()
        const timer = ms === undefined ? undefined : setTimeout(resolve, ms)
        wakeUp = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    return (async () => {
      let failures = 0
      await ownTurn
      while (!stop.signal.aborted) {
        woken = false
        const startedAt = performance.now()
        let waitMs = 'everyMs' in reconciler ? reconciler.everyMs : undefined
        try {
          const isMore = await reconciler.run(stop.signal)
          const restMs = Math.min(REST_FACTOR * (performance.now() - startedAt), MAX_REST_MS)
          if (isMore) waitMs = 0
          else if (waitMs !== undefined) waitMs = Math.max(waitMs, restMs)
          failures = 0
          passes?.add({ loop: reconciler.name, outcome: 'ok' })
        } catch (error) {
          if (stop.signal.aborted) break
          waitMs = BACK_OFF_MS[Math.min(failures, BACK_OFF_MS.length - 1)] ?? 30_000
          failures += 1
          passes?.add({ loop: reconciler.name, outcome: 'error' })
          tools.onError(reconciler.name, error)
        }
        seconds?.observe((performance.now() - startedAt) / 1_000, { loop: reconciler.name })
        if ('due' in reconciler) noteChange()
        endTurn()
        if (waitMs === undefined) idle.add(reconciler.name)
        if (waitMs !== 0) await pause(waitMs)
        idle.delete(reconciler.name)
        // Under load, wake-ups arrive in bursts; a short wait turns a burst into one pass.
        if (woken) await new Promise((resolve) => setTimeout(resolve, GATHER_MS))
      }
    })()
  })
  return {
    wake: (name) => {
      noteChange()
      wake(name)
    },
    noteChange,
    stop: async () => {
      stop.abort()
      for (const wakeUp of wakers.values()) wakeUp()
      await Promise.all(running)
    },
  }
}

/** The loop that wakes the others when they have work. */
function askForWork(
  { clock, readDue }: Asking,
  due: ReadonlyMap<string, DueWork>,
  wake: (name: string) => void,
): { askAll: TimedReconciler; noteChange: () => void } {
  /** Until `lookAheadAt` no work comes due by itself, and nothing has been written since that was read. */
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
