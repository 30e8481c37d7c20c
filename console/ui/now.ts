/** The current time, updated once a second by one timer for all components. */
import { useSyncExternalStore } from 'react'
import { systemClock } from '../../src/base/instant.ts'

let now: number = systemClock.now()
let timer: ReturnType<typeof setInterval> | undefined
const listeners = new Set<() => void>()

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  if (timer === undefined) {
    // The value is old. React compares it right after this.
    now = systemClock.now()
    timer = setInterval(() => {
      now = systemClock.now()
      for (const one of listeners) one()
    }, 1_000)
  }
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}

export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now)
}
