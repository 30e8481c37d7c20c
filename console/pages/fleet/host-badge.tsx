/** The state of a host. */
import { hostStateLabels } from '../../../src/view/host.ts'
import { Badge } from '../../ui/badge.tsx'
import type { FleetHost } from './read.ts'

export function HostBadge({ state }: { state: FleetHost['state'] }) {
  const [label, tone] = hostStateLabels[state]
  return <Badge tone={tone}>{label}</Badge>
}
