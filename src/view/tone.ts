/** Colors of states. */
import type { RentalStateRow } from '../contract/rental-state.ts'

/** The label carries the meaning; the tone only helps the eye. */
export type Tone = RentalStateRow['tone']

/**
 * States mean the same wherever they occur: a failed rental, volume, delivery or request is bad. A test compares those of
 * rentals with their table, which is too large for every command to load.
 */
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
  starting: 'info',
  stopping: 'info',
  terminating: 'info',
  cleaning_pending: 'warn',
  draining: 'warn',
  open: 'warn',
  suspended: 'warn',
  broken: 'bad',
  failed: 'bad',
  lost: 'bad',
  quarantined: 'bad',
  unknown: 'bad',
  Unknown: 'warn',
}

export function stateTone(state: string): Tone {
  return tones[state] ?? tones[state.toLowerCase()] ?? 'plain'
}
