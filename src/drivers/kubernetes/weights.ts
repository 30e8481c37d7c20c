/**
 * Weights of models in pods. An init container, which runs another program of our engine image, downloads them from the
 * server, resumes interrupted downloads, and checks every digest. It writes into a storage claim that the pods of a
 * node share (weights-claim.ts), or into a folder of the pod. The program itself mounts them read-only. The last line
 * of the init container's log is the progress of the download.
 */
import type { Program } from '../../contract/agent.ts'
import { SHARED_FLAG, SHARED_FOLDER, type PodWeights } from '../../contract/pod-weights.ts'
import type { HostWeights } from '../../contract/weights.ts'
import type { KubernetesApi } from './api.ts'
import type { ClusterConfig } from './config.ts'
import { WEIGHTS_CONTAINER, podPath, type PodAddress } from './names.ts'
import type { PodObject } from './objects.ts'

const ORDER_FOLDER = '/.berth'
const ORDER_FILE = 'weights.json'
const SECRET_KEY = 'weights'
/** The image of our engines contains this program. */
const FETCH_PROGRAM = ['/usr/local/bin/node', '/app/dist/fetch-weights.mjs', `${ORDER_FOLDER}/${ORDER_FILE}`]
const BYTES_PER_GB = 1_000_000_000
/** The other part of the disk is for the program's own files and its log. */
const MAX_DISK_PART = 0.9
const MAX_PROGRESS_CHARS = 200

type Serving = NonNullable<ClusterConfig['serving']>

export interface WeightsOrder {
  readonly tag: string
  readonly secretName: string
  readonly weights: HostWeights
  readonly serving: Serving
  /** Lets only this pod download its weights. */
  readonly authorization: string
  /** The claim that pods of the node share. undefined: the pod has its own copy. */
  readonly claim: string | undefined
}

/** undefined: the weights fit. */
export function whyNoDiskFor(program: Program, storageGb: number): string | undefined {
  const bytes = (program.weights?.files ?? []).reduce((sum, file) => sum + file.bytes, 0)
  if (bytes <= storageGb * BYTES_PER_GB * MAX_DISK_PART) return undefined
  return `The weights have ${gb(bytes)} GB, and the disk of the machine has ${storageGb} GB.`
}

function gb(bytes: number): string {
  return (bytes / BYTES_PER_GB).toFixed(1)
}

/** Returns the file in the pod's Secret that the init container reads. */
export function weightsSecret({ tag, weights, serving, authorization }: WeightsOrder): Record<string, string> {
  const order: PodWeights = {
    server: serving.serverUrl,
    workloadId: tag,
    authorization,
    // The network policy of the namespace lists the private addresses that the pod may reach.
    allowPrivate: serving.allowedAddresses.length > 0,
    folder: weights.mountPath,
    files: weights.files,
  }
  return { [SECRET_KEY]: JSON.stringify(order) }
}

/** `resources`: those of the program without its GPUs, since the two containers run one after the other. */
export function weightsContainer(
  { weights, serving, claim }: WeightsOrder,
  { isRestricted, ...common }: { resources: object; securityContext: object; isRestricted: boolean },
) {
  const { securityContext } = common
  return {
    name: WEIGHTS_CONTAINER,
    image: serving.engineImage,
    // The image does not belong to a tenant, so nobody has to prove the right to use it.
    imagePullPolicy: 'IfNotPresent',
    command: claim === undefined ? FETCH_PROGRAM : [...FETCH_PROGRAM, SHARED_FLAG],
    ...common,
    // New storage belongs to root, and not every kind of storage supports groups.
    securityContext: claim === undefined || isRestricted ? securityContext : { ...securityContext, runAsUser: 0 },
    volumeMounts: [
      { name: 'weights', mountPath: weights.mountPath },
      { name: 'weights-order', mountPath: ORDER_FOLDER, readOnly: true },
    ],
  }
}

export function weightsVolumes({ secretName, claim }: WeightsOrder) {
  return [
    {
      name: 'weights',
      ...(claim === undefined ? { emptyDir: {} } : { persistentVolumeClaim: { claimName: claim } }),
    },
    { name: 'weights-order', secret: { secretName, items: [{ key: SECRET_KEY, path: ORDER_FILE, mode: 0o444 }] } },
  ]
}

export function weightsMount({ weights: { mountPath }, claim }: WeightsOrder) {
  return { name: 'weights', mountPath, readOnly: true, ...(claim === undefined ? {} : { subPath: SHARED_FOLDER }) }
}

/** Tells whether the pod is downloading its weights now. */
export function isDownloading({ status }: PodObject): boolean {
  const container = status?.initContainerStatuses?.find(({ name }) => name === WEIGHTS_CONTAINER)
  return container?.state?.running !== undefined
}

/** Returns the last line of the download's log. undefined: it has written none yet. */
export async function readProgress(
  api: KubernetesApi,
  address: Pick<PodAddress, 'namespace' | 'name'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const query = { container: WEIGHTS_CONTAINER, tailLines: '1', limitBytes: String(MAX_PROGRESS_CHARS) }
  let text = ''
  for await (const chunk of (await api.stream(`${podPath(address)}/log`, query, signal)) as AsyncIterable<Buffer>)
    text += chunk.toString('utf8')
  return text.trim() === '' ? undefined : text.trim().slice(0, MAX_PROGRESS_CHARS)
}
