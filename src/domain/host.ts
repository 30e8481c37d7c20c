/** Hosts: what they are called in which state, and when one that says nothing counts as silent. */
import { addMs, type Instant } from '../base/instant.ts'
import type { Desired } from '../contract/agent.ts'

export type HostState = Desired['state']

/** From which states an operator's action leads elsewhere. To be removed, a host has to be empty as well. */
export const hostActions = {
  drain: ['ready'],
  resume: ['draining'],
  quarantine: ['ready', 'draining', 'cleaning'],
  release: ['quarantined'],
  remove: ['ready', 'draining', 'cleaning', 'quarantined'],
} as const satisfies Readonly<Record<string, readonly HostState[]>>

/** Where tenants and neighbours find a host that has an address of its own. */
export interface HostAddress {
  readonly hostname: string
  readonly publicIp: string
  readonly privateIp: string
  readonly sshPort: number
}

/** How often a host says that it is there. */
export const HEARTBEAT_MS = 3_000
/** Three heartbeats and the time for a busy machine to send one. What runs there is then no longer known to run. */
export const SILENT_MS = 12_000

export function isSilent(seenAt: Instant | null, now: Instant): boolean {
  return seenAt === null || addMs(seenAt, SILENT_MS) < now
}
