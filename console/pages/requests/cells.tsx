/** How one request reads, in the table and by itself. */
import type { Reply } from '../../../src/client/client.ts'
import { number } from '../../../src/view/number.ts'
import { Badge, type Tone } from '../../ui/badge.tsx'

export type LoggedRequest = Reply<'listInferenceRequests'>['requests'][number]
export type Outcome = LoggedRequest['outcome']

export const outcomes: Readonly<Record<Outcome, readonly [Tone, string]>> = {
  answered: ['good', 'Answered'],
  cut: ['plain', 'Left by the client'],
  broken: ['bad', 'Broken off'],
  failed: ['bad', 'Failed'],
}

export function OutcomeBadge({ request: { outcome, status } }: { request: LoggedRequest }) {
  const [tone, label] = outcomes[outcome]
  return <Badge tone={tone}>{outcome === 'failed' ? `${label} (${status})` : label}</Badge>
}

export function kindOf(operation: string): string {
  return (
    { chat: 'Chat', completion: 'Completion', image: 'Picture', speech: 'Speech', embedding: 'Embedding' }[operation] ??
    operation
  )
}

export function seconds(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`
}

/** Tokens of the prompt and the answer, characters, or pixels times steps. */
export function usedBy({ operation, inputUnits, cachedUnits, outputUnits }: LoggedRequest): string {
  if (operation === 'speech') return `${number(inputUnits)} characters`
  if (operation === 'image') return `${number(outputUnits)} pixel steps`
  const cached = cachedUnits === 0 ? '' : ` (${number(cachedUnits)} cached)`
  return `${number(inputUnits)}${cached} in, ${number(outputUnits)} out`
}
