/** Asks all clusters, so that a cluster that does not answer hides none of the others. */
import type { Cluster } from './cluster.ts'

export type Warn = (error: unknown, what: string) => void

export interface Answer<T> {
  readonly cluster: Cluster
  readonly value: T
}

/** Returns the answers of the clusters that answer. Throws if none does. */
export async function askClusters<T>(
  clusters: readonly Cluster[],
  ask: (cluster: Cluster) => Promise<T>,
  warn: Warn,
): Promise<Array<Answer<T>>> {
  const results = await Promise.allSettled(clusters.map(async (cluster) => ({ cluster, value: await ask(cluster) })))
  const answers = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const failures = results.flatMap((result, n) =>
    result.status === 'rejected' ? [{ error: result.reason as unknown, cluster: clusters[n]?.config.name ?? '' }] : [],
  )
  const [first] = failures
  if (answers.length === 0 && first !== undefined) {
    throw new Error(`Cluster ${first.cluster} does not answer: ${textOf(first.error)}`, { cause: first.error })
  }
  for (const { error, cluster } of failures) warn(error, `cluster ${cluster} does not answer`)
  return answers
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
