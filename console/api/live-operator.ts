/**
 * Keeps an operator's pages true: while one is open, the tab follows the events of every account in place of its own
 * account's, which are among them.
 */
import { useEffect, useSyncExternalStore } from 'react'
import type { CallableId } from '../../src/client/client.ts'
import type { LineEvent } from './event-line.ts'
import { useMay } from './me.ts'
import { readSoon } from './query.ts'

/** A busy house has many events a second. */
const TOGETHER_MS = 1_000

/**
 * What is read again, by the first word of an event's type. Not the fleet, which is long and asked for every few
 * seconds anyway.
 */
const readAgain: Readonly<Record<string, readonly CallableId[]>> = {
  rental: ['listAllRentals', 'listHosts', 'listAccounts', 'getAccount'],
  volume: ['listAccounts', 'getAccount'],
  balance: ['listAccounts', 'getAccount', 'listAudit'],
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

/** For pages of operators. */
export function useOperatorEvents(): void {
  const may = useMay('operator')
  useEffect(() => {
    if (!may) return undefined
    count(1)
    return () => count(-1)
  }, [may])
}

/** Whether a page is open that asks for the events of every account. */
export function useFollowsEveryone(): boolean {
  return useSyncExternalStore(subscribe, () => openPages > 0)
}

/** What events would have told of. */
export function readAllForOperator(): void {
  readSoon(['listAllEvents', ...new Set(Object.values(readAgain).flat())], TOGETHER_MS)
}

export function readForOperator(event: LineEvent): void {
  readSoon(['listAllEvents', ...(readAgain[event.type.split('.')[0] ?? ''] ?? [])], TOGETHER_MS)
}
