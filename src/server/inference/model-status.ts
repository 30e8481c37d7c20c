/** Status of models on this server that is not in the database: its engines and the health of deployments. */
import type { ModelStatus } from '../../app/app.ts'
import type { DispatcherStats } from '../../gateway/dispatch/dispatch.ts'
import type { ModelCatalog } from './model-catalog.ts'

export function makeModelStatus(
  catalog: Pick<ModelCatalog, 'localState'>,
  /** Covers this process and each worker. */
  allStats: () => readonly DispatcherStats[],
): ModelStatus {
  return {
    localState: (model) => catalog.localState(model),
    deploymentHealth: (id) => {
      const all = allStats().flatMap(({ deployments }) => deployments.filter((one) => one.id === id))
      const [first] = all
      if (first === undefined) return undefined
      const { breaker } = all.find((one) => one.breaker !== 'closed') ?? first
      const load = all.find((one) => one.load !== undefined)?.load
      return {
        breaker,
        inFlight: sum(all.map((one) => one.inFlight)),
        // The server learns for its workers.
        limit: first.limit,
        queued: load?.waiting ?? null,
        faults: sum(all.flatMap((one) => Object.values(one.faults))),
      }
    },
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0)
}
