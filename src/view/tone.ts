/** Color of a state. The label carries the meaning; the tone only helps the eye. */
export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'plain'

/** States mean the same wherever they occur: a failed rental, volume, delivery or request is bad. */
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
  return tones[state.toLowerCase()] ?? 'plain'
}
