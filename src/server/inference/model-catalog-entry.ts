/**
 * A model of the registry as a gateway serves it: its deployments, and this server's own engine if it runs one. The only
 * place where deployment keys are decrypted.
 */
import type { LocalModelState } from '../../contract/model.ts'
import { batchPrices } from '../../domain/batch.ts'
import type { Address, Deployment, ServedModel } from '../../gateway/catalog.ts'
import type { LocalState } from '../../engines/process/local-engine.ts'
import {
  pricesOf,
  type Deployment as DeploymentRow,
  type ModelWithDeployments,
  type ServingReplica,
} from '../../store/model/model.ts'

export interface EntryPorts {
  /** Throws if the key was sealed under another secret. */
  readonly open: (sealed: string) => string
  /** A deployment's key cannot be decrypted: the deployment is left out. */
  readonly unopened: (deploymentId: string) => void
}

export function servedModel(
  model: ModelWithDeployments,
  local: LocalState | undefined,
  ports: EntryPorts,
): ServedModel {
  const named = model.deployments.flatMap((row) => remoteDeployment(row, ports) ?? [])
  const remote = [...named, ...model.replicas.flatMap((row) => replicaDeployment(row, model, ports) ?? [])]
  const waitMs = waitMsOf(model)
  const facts = local?.kind === 'ready' ? local.facts : undefined
  const isLocal = local?.kind === 'ready' && !isReplaced(model.engine, remote)
  const deployments = isLocal ? [...remote, localDeployment(model.name, local)] : remote
  return {
    name: model.name,
    kind: model.kind,
    contextTokens: smaller(model.context_tokens, remote.length > 0 ? null : (facts?.contextTokens ?? null)),
    maxOutputTokens: model.max_output_tokens,
    prices: pricesOf(model),
    batchPrices: batchPrices(pricesOf(model), model.batch_discount_percent),
    supportsTools: model.supports_tools || facts?.supportsTools === true,
    supportsImageInput: model.supports_image_input,
    createdAt: model.created_at,
    deployments,
    ...(model.account_id === null ? {} : { visibleTo: [model.account_id, ...model.shared_with] }),
    ...(model.adapter_of === null || model.managed === null ? {} : { adapterOf: model.managed.model }),
    ...(waitMs === undefined ? {} : { startsOnDemand: { waitMs } }),
    notReady: deployments.some(isInUse) ? undefined : (givenUp(model) ?? whyNot(model.name, local)),
  }
}

/** How long a request may wait for a replica. undefined: none would start. */
function waitMsOf({ managed }: ModelWithDeployments): number | undefined {
  if (managed === null || managed.is_deleted || managed.is_given_up || managed.max_replicas === 0) return undefined
  return managed.queue_seconds * 1_000
}

const GIVEN_UP_RETRY_MS = 30_000

function givenUp({ name, managed }: ModelWithDeployments): ServedModel['notReady'] {
  if (managed?.is_given_up !== true) return undefined
  return {
    message: `${name} failed to start. Its owner has to fix the deployment.`,
    retryAfterMs: GIVEN_UP_RETRY_MS,
    phase: 'failed',
  }
}

function isInUse({ drained, weight }: Deployment): boolean {
  return !drained && weight > 0
}

/**
 * Other engines run the same model as remote deployments and share its requests. The image engine has a small model of
 * its own: once the operator adds a deployment for images, all of them come from there.
 */
function isReplaced(engine: ModelWithDeployments['engine'], remote: readonly Deployment[]): boolean {
  return engine === 'picture' && remote.some(isInUse)
}

/** An engine may have less context than the registry promises, and the registry may promise less than it has. */
function smaller(ours: number | null, engines: number | null): number | null {
  return ours === null || engines === null ? (ours ?? engines) : Math.min(ours, engines)
}

const PULLING_RETRY_MS = 10_000
const LOADING_RETRY_MS = 3_000

/** For customers, so without the engine's own error. A model that nothing runs is not loading. */
function whyNot(name: string, local: LocalState | undefined): ServedModel['notReady'] {
  switch (local?.kind) {
    case 'idle':
      return { message: `${name} is starting. Try again in a moment.`, retryAfterMs: LOADING_RETRY_MS, phase: 'idle' }
    case 'pulling':
      return {
        message: `${name} is downloading: ${progressOf(local)}`,
        retryAfterMs: PULLING_RETRY_MS,
        phase: 'pulling',
      }
    case 'loading':
      return {
        message: `${name} is starting. Try again in a moment.`,
        retryAfterMs: LOADING_RETRY_MS,
        phase: 'starting',
      }
    case 'failed':
      return {
        message: `${name} failed to start; retrying`,
        retryAfterMs: local.retryInMs,
        phase: 'failed',
      }
    case 'ready':
    case undefined:
      return undefined
  }
}

function progressOf({ doneBytes, totalBytes }: { doneBytes: number; totalBytes: number | null }): string {
  const megabytes = (bytes: number): string => `${Math.round(bytes / 1e6)} MB`
  if (totalBytes === null || totalBytes <= 0) return `${megabytes(doneBytes)} so far`
  return `${Math.floor((Math.min(doneBytes, totalBytes) / totalBytes) * 100)} % of ${megabytes(totalBytes)}`
}

/** null: the deployment's key cannot be decrypted. */
function authorizationOf(
  row: { readonly id: string; readonly key_sealed: string | null },
  ports: EntryPorts,
): string | undefined | null {
  try {
    return row.key_sealed === null ? undefined : `Bearer ${ports.open(row.key_sealed)}`
  } catch {
    ports.unopened(row.id)
    return null
  }
}

/** An engine on a GPU answers faster than one on a CPU, but a long prompt may wait in its own queue. */
const REPLICA_LIMITS = { connectMs: 5_000, firstByteMs: 300_000, betweenBytesMs: 60_000, totalMs: 3_600_000 } as const

/** undefined: the replica's key cannot be decrypted, or its version has not loaded the adapter. */
function replicaDeployment(
  row: ServingReplica,
  model: Pick<ModelWithDeployments, 'name' | 'adapter_of'>,
  ports: EntryPorts,
): Deployment | undefined {
  const adapter = row.endpoint.adapters?.find(({ name }) => name === model.name)
  if (model.adapter_of !== null && adapter === undefined) return undefined
  const authorization = authorizationOf(row, ports)
  if (authorization === null) return undefined
  const { port, protocol, concurrency, upstreamModel, readsMetrics } = row.endpoint
  return {
    id: row.id,
    protocol,
    address: { kind: 'link', hostId: row.host_id, workloadId: row.workload_id, port },
    hostHeader: `127.0.0.1:${port}`,
    basePath: '',
    upstreamModel: adapter?.upstreamModel ?? upstreamModel,
    ...(adapter === undefined || Object.keys(adapter.members).length === 0 ? {} : { members: adapter.members }),
    authorization,
    weight: 1,
    concurrency,
    ...REPLICA_LIMITS,
    readsMetrics,
    drained: row.state === 'draining',
  }
}

function remoteDeployment(row: DeploymentRow, ports: EntryPorts): Deployment | undefined {
  const authorization = authorizationOf(row, ports)
  if (authorization === null) return undefined
  return {
    id: row.id,
    protocol: row.protocol,
    ...placeOf(row.url),
    upstreamModel: row.upstream_model,
    authorization,
    weight: row.weight,
    concurrency: row.concurrency,
    connectMs: row.connect_ms,
    firstByteMs: row.first_byte_ms,
    betweenBytesMs: row.between_bytes_ms,
    totalMs: row.total_ms,
    readsMetrics: row.reads_metrics,
    drained: row.drained_at !== null,
  }
}

/** Operations include `/v1`, so the URL may end with it or not; image servers have it after `/sdapi`. */
function placeOf(url: string): { address: Address; hostHeader: string; basePath: string } {
  const { protocol, hostname, port, host, pathname } = new URL(url)
  const tls = protocol === 'https:'
  return {
    address: {
      kind: 'tcp',
      host: hostname.replace(/^\[(.*)\]$/, '$1'),
      port: port === '' ? (tls ? 443 : 80) : Number.parseInt(port, 10),
      tls,
    },
    hostHeader: host,
    basePath: pathname.replace(/\/+$/, '').replace(/(\/sdapi)?\/v1$/, ''),
  }
}

/** A local engine is slow: on a CPU a long prompt takes minutes. */
const LOCAL_LIMITS = { connectMs: 5_000, firstByteMs: 600_000, betweenBytesMs: 120_000, totalMs: 3_600_000 } as const

function localDeployment(model: string, { socketPath, facts }: Extract<LocalState, { kind: 'ready' }>): Deployment {
  return {
    id: `local:${model}`,
    protocol: 'embedded',
    address: { kind: 'unix', path: socketPath },
    hostHeader: 'localhost',
    basePath: '',
    upstreamModel: model,
    authorization: undefined,
    weight: 1,
    concurrency: facts.concurrency,
    ...LOCAL_LIMITS,
    readsMetrics: false,
    drained: false,
  }
}

/** The state of a local model, for operators. */
export function localStateOnWire(local: LocalState): LocalModelState {
  const none = { doneBytes: null, totalBytes: null, message: null, retryInMs: null }
  switch (local.kind) {
    case 'pulling':
      return { ...none, state: 'pulling', doneBytes: local.doneBytes, totalBytes: local.totalBytes }
    case 'failed':
      return { ...none, state: 'failed', message: local.message, retryInMs: local.retryInMs }
    case 'idle':
    case 'loading':
    case 'ready':
      return { ...none, state: local.kind }
  }
}
