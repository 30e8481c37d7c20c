/**
 * Keeps pages true without a reload: one stream of the account's events for the whole console. An event carries no new
 * state into the page; it says which reads are out of date, so what is shown always comes from the same place.
 */
import { useEffect, useSyncExternalStore } from 'react'
import type { CallableId } from '../../src/client/client.ts'
import { client } from './client.ts'
import { isSignedOut, refresh } from './query.ts'

/** After the client has given up by itself, which it does when the server is away for longer than a restart. */
const AGAIN_MS = 5_000

/** What is read again, by the first word of an event's type. */
const readAgain: Readonly<Record<string, readonly CallableId[]>> = {
  rental: [
    'getRental',
    'listVirtualMachineRentals',
    'listBareMetalRentals',
    'getInstance',
    'listInstances',
    'listInstanceHistory',
    'listRentalOptions',
    'listMachines',
    'getCustomerBalance',
    'listVolumes',
  ],
  volume: ['listVolumes', 'listStorageOptions', 'getRental', 'listBareMetalRentals', 'getCustomerBalance'],
  balance: ['getCustomerBalance', 'getStatement', 'listInvoices', 'getPurchaseHistory'],
  key: ['listApiKeys'],
  webhook: ['listWebhookDeliveries', 'listWebhooks'],
}

type LiveState = 'connecting' | 'live' | 'lost'

let state: LiveState = 'connecting'
const listeners = new Set<() => void>()

function tell(next: LiveState): void {
  state = next
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** For the shell: follows the events for as long as it is on the screen. */
export function useLiveEvents(enabled: boolean): void {
  useEffect(() => {
    if (!enabled) return undefined
    const controller = new AbortController()
    void followForEver(controller.signal)
    return () => controller.abort()
  }, [enabled])
}

async function followForEver(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      tell('live')
      for await (const event of client.follow({ signal })) {
        tell('live')
        await refresh(['listEvents', ...(readAgain[event.type.split('.')[0] ?? ''] ?? [])])
      }
    } catch (error) {
      // Signed out elsewhere: the next read says so and leads to the sign-in page.
      if (isSignedOut(error)) return
    }
    if (signal.aborted) return
    tell('lost')
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
  }
}

export function useLiveState(): LiveState {
  return useSyncExternalStore(subscribe, () => state)
}
