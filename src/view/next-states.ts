/** The next states of a rental, as text. It is apart from the other texts because the table of states is large. */
import { MINUTE_MS } from '../base/instant.ts'
import { rentalStateTable, type RentalState } from '../contract/rental-state.ts'

/** The states that can follow, and the time limit of this one. */
export function nextStatesHint(status: RentalState): string | undefined {
  const { next, limit } = rentalStateTable[status]
  if (next.length === 0) return undefined
  if (status === 'Failed') return 'Next: Terminating, once you terminate it. It stays in the list until then.'
  const names = next.length === 1 ? next[0] : `${next.slice(0, -1).join(', ')} or ${next.at(-1)}`
  if (limit === null) return `Next: ${names}.`
  const within = `${limit.ms / MINUTE_MS} minutes`
  // Installing a whole server takes longer at some providers (`Driver.startLimitMs`).
  const atLeast = status === 'Pending' ? `${within}, or later at providers that need longer to start a machine` : within
  return `Next: ${names}. ${pastLimits[limit.past]} after ${atLeast}.`
}

const pastLimits = { fail: 'Fails', stop: 'Stopped again', flag: 'Reported to the operator' } as const
