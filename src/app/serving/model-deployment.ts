/**
 * Deployments, as an operator manages them. Their API keys are sealed on arrival; only a gateway opens them, and the
 * audit log records only that a key was changed.
 */
import { randomId } from '../../base/id.ts'
import { limits, NO_CONCURRENCY_LIMIT } from '../../base/limits.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { protocolKinds, type DeploymentProtocol } from '../../contract/model.ts'
import type { AuditAction } from '../../domain/audit.ts'
import type { ModelKind } from '../../domain/inference.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Tx } from '../../store/platform/database.ts'
import * as store from '../../store/model/model.ts'
import type { Actor, App } from '../app.ts'
import { named } from './model.ts'

export interface DeploymentFacts {
  readonly weight?: number | undefined
  readonly concurrency?: number | undefined
  readonly connectMs?: number | undefined
  readonly firstByteMs?: number | undefined
  readonly betweenBytesMs?: number | undefined
  readonly totalMs?: number | undefined
  readonly readsMetrics?: boolean | undefined
}

export interface DeploymentInput extends DeploymentFacts {
  readonly model: string
  /** undefined: the default for the kind of model. */
  readonly protocol?: DeploymentProtocol | undefined
  /** Has passed `checkUpstreamUrl`. */
  readonly url: string
  /** undefined: the model has the same name there. */
  readonly upstreamModel?: string | undefined
  readonly apiKey?: string | undefined
  readonly reason?: string | undefined
}

export async function createDeployment(
  app: App,
  tx: Tx,
  actor: Actor,
  input: DeploymentInput,
): Promise<Result<store.Deployment>> {
  const model = await store.lockModel(tx, input.model)
  if (model === undefined) return failField(['model'], 'model_not_found', { model: input.model })
  const protocol = input.protocol ?? protocolOf(model.kind)
  if (!kindsOf(protocol).includes(model.kind)) {
    return failField(['protocol'], 'protocol_mismatch', { protocol, kinds: kindsOf(protocol) })
  }
  if ((await store.countDeployments(tx, model.name)) >= limits.deploymentsPerModel) {
    return fail('too_many_deployments', { max: limits.deploymentsPerModel })
  }
  const deployment = await store.insertDeployment(tx, {
    id: randomId('dep'),
    model: model.name,
    protocol,
    url: new URL(input.url).href,
    upstream_model: input.upstreamModel ?? model.name,
    key_sealed: input.apiKey === undefined ? null : app.vault.seal(input.apiKey),
    ...columnsOf({ ...input, concurrency: input.concurrency ?? NO_CONCURRENCY_LIMIT }),
  })
  await audit(tx, actor, 'deployment.create', deployment, input.reason, {
    ...detailOf({ ...input, url: deployment.url }),
    protocol,
  })
  return ok(deployment)
}

export interface DeploymentChange extends DeploymentFacts {
  readonly id: string
  /** Has passed `checkUpstreamUrl`. */
  readonly url?: string | undefined
  readonly upstreamModel?: string | undefined
  /** null: no key is sent. */
  readonly apiKey?: string | null | undefined
  readonly drained?: boolean | undefined
  readonly reason?: string | undefined
}

export async function changeDeployment(
  app: App,
  tx: Tx,
  actor: Actor,
  change: DeploymentChange,
): Promise<Result<store.Deployment>> {
  const before = await store.lockDeployment(tx, change.id)
  if (before === undefined) return noSuchDeployment()
  const { apiKey, drained, url } = change
  const columns: store.DeploymentChange = {
    ...columnsOf(change),
    ...named({ url: url === undefined ? undefined : new URL(url).href, upstream_model: change.upstreamModel }),
    ...(apiKey === undefined ? {} : { key_sealed: apiKey === null ? null : app.vault.seal(apiKey) }),
    // Draining again keeps the first time.
    ...(drained === undefined ? {} : { drained_at: drained ? (before.drained_at ?? tx.clock.now()) : null }),
  }
  if (Object.keys(columns).length === 0) return fail('nothing_to_change')
  const after = await store.updateDeployment(tx, change.id, columns)
  const changed = detailOf(change)
  await audit(tx, actor, 'deployment.change', after, change.reason, { before: sameFields(before, changed), changed })
  return ok(after)
}

export async function deleteDeployment(tx: Tx, actor: Actor, id: string): Promise<Result<string>> {
  const deleted = await store.deleteDeployment(tx, id)
  if (deleted === undefined) return noSuchDeployment()
  await audit(tx, actor, 'deployment.delete', deleted, undefined, { url: deleted.url })
  return ok(id)
}

function noSuchDeployment(): Failure {
  return fail('deployment_not_found')
}

function kindsOf(protocol: DeploymentProtocol): readonly ModelKind[] {
  return protocolKinds[protocol]
}

function protocolOf(kind: ModelKind): DeploymentProtocol {
  const protocols = Object.keys(protocolKinds) as DeploymentProtocol[]
  return protocols.find((protocol) => kindsOf(protocol).includes(kind)) ?? 'chat'
}

function columnsOf(facts: DeploymentFacts) {
  return named({
    weight: facts.weight,
    concurrency: facts.concurrency,
    connect_ms: facts.connectMs,
    first_byte_ms: facts.firstByteMs,
    between_bytes_ms: facts.betweenBytesMs,
    total_ms: facts.totalMs,
    reads_metrics: facts.readsMetrics,
  })
}

type AuditedFacts = Omit<DeploymentChange, 'id' | 'reason'>

/** For the audit log, with the names of the contract. Of a key, only whether there is one. */
function detailOf(facts: AuditedFacts): Record<string, unknown> {
  const { weight, concurrency, connectMs, firstByteMs, betweenBytesMs, totalMs, readsMetrics } = facts
  const { url, upstreamModel, drained, apiKey } = facts
  const times = { connectMs, firstByteMs, betweenBytesMs, totalMs }
  return {
    ...named({ url, upstreamModel, weight, concurrency, ...times, readsMetrics, drained }),
    ...(apiKey === undefined ? {} : { apiKey: apiKey === null ? 'none' : 'set' }),
  }
}

function sameFields(before: store.Deployment, changed: Record<string, unknown>): Record<string, unknown> {
  const all = detailOf({
    url: before.url,
    upstreamModel: before.upstream_model,
    weight: before.weight,
    concurrency: before.concurrency,
    connectMs: before.connect_ms,
    firstByteMs: before.first_byte_ms,
    betweenBytesMs: before.between_bytes_ms,
    totalMs: before.total_ms,
    readsMetrics: before.reads_metrics,
    drained: before.drained_at !== null,
    apiKey: before.key_sealed,
  })
  return Object.fromEntries(Object.entries(all).filter(([name]) => Object.hasOwn(changed, name)))
}

async function audit(
  tx: Tx,
  actor: Actor,
  action: AuditAction,
  deployment: store.Deployment,
  reason: string | undefined,
  detail: Record<string, unknown>,
): Promise<void> {
  await writeAudit(tx, {
    actor: actor.keyId,
    action,
    subject: deployment.id,
    ...(reason === undefined ? {} : { reason }),
    detail: { model: deployment.model, ...detail },
  })
}
