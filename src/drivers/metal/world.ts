/** Bare-metal hosts in the database, as the lanes of keep.ts need them. */
import type { Desired, HostOffer, HostReport } from '../../contract/agent.ts'
import type { MetalAccess, MetalAddress, MetalDeclared } from '../../runtimes/ssh/access.ts'

export interface MetalHost {
  readonly id: string
  readonly state: 'ready' | 'draining' | 'cleaning' | 'quarantined' | 'left'
  /** `new`: never rented, so it is checked but not cleaned. */
  readonly reason: string | null
  readonly generation: number
  readonly access: MetalAccess
  readonly declared: MetalDeclared
  readonly address: MetalAddress
  readonly offer: HostOffer
}

export interface MetalWorld {
  listMetalHosts(): Promise<MetalHost[]>
  /** The lease on a host; undefined: held by another server. */
  takeHost(id: string, leaseMs: number): Promise<string | undefined>
  /** False: the lease was lost. */
  renewHost(id: string, token: string, leaseMs: number): Promise<boolean>
  giveHost(id: string, token: string): Promise<void>
  readDesired(id: string): Promise<Desired>
  saveReport(id: string, report: HostReport): Promise<void>
  /** Quarantines the host and removes the workload from it, in one transaction. */
  quarantine(id: string, reason: string, workloadId: string | null): Promise<void>
  /** The host goes from cleaning to ready. */
  admit(id: string): Promise<void>
  learnHostKey(id: string, fingerprint: string): Promise<void>
}
