/** Hosts: states, operator actions, and when a host counts as offline. */
import { addMs, type Instant } from '../base/instant.ts'
import type { Desired } from '../contract/agent.ts'

export type HostState = Desired['state']

/** The states from which an operator's action is possible. Removal also requires an empty host. */
export const hostActions = {
  drain: ['ready'],
  resume: ['draining'],
  quarantine: ['ready', 'draining', 'cleaning'],
  release: ['quarantined'],
  remove: ['ready', 'draining', 'cleaning', 'quarantined'],
} as const satisfies Readonly<Record<string, readonly HostState[]>>

/** Address of a host for tenants and other hosts. */
export interface HostAddress {
  readonly hostname: string
  readonly publicIp: string
  readonly privateIp: string
  readonly sshPort: number
}

/** Interval of a host's heartbeat. */
export const HEARTBEAT_MS = 3_000
/** Three heartbeats plus the time for a busy machine to send one. After that its workloads count as unknown. */
export const SILENT_MS = 12_000

export function isSilent(seenAt: Instant | null, now: Instant): boolean {
  return seenAt === null || addMs(seenAt, SILENT_MS) < now
}
