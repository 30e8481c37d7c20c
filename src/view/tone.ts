/** Colors of states. */
import { rentalStates, rentalStateTable, type RentalStateRow } from '../contract/rental-state.ts'

/** The label carries the meaning; the tone only helps the eye. */
export type Tone = RentalStateRow['tone']

/** States of other things than rentals. They mean the same wherever they occur: a failed volume or request is bad. */
const tones: Readonly<Record<string, Tone>> = {
  active: 'good',
  answered: 'good',
  delivered: 'good',
  issued: 'good',
  ready: 'good',
  running: 'good',
  creating: 'info',
  deleting: 'info',
  cleaning: 'info',
  pending: 'info',
  terminating: 'info',
  cleaning_pending: 'warn',
  draining: 'warn',
  open: 'warn',
  starting: 'warn',
  suspended: 'warn',
  broken: 'bad',
  failed: 'bad',
  lost: 'bad',
  quarantined: 'bad',
  unknown: 'bad',
}

export function stateTone(state: string): Tone {
  const ofRental = rentalStates.find((name) => name === state)
  return ofRental === undefined ? (tones[state.toLowerCase()] ?? 'plain') : rentalStateTable[ofRental].tone
}
