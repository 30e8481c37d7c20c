/**
 * Which machines to try for an order, in which order. The claim itself is made by the database, machine by machine;
 * this only ranks, so a machine that fills up meanwhile costs one more try and never a double sale.
 */

export interface Candidate {
  readonly machineId: string
  readonly clusterName: string
  readonly gpusTotal: number
  readonly gpusFree: number
}

/** One machine with room for all: the fullest that fits comes first, so that whole machines stay whole. */
export function rankForShare(candidates: readonly Candidate[], gpuCount: number): Candidate[] {
  return candidates
    .filter((candidate) => candidate.gpusFree >= gpuCount)
    .sort((a, b) => a.gpusFree - b.gpusFree || (a.machineId < b.machineId ? -1 : 1))
}

/** Whole machines of one cluster, since their private network ends there. The cluster with the least to spare first. */
export function groupForWhole(candidates: readonly Candidate[], gpuCount: number): Candidate[][] {
  const clusters = new Map<string, Candidate[]>()
  for (const candidate of candidates) {
    if (candidate.gpusFree !== candidate.gpusTotal || gpuCount % candidate.gpusTotal !== 0) continue
    const cluster = clusters.get(candidate.clusterName) ?? []
    cluster.push(candidate)
    clusters.set(candidate.clusterName, cluster)
  }
  return [...clusters.values()]
    .map((cluster) => cluster.sort((a, b) => (a.machineId < b.machineId ? -1 : 1)))
    .filter((cluster) => cluster.reduce((sum, one) => sum + one.gpusTotal, 0) >= gpuCount)
    .sort((a, b) => a.length - b.length)
}
