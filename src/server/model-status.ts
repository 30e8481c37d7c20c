/** Status of models on this server that is not in the database: its engines and the health of deployments. */
import type { ModelStatus } from '../app/app.ts'
import type { RunningDispatcher } from '../gateway/dispatch.ts'
import type { ModelCatalog } from './model-catalog.ts'

export function makeModelStatus(
  catalog: Pick<ModelCatalog, 'localState'>,
  dispatcher: Pick<RunningDispatcher, 'stats'>,
): ModelStatus {
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
