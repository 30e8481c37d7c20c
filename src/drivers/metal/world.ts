/** Bare-metal hosts in the database, for the lanes of keep.ts. */
import type { Desired, HostOffer, HostReport } from '../../contract/agent.ts'
import type { MetalAccess, MetalAddress, MetalDeclared } from '../../runtimes/ssh/access.ts'

export interface MetalHost {
  readonly id: string
  readonly state: 'ready' | 'draining' | 'cleaning' | 'quarantined' | 'left'
  /** `new`: the host was never rented, so it is checked but not cleaned. */
  readonly reason: string | null
  readonly generation: number
  readonly access: MetalAccess
  readonly declared: MetalDeclared
  readonly address: MetalAddress
  readonly offer: HostOffer
}

export interface MetalWorld {
  listMetalHosts(): Promise<MetalHost[]>
  /** Takes the lease on a host. undefined: another server has it. */
  takeHost(id: string, leaseMs: number): Promise<string | undefined>
  /** False: the lease was lost. */
  renewHost(id: string, token: string, leaseMs: number): Promise<boolean>
  giveHost(id: string, token: string): Promise<void>
  readDesired(id: string): Promise<Desired>
  saveReport(id: string, report: HostReport): Promise<void>
  /** Quarantines the host and removes the workload from it, in one transaction. */
  quarantine(id: string, reason: string, workloadId: string | null): Promise<void>
  /** Moves the host from cleaning to ready. */
  admit(id: string): Promise<void>
  learnHostKey(id: string, fingerprint: string): Promise<void>
}
