/**
 * Keeps pages true without a reload: one line of events for the whole console. An event carries no new state into the
 * page; it says which reads are out of date, so what is shown always comes from the same place.
 */
import { useEffect, useState, useSyncExternalStore } from 'react'
import type { CallableId } from '../../src/client/client.ts'
import type { EventType } from '../../src/contract/event.ts'
import { openEventLine, type LineEvent } from './event-line.ts'
import { readAllForOperator, readForOperator, useFollowsEveryone } from './live-operator.ts'
import { mayUse, useMe } from './me.ts'
import { readEverything, readSoon } from './query.ts'

/** What is read again, by the first word of an event's type. */
const readAgain: Readonly<Record<string, readonly CallableId[]>> = {
  rental: [
    'getRental',
    'listVirtualMachineRentals',
    'listBareMetalRentals',
    'getInstance',
    'listInstances',
    'listInstanceHistory',
    'getCustomerBalance',
    'listVolumes',
  ],
  volume: ['listVolumes', 'listStorageOptions', 'getRental', 'listBareMetalRentals', 'getCustomerBalance'],
  balance: ['getCustomerBalance', 'getStatement', 'listInvoices', 'getPurchaseHistory'],
  key: ['listApiKeys'],
  webhook: ['listWebhookDeliveries', 'listWebhooks'],
}

const ownReads: readonly CallableId[] = ['listEvents', ...new Set(Object.values(readAgain).flat())]

/** A place on a machine is taken or given back. */
const movesPlaces: ReadonlySet<EventType> = new Set(['rental.created', 'rental.failed', 'rental.terminated'])

type LiveState = 'connecting' | 'live' | 'lost'

let state: LiveState = 'connecting'
const listeners = new Set<() => void>()

function tell(next: LiveState): void {
  if (state === next) return
  state = next
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** For the shell: follows the events for as long as it is on the screen. */
export function useLiveEvents(): void {
  const me = useMe()
  const ofEveryone = useFollowsEveryone()
  const isEnabled = ofEveryone || mayUse(me, 'compute:read') || mayUse(me, 'billing:read')
  const keyId = me.key.publicId
  const accountId = me.account.id
  // Read before anything else on the page, so that following after it misses nothing and nothing is read twice. Only
  // its first value counts, and only for the account's own events: ids of all accounts are in another order.
  const [start] = useState(me.lastEventId)
  useEffect(() => {
    if (!isEnabled) return undefined
    return openEventLine({
      of: ofEveryone ? 'everyone' : 'account',
      keyId,
      start: ofEveryone ? undefined : start,
      onState: (isOpen) => tell(isOpen ? 'live' : 'lost'),
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
  return ['listEvents', ...(readAgain[event.type.split('.')[0] ?? ''] ?? []), ...placesOf(event)]
}

/** The marketplace is long, and has containers only. */
function placesOf(event: LineEvent): readonly CallableId[] {
  if (!movesPlaces.has(event.type)) return []
  return event.data['kind'] === 'container' ? ['listMachines'] : ['listRentalOptions']
}

export function useLiveState(): LiveState {
  return useSyncExternalStore(subscribe, () => state)
}
