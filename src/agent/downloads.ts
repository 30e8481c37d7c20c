/** What this host downloads from its server, and the disk space for the weights of models. */
import path from 'node:path'
import { systemClock } from '../base/instant.ts'
import type { HostDownloads } from '../engines/docker/weights.ts'
import { makeHostFiles } from '../models/host-files.ts'
import { makeWeightsCache } from '../models/weights-cache.ts'
import type { AgentFolder } from './folder.ts'
import type { AgentKey, Membership } from './identity.ts'

const BYTES_PER_GB = 1_000_000_000
/** Of the disk, unless the supplier has chosen. */
const WEIGHTS_PART = 0.2
/** The rest is for tenants. */
const MAX_PART = 0.9

/** Disk space for weights, which tenants do not get. */
export function weightsGbOf({ run, storageGb, terms }: Pick<Membership, 'run' | 'storageGb' | 'terms'>): number {
  if (terms.offering !== 'marketplace') return 0
  return Math.min(run.weightsGb ?? Math.floor(storageGb * WEIGHTS_PART), storageGb * MAX_PART)
}

export function makeDownloads(folder: AgentFolder, membership: Membership, key: AgentKey): HostDownloads {
  const files = makeHostFiles({
    server: membership.server,
    authorize: (at) => key.authorize(membership, at),
    allowPrivate: membership.run.allowPrivateRegistries === true,
  })
  const budgetBytes = weightsGbOf(membership) * BYTES_PER_GB
  return {
    weights: makeWeightsCache({ dir: path.join(folder.dir, 'weights'), budgetBytes, files, clock: systemClock }),
    images: files,
    imageFolder: path.join(folder.dir, 'images'),
  }
}
