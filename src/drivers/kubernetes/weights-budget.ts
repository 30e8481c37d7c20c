/**
 * Plans which cached weights are removed: those unused for long, and the least recently used of a node above its
 * budget.
 */
import { DAY_MS, MINUTE_MS, type Instant } from '../../base/instant.ts'
import type { ClusterConfig } from './config.ts'

export interface CachedWeights {
  readonly namespace: string
  readonly name: string
  readonly node: string
  readonly bytes: number
  /** When a pod last started with the weights, or was seen with them. */
  readonly usedAt: Instant
  /** A pod mounts the weights. */
  readonly isInUse: boolean
}

export interface CachePlan<T> {
  readonly remove: readonly T[]
  /** There is room for the wanted bytes once these are removed. */
  readonly fits: boolean
}

type CacheRule = NonNullable<ClusterConfig['serving']>['cache']

const BYTES_PER_GB = 1_000_000_000
/** A pod that is about to start has marked them as used and cannot be seen yet. */
const STARTING_MS = 10 * MINUTE_MS

/** `wanted`: room for new weights. If there is none, nothing is removed for it. */
export function planCache<T extends CachedWeights>(
  all: readonly T[],
  { gbPerNode, days }: CacheRule,
  now: Instant,
  newSet?: { readonly node: string; readonly bytes: number },
): CachePlan<T> {
  const unused = all
    .filter(({ isInUse, usedAt }) => !isInUse && now - usedAt > STARTING_MS)
    .toSorted((a, b) => a.usedAt - b.usedAt)
  const remove = new Set(unused.filter(({ usedAt }) => now - usedAt > days * DAY_MS))
  const nodes = new Set([...all.map(({ node }) => node), ...(newSet === undefined ? [] : [newSet.node])])
  let fits = true
  for (const node of nodes) {
    const newBytes = newSet?.node === node ? newSet.bytes : 0
    const bytesLeft = (removed: ReadonlySet<T>): number =>
      all.reduce((sum, one) => sum + (one.node === node && !removed.has(one) ? one.bytes : 0), newBytes)
    const removed = new Set(remove)
    for (const one of unused) {
      if (bytesLeft(removed) <= gbPerNode * BYTES_PER_GB) break
      if (one.node === node) removed.add(one)
    }
    const isEnough = bytesLeft(removed) <= gbPerNode * BYTES_PER_GB
    if (newBytes > 0) fits = isEnough
    if (newBytes === 0 || isEnough) for (const one of removed) remove.add(one)
  }
  return { remove: [...remove], fits }
}
