/** Labels of a host's state. */
import type { Reply } from '../client/client.ts'
import type { Tone } from './tone.ts'

export const hostStateLabels = {
  ready: ['ready', 'good'],
  draining: ['draining', 'warn'],
  cleaning: ['cleaning', 'info'],
  cleaning_pending: ['waiting for cleaning', 'warn'],
  quarantined: ['quarantined', 'bad'],
  left: ['left', 'plain'],
} as const satisfies Record<Reply<'listHosts'>['hosts'][number]['state'], readonly [label: string, tone: Tone]>
