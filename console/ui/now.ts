/** The time, as a value that changes: once a second, for everything on the screen together. */
import { useSyncExternalStore } from 'react'
import { systemClock } from '../../src/base/instant.ts'

let now: number = systemClock.now()
let timer: ReturnType<typeof setInterval> | undefined
const listeners = new Set<() => void>()

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  if (timer === undefined) {
    // Nobody has looked for a while. React compares what it has shown right after this.
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
