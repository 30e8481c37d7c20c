/** Groups: tones, reasons and link speeds. */
import type { Reply } from '../client/client.ts'
import { rentalReasonSentence } from './rental.ts'
import type { Tone } from './tone.ts'

type Group = Reply<'getGroup'>

const tones: Record<Group['state'], Tone> = {
  starting: 'info',
  running: 'good',
  restarting: 'warn',
  ending: 'info',
  ended: 'plain',
}

export function groupTone(state: Group['state']): Tone {
  return tones[state]
}

/** Why the group restarts or ends. undefined: it does neither. */
export function groupReason({
  stateReason,
  failedRank,
}: Pick<Group, 'stateReason' | 'failedRank'>): string | undefined {
  if (stateReason === null) return undefined
  const sentence = stateReason === 'node_lost' ? 'A node was lost for 60 seconds.' : rentalReasonSentence(stateReason)
  return failedRank === null ? sentence : `node-${failedRank}: ${sentence}`
}

/** `9.4 Gbit/s or more`, the slowest of its links. Empty: not measured. */
export function linkText(links: Group['nodes'][number]['links']): string {
  if (links.length === 0) return ''
  const slowest = Math.min(...links.map(({ mbps }) => mbps))
  return slowest >= 1_000 ? `${(slowest / 1_000).toFixed(1)} Gbit/s` : `${Math.round(slowest)} Mbit/s`
}
