/** What this server sees of models beyond the books, in the operators' words: its engines, and how deployments do. */
import type { ModelSight } from '../app/app.ts'
import type { RunningDispatcher } from '../gateway/dispatch.ts'
import type { ModelCatalog } from './model-catalog.ts'

export function makeModelSight(
  catalog: Pick<ModelCatalog, 'localState'>,
  dispatcher: Pick<RunningDispatcher, 'stats'>,
): ModelSight {
  return {
    localState: (model) => catalog.localState(model),
    deploymentHealth: (id) => {
      const stats = dispatcher.stats().deployments.find((one) => one.id === id)
      if (stats === undefined) return undefined
      const { breaker, inFlight, load } = stats
      const faults = Object.values(stats.faults).reduce((sum, n) => sum + n, 0)
      return { breaker, inFlight, queued: load?.waiting ?? null, faults }
    },
  }
}
