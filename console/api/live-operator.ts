/** Live updates of operator pages: while one is open, the tab follows the events of all accounts. */
import { useEffect, useSyncExternalStore } from 'react'
import type { CallableId } from '../../src/client/client.ts'
import type { LineEvent } from './event-line.ts'
import { useMay } from './me.ts'
import { readSoon } from './query.ts'

/** Busy installations have many events per second. */
const TOGETHER_MS = 1_000

/** Reads to refresh, by the first part of the event type. The fleet is polled. */
const readAgain: Readonly<Record<string, readonly CallableId[]>> = {
  rental: ['listAllRentals', 'listHosts', 'listAccounts', 'getAccount'],
  volume: ['listAccounts', 'getAccount'],
  balance: ['listAccounts', 'getAccount', 'listAudit', 'listPayments'],
}

let openPages = 0
const listeners = new Set<() => void>()

function count(by: 1 | -1): void {
  openPages += by
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Keeps operator pages up to date with events. */
export function useOperatorEvents(): void {
  const may = useMay('operator')
  useEffect(() => {
    if (!may) return undefined
    count(1)
    return () => count(-1)
  }, [may])
}

/** Whether an operator page is open. */
export function useFollowsEveryone(): boolean {
  return useSyncExternalStore(subscribe, () => openPages > 0)
}

export function readAllForOperator(): void {
  readSoon(['listAllEvents', ...new Set(Object.values(readAgain).flat())], TOGETHER_MS)
}

export function readForOperator(event: LineEvent): void {
  readSoon(['listAllEvents', ...(readAgain[event.type.split('.')[0] ?? ''] ?? [])], TOGETHER_MS)
}
