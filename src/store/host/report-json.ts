/** Reports of hosts as the database takes them: clean text, and times by our clock. */
import type { HostReport } from '../../contract/agent.ts'

/** The clock of a host may differ from ours, so the time of an end is read as its distance from the time of the report. */
export function workloadsOf({ sentAt, workloads }: HostReport): object[] {
  return workloads.map(({ endedAt, ...rest }) => {
    const isKnown = sentAt !== undefined && endedAt !== undefined
    return isKnown ? { ...rest, endedAgoMs: Math.max(0, sentAt - endedAt) } : rest
  })
}

/**
 * Text of a host without U+0000 and lone surrogates, which PostgreSQL rejects. Reports of agents are validated earlier,
 * but the output of programs on hosts over SSH can be anything.
 */
export function hostJson(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) => (typeof one === 'string' ? storableText(one) : one))
}

export function storableText(text: string): string {
  return text.replaceAll(/\0|\p{Surrogate}/gu, '\uFFFD')
}
