/** The weights of containers. The host's cache downloads them once per account; containers mount them read-only. */
import type { HostFiles } from '../../artifacts/model/host-files.ts'
import type { OwnedWeights, WeightsCache } from '../../artifacts/model/weights-cache.ts'
import type { Workload } from '../../contract/agent.ts'
import type { Failure } from '../../contract/result.ts'
import type { RentalOutcome } from '../../contract/rental-outcome.ts'
import { byteProgress } from '../byte-progress.ts'
import { CustomerError, NeverStarts } from '../runtime.ts'
import type { DockerClient } from './client.ts'

/** The files that a host downloads from its server. */
export interface HostDownloads {
  readonly weights: Pick<WeightsCache, 'hold' | 'folderOf' | 'idOf'>
  readonly images: Pick<HostFiles, 'engineImage' | 'fetchEngineImage'>
  /** Opens the disk of a workload that moves to this host, in the format of `disk-archive.ts`. */
  readonly openDisk: HostFiles['openDisk']
  /** The folder that holds the archives of images. */
  readonly imageFolder: string
}

const WEIGHTS_LABEL = 'berth.weights'

/** Downloads the weights of a container and then starts it. They stay on the host as long as the container exists. */
export async function withWeights(
  { downloads, client }: { readonly downloads?: HostDownloads | undefined; readonly client: DockerClient },
  workload: Workload,
  progress: (message: string) => void,
  signal: AbortSignal,
  start: () => Promise<void>,
): Promise<void> {
  const weights = weightsOf(workload)
  if (weights === undefined) return start()
  if (downloads === undefined) throw new NeverStarts('weights_unavailable', 'This host cannot download weights.')
  const listUsed = async (): Promise<string[]> =>
    (await client.containers(WEIGHTS_LABEL, signal)).flatMap(({ Labels }) => Labels[WEIGHTS_LABEL] ?? [])
  const options = { inUse: listUsed, progress: byteProgress('downloading the weights', progress), signal }
  const result = await downloads.weights.hold(workload.id, weights, options, start)
  if (!result.ok) throw errorOf(result, 'weights_unavailable')
}

/** The labels and mounts in the request to Docker that creates the container. */
export function weightsOrder(
  workload: Workload,
  downloads: HostDownloads | undefined,
): { readonly labels: Record<string, string>; readonly mounts: unknown[] } {
  const weights = weightsOf(workload)
  if (weights === undefined || downloads === undefined) return { labels: {}, mounts: [] }
  const source = downloads.weights.folderOf(weights)
  return {
    labels: { [WEIGHTS_LABEL]: downloads.weights.idOf(weights) },
    mounts: [{ Type: 'bind', Source: source, Target: weights.mountPath, ReadOnly: true }],
  }
}

/** An older server names no owner: such weights are shared with no other workload. */
function weightsOf({ id, spec }: Workload): OwnedWeights | undefined {
  const weights = spec?.program?.weights
  return weights === undefined ? undefined : { ...weights, owner: weights.owner ?? id }
}

/** A failure that may be temporary is tried again; any other is final. */
export function errorOf(failure: Failure, reason: RentalOutcome): CustomerError {
  return failure.kind === 'unavailable' ? new CustomerError(failure.message) : new NeverStarts(reason, failure.message)
}
