/** The outcome of a request. */
import type { Reply } from '../../../src/client/client.ts'
import { outcomeLabels } from '../../../src/view/request.ts'
import { Badge } from '../../ui/badge.tsx'

export type LoggedRequest = Reply<'listInferenceRequests'>['requests'][number]

export function OutcomeBadge({ request: { outcome, status } }: { request: LoggedRequest }) {
  const [label, tone] = outcomeLabels[outcome]
  return <Badge tone={tone}>{outcome === 'failed' ? `${label} (${status})` : label}</Badge>
}
