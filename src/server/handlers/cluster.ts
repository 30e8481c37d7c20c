/** Clusters over HTTP, for operators. */
import { fail, ok } from '../../contract/result.ts'
import type { Handlers } from '../http/handler.ts'

const LIST_MS = 10_000
/** Long enough to pull the images of the probes. */
const CHECK_MS = 240_000

export const clusterHandlers = {
  listClusters: async (app) => {
    const sources = [...app.drivers.values()].flatMap(({ clusters }) => clusters ?? [])
    const clusters = await Promise.all(sources.map((source) => source.list(AbortSignal.timeout(LIST_MS))))
    return ok({ clusters: clusters.flat() })
  },

  checkCluster: async (app, { params, body }) => {
    for (const { clusters } of app.drivers.values()) {
      const running = clusters?.check(params.name, body.image, AbortSignal.timeout(CHECK_MS))
      const checks = await running?.catch((error: unknown) => String(error))
      if (typeof checks === 'string') return fail('cluster_unreachable', { name: params.name, message: checks })
      if (checks !== undefined)
        return ok({ ok: checks.every(({ result }) => result !== 'not_enforced' && result !== 'not_tried'), checks })
    }
    return fail('cluster_not_found', { name: params.name })
  },
} satisfies Partial<Handlers>
