/**
 * Counts connections to workloads. Tenants share a host's streams, and all share a server's connections: each has a
 * share that leaves room for the others. SSH has its own share, so that tenants with many web connections, and their
 * neighbors, can still log in. Relayed and proxied connections count together.
 */
import { makeShareCount } from '../http/share-count.ts'

/** A host has 1,024 streams; 128 are left for logs and terminals. */
const shares = {
  ports: { server: 6_144, account: 1_024, host: 640, workload: 256 },
  ssh: { server: 2_048, account: 512, host: 256, workload: 32 },
} as const

const levels = ['server', 'account', 'host', 'workload'] as const
export type ShareLevel = (typeof levels)[number]

export interface ShareTaker {
  readonly kind: keyof typeof shares
  readonly hostId: string
  readonly workloadId: string
  /** undefined: not counted by account. */
  readonly accountId?: string
}

export interface PortShares {
  /** Returns a function that gives the shares back, or the name of the limit that is reached. */
  take(taker: ShareTaker): (() => void) | ShareLevel
}

export function makePortShares(): PortShares {
  const counted = makeShareCount()
  return {
    take: ({ kind, hostId, workloadId, accountId }) => {
      const whose = { server: '', account: accountId, host: hostId, workload: workloadId }
      const release = counted.take(
        levels
          .filter((level) => whose[level] !== undefined)
          .map((level) => ({ level, name: `${kind} ${level} ${whose[level]}`, max: shares[kind][level] })),
      )
      return typeof release === 'function' ? release : release.level
    },
  }
}
