/** The state of a host. */
import { Badge, type Tone } from '../../ui/badge.tsx'
import type { FleetHost } from './read.ts'

const stateTones = {
  ready: 'good',
  draining: 'warn',
  cleaning: 'info',
  cleaning_pending: 'warn',
  quarantined: 'bad',
  left: 'plain',
} as const satisfies Record<FleetHost['state'], Tone>

export function HostBadge({ state }: { state: FleetHost['state'] }) {
  return <Badge tone={stateTones[state]}>{state.replaceAll('_', ' ')}</Badge>
}
