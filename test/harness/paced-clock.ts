/**
 * A manual clock on which a wait lets its time pass at once, so that a test sees the pauses of a driver without taking them.
 * Time stands still while a request is on its way: a request arrives at the instant at which it was sent.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { addMs } from '../../src/base/instant.ts'
import { manualClock, type ManualClock } from '../sim/clock.ts'

export interface PacedClock extends ManualClock {
  close(): void
}

export function pacedClock(): PacedClock {
  const clock = manualClock()
  const onTheirWay = new Set<unknown>()
  const requestOf = (message: unknown): unknown => (message as { request: unknown }).request
  const begin = (message: unknown): void => void onTheirWay.add(requestOf(message))
  let onEmpty: Array<() => void> = []
  const end = (message: unknown): void => {
    onTheirWay.delete(requestOf(message))
    if (onTheirWay.size > 0) return
    for (const resolve of onEmpty) resolve()
    onEmpty = []
  }
  const channels = [
    ['undici:request:create', begin],
    ['undici:request:trailers', end],
    ['undici:request:error', end],
  ] as const
  for (const [name, listener] of channels) subscribe(name, listener)
  return {
    ...clock,
    wait: async (ms, signal) => {
      const until = addMs(clock.now(), ms)
      do {
        // A request that has its turn is sent first.
        await new Promise((resolve) => setImmediate(resolve))
        if (onTheirWay.size > 0) await new Promise<void>((resolve) => onEmpty.push(resolve))
      } while (onTheirWay.size > 0)
      signal.throwIfAborted()
      if (clock.now() < until) clock.set(until)
    },
    close: () => {
      for (const [name, listener] of channels) unsubscribe(name, listener)
    },
  }
}
