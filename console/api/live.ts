/** Live updates for the whole console. Events carry no state into the page; they only mark reads as stale. */
import { useEffect, useState, useSyncExternalStore } from 'react'
import type { CallableId } from '../../src/client/client.ts'
import type { EventType } from '../../src/contract/event-type.ts'
import { openEventLine, type LineEvent } from './event-line.ts'
import { readAllForOperator, readForOperator, useFollowsEveryone } from './live-operator.ts'
import { mayUse, useMe } from './me.ts'
import { readEverything, readSoon } from './query.ts'

/** Reads to refresh, by the first part of the event type. */
const readAgain: Readonly<Record<string, readonly CallableId[]>> = {
  rental: ['listRentals', 'getRental', 'getCustomerBalance', 'listVolumes', 'listRentalVolumes'],
  volume: ['listVolumes', 'listRentalVolumes', 'listStorageOptions', 'getRental', 'getCustomerBalance'],
  balance: [
    'getCustomerBalance',
    'getStatement',
    'getDailyStatement',
    'listInvoices',
    'getPurchaseHistory',
    'listTopUps',
    'getTopUp',
    'getAutoTopUp',
    'listSavedCards',
  ],
  payout: ['listPayouts', 'getEarnings'],
  budget: ['listBudgets'],
  deployment: ['listManagedDeployments', 'getManagedDeployment'],
  job: ['listJobs', 'getJob', 'listJobTasks'],
  key: ['listApiKeys'],
  webhook: ['listWebhookDeliveries', 'listWebhooks'],
}

const ownReads: readonly CallableId[] = ['listEvents', 'listNotifications', ...new Set(Object.values(readAgain).flat())]

/** Events that change availability. */
const changesAvailability: ReadonlySet<EventType> = new Set(['rental.created', 'rental.failed', 'rental.terminated'])

type LiveState = 'connecting' | 'live' | 'lost'

let state: LiveState = 'connecting'
const listeners = new Set<() => void>()

function setState(next: LiveState): void {
  if (state === next) return
  state = next
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Keeps the shell up to date with the account's events. */
export function useLiveEvents(): void {
  const me = useMe()
  const ofEveryone = useFollowsEveryone()
  const isEnabled = ofEveryone || mayUse(me, 'compute:read') || mayUse(me, 'billing:read')
  const keyId = me.key.publicId
  const accountId = me.account.id
  // Read before everything else, so that following after it misses nothing and reads nothing twice. Only its first
  // value counts, and only for the account's own events: ids across accounts have another order.
  const [start] = useState(me.lastEventId)
  useEffect(() => {
    if (!isEnabled) return undefined
    return openEventLine({
      of: ofEveryone ? 'everyone' : 'account',
      keyId,
      start: ofEveryone ? undefined : start,
      onState: (isOpen) => setState(isOpen ? 'live' : 'lost'),
      onBegin: () => {
        readSoon(ownReads)
        if (ofEveryone) readAllForOperator()
      },
      onMissed: () => void readEverything(),
      onEvent: (event) => {
        if ('accountId' in event) readForOperator(event)
        if (!('accountId' in event) || event.accountId === accountId) readSoon(readsOf(event))
      },
    })
  }, [isEnabled, ofEveryone, keyId, accountId, start])
}

function readsOf(event: LineEvent): readonly CallableId[] {
  return [
    'listEvents',
    'listNotifications',
    ...(readAgain[event.type.split('.')[0] ?? ''] ?? []),
    ...availabilityReads(event),
  ]
}

/** The marketplace has only containers. */
function availabilityReads(event: LineEvent): readonly CallableId[] {
  if (!changesAvailability.has(event.type)) return []
  return event.data['kind'] === 'container' ? ['searchMachines'] : ['listRentalOptions']
}

export function useLiveState(): LiveState {
  return useSyncExternalStore(subscribe, () => state)
}
