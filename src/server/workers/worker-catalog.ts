/**
 * The models that workers serve, and everyone's share of each deployment's concurrent requests: together never more than
 * the deployment allows. The server alone serves models on its own engines, on rented machines (their connections end
 * here), and deployments with too few places to divide.
 */
import type { Catalog, Deployment, ServedModel } from '../../gateway/catalog.ts'

/** The server's own part, for requests that need the full path. */
const SERVER_PART = 8
/** With fewer places, a busy worker would queue requests while another is idle. */
const MIN_PLACES = 4

function isForWorkers(model: ServedModel, workers: number): boolean {
  if (model.kind !== 'chat' || model.startsOnDemand !== undefined || model.notReady !== undefined) return false
  return (
    model.deployments.length > 0 &&
    model.deployments.every((one) => one.address.kind === 'tcp' && Math.floor(restOf(one) / workers) >= MIN_PLACES)
  )
}

/** `worker` counts from 0. */
export function catalogOfWorker(catalog: Catalog, workers: number, worker: number): Catalog {
  const models = [...catalog.values()].filter((model) => isForWorkers(model, workers))
  return share(models, (deployment) => {
    const rest = restOf(deployment)
    return Math.floor(rest / workers) + (worker < rest % workers ? 1 : 0)
  })
}

export function catalogOfServer(catalog: Catalog, workers: number): Catalog {
  const shared = [...catalog.values()].filter((model) => isForWorkers(model, workers))
  return new Map([...catalog, ...share(shared, serverPart)])
}

function share(models: readonly ServedModel[], concurrencyOf: (deployment: Deployment) => number): Catalog {
  return new Map(
    models.map((model) => [
      model.name,
      {
        ...model,
        deployments: model.deployments.map((one) => ({ ...one, concurrency: concurrencyOf(one) })),
      },
    ]),
  )
}

function serverPart({ concurrency }: Deployment): number {
  return Math.max(1, Math.floor(concurrency / SERVER_PART))
}

function restOf(deployment: Deployment): number {
  return deployment.concurrency - serverPart(deployment)
}
