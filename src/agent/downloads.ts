/** This host downloads engine images and weights from its server. The disk space for weights is limited. */
import path from 'node:path'
import { systemClock } from '../base/instant.ts'
import type { HostMetrics } from '../contract/agent.ts'
import type { HostDownloads } from '../runtimes/docker/weights.ts'
import { makeHostFiles } from '../artifacts/model/host-files.ts'
import { makeWeightsCache } from '../artifacts/model/weights-cache.ts'
import type { AgentFolder } from './folder.ts'
import type { AgentKey, Membership } from './identity.ts'

const BYTES_PER_GB = 1_000_000_000
/** The part of the disk for weights, unless the supplier has chosen. */
const WEIGHTS_PART = 0.2
/** The part of that for what engines have compiled: vLLM needs some 0.3 GB per model. */
const COMPILE_CACHE_PART = 0.1
/** The rest is for tenants. */
const MAX_PART = 0.9

/** Disk space for weights, which tenants do not get. */
export function weightsGbOf({ run, storageGb, terms }: Pick<Membership, 'run' | 'storageGb' | 'terms'>): number {
  if (terms.offering !== 'marketplace') return 0
  return Math.min(run.weightsGb ?? Math.floor(storageGb * WEIGHTS_PART), storageGb * MAX_PART)
}

export interface AgentDownloads extends HostDownloads {
  /** The budget for code that engines have compiled. */
  readonly compileCacheBytes: number
  /** The use of the cache, for metrics; nothing if the host offers no space for weights. */
  weightsUse(): Promise<Pick<HostMetrics, 'weights'>>
}

export function makeDownloads(folder: AgentFolder, membership: Membership, key: AgentKey): AgentDownloads {
  const files = makeHostFiles({
    server: membership.server,
    authorize: (at) => key.authorize(membership, at),
    allowPrivate: membership.run.allowPrivateRegistries === true,
  })
  const budgetGb = weightsGbOf(membership)
  const compileCacheBytes = Math.floor(budgetGb * BYTES_PER_GB * COMPILE_CACHE_PART)
  const budgetBytes = budgetGb * BYTES_PER_GB - compileCacheBytes
  const weights = makeWeightsCache({ dir: path.join(folder.dir, 'weights'), budgetBytes, files, clock: systemClock })
  return {
    weights,
    weightsUse: async () =>
      budgetGb === 0 ? {} : { weights: { usedGb: (await weights.usedBytes()) / BYTES_PER_GB, budgetGb } },
    images: files,
    compileCacheBytes,
    openDisk: (workloadId, signal) => files.openDisk(workloadId, signal),
    imageFolder: path.join(folder.dir, 'images'),
  }
}
