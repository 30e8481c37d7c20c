/**
 * The models that workers serve, and everyone's share of each deployment's limit: together never more than the limit. The
 * server learns limits for all, and divides them again when one has moved by more than a tenth. It alone serves models on
 * its own engines, on rented machines (their connections end here), and deployments with too few places to divide.
 */
import { initialLimit } from '../../domain/admission-limit.ts'
import type { Catalog, Deployment, ServedModel } from '../../gateway/catalog.ts'

/** The limits of deployments by their ids, as they were divided last. */
export type Limits = ReadonlyMap<string, number>

/** Smaller moves are not worth a new division. */
const MOVED_PART = 0.1

/** The server's own part, for requests that need the full path. */
const SERVER_PART = 8
/** With fewer places, a busy worker would queue requests while another is idle. */
const MIN_PLACES = 4

/** undefined: none has moved enough. */
export function movedLimits(
  catalog: Catalog,
  divided: Limits,
  limitOf: (deploymentId: string) => number | undefined,
): Limits | undefined {
  const limits = new Map<string, number>()
  let hasMoved = false
  for (const { id } of [...catalog.values()].flatMap(({ deployments }) => deployments)) {
    const limit = limitOf(id) ?? initialLimit.limit
    const before = divided.get(id)
    if (before === undefined || Math.abs(limit - before) > before * MOVED_PART) hasMoved = true
    limits.set(id, limit)
  }
  return hasMoved ? limits : undefined
}

function isForWorkers(model: ServedModel, workers: number, limits: Limits): boolean {
  if (model.kind !== 'chat' || model.startsOnDemand !== undefined || model.notReady !== undefined) return false
  return (
    model.deployments.length > 0 &&
    model.deployments.every(
      (one) => one.address.kind === 'tcp' && Math.floor(workersPart(one, limits) / workers) >= MIN_PLACES,
    )
  )
}

/** `worker` counts from 0. */
export function catalogOfWorker(catalog: Catalog, limits: Limits, workers: number, worker: number): Catalog {
  const models = [...catalog.values()].filter((model) => isForWorkers(model, workers, limits))
  return share(models, (deployment) => {
    const places = workersPart(deployment, limits)
    return Math.floor(places / workers) + (worker < places % workers ? 1 : 0)
  })
}

export function catalogOfServer(catalog: Catalog, limits: Limits, workers: number): Catalog {
  const shared = [...catalog.values()].filter((model) => isForWorkers(model, workers, limits))
  return new Map([...catalog, ...share(shared, (deployment) => serverPart(deployment, limits))])
}

function share(models: readonly ServedModel[], shareOf: (deployment: Deployment) => number): Catalog {
  return new Map(
    models.map((model) => [
      model.name,
      {
        ...model,
        deployments: model.deployments.map((one) => ({ ...one, share: shareOf(one) })),
      },
    ]),
  )
}

function limitIn(limits: Limits, { id, concurrency }: Deployment): number {
  return Math.min(concurrency, limits.get(id) ?? initialLimit.limit)
}

function serverPart(deployment: Deployment, limits: Limits): number {
  return Math.max(1, Math.floor(limitIn(limits, deployment) / SERVER_PART))
}

function workersPart(deployment: Deployment, limits: Limits): number {
  return limitIn(limits, deployment) - serverPart(deployment, limits)
}
