/** Managed deployments: creating, changing, rolling out and deleting them. The loop `serve` carries everything out. */
import { randomId } from '../../base/id.ts'
import { limits } from '../../base/limits.ts'
import type { DeploymentSettings, DeploymentSpec } from '../../contract/managed-deployment.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import type { AuditAction } from '../../domain/audit.ts'
import type { ModelKind } from '../../domain/inference.ts'
import { acceptsTools } from '../../domain/recipe.ts'
import { containerOf } from '../../domain/replica-plan.ts'
import { initialScaling } from '../../domain/scaling.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import * as store from '../../store/serving/managed-deployment.ts'
import { countModels, insertModel, lockModel } from '../../store/model/model.ts'
import type { Actor } from '../app.ts'
import { recordDeploymentEvent } from './deployment-event.ts'
import { HOUSE_ACCOUNT } from '../money/house.ts'
import { setAdapters } from './adapter.ts'
import { refuseSimulated } from './replica.ts'

export interface NewDeployment {
  readonly name?: string | undefined
  readonly model?: string | undefined
  readonly kind: ModelKind
  readonly forEveryone?: boolean | undefined
  readonly sharedWith?: readonly string[] | undefined
  readonly contextTokens?: number | undefined
  /** Default: as its engine is started. */
  readonly supportsTools?: boolean | undefined
  readonly supportsImageInput?: boolean | undefined
  readonly spec: DeploymentSpec
  readonly settings: DeploymentSettings
}

/** The account's own, and to operators those of the house. */
export async function findDeployment(db: Db, actor: Actor, id: string): Promise<Result<store.ManagedDeployment>> {
  const deployment = await store.findManaged(db, id)
  return deployment !== undefined && isOwn(deployment, actor) ? ok(deployment) : fail('deployment_not_found')
}

export async function listDeployments(db: Db, actor: Actor): Promise<store.ManagedDeployment[]> {
  const ownDeployments = await store.listManaged(db, actor.accountId)
  if (!isOperator(actor) || actor.accountId === HOUSE_ACCOUNT) return ownDeployments
  const house = await store.listManaged(db, HOUSE_ACCOUNT)
  return [...ownDeployments, ...house.filter(({ is_public }) => is_public)]
}

function isOwn({ account_id, is_public }: store.ManagedRow, actor: Actor): boolean {
  return account_id === actor.accountId || (is_public && isOperator(actor))
}

function isOperator({ scopes }: Actor): boolean {
  return scopes.includes('operator')
}

export async function createManagedDeployment(
  tx: Tx,
  actor: Actor,
  input: NewDeployment,
): Promise<Result<store.ManagedDeployment>> {
  const isPublic = input.forEveryone === true
  if (isPublic && !isOperator(actor)) return fail('missing_scope', { scope: 'operator' })
  if (isPublic && input.settings.hourlyBudgetUsd === null) return failField(['hourlyBudgetUsd'], 'house_budget_missing')
  if (isUpsideDown(input.settings)) return failField(['replicas', 'min'], 'replicas_min_above_max')
  const accountId = isPublic ? HOUSE_ACCOUNT : actor.accountId
  if ((await store.countManaged(tx.db, accountId)) >= limits.managedDeployments) {
    return fail('quota_exceeded', { quota: `${limits.managedDeployments} deployments` })
  }
  const served = isPublic ? await publicModel(tx, input) : await privateModel(tx, actor, input)
  if (!served.ok) return served
  const { name: model, kind, isNew } = served.value
  const container = containerOf({ model, kind, is_public: isPublic, account_id: accountId }, input.spec, 'checked')
  if (!container.ok) return container
  const refused = await refuseSimulated(tx.db, input.spec)
  if (refused !== undefined) return refused
  const id = randomId('srv')
  await store.insertManaged(tx, {
    id,
    account_id: accountId,
    person_id: actor.personId,
    api_key_id: actor.keyId,
    model,
    is_public: isPublic,
    owns_model: isNew && !isPublic,
    settings: input.settings,
    scaling: initialScaling(input.settings.replicas, tx.clock.now()),
    spec: input.spec,
  })
  const deployment = await mustFind(tx, id)
  const adapters = await setAdapters(tx, deployment, container.value.adapters)
  if (!adapters.ok) return adapters
  recordDeploymentEvent(tx, deployment, 'deployment.created', { recipe: input.spec.recipe.name })
  await audit(tx, actor, deployment, 'managed_deployment.create')
  return ok(deployment)
}

function isUpsideDown({ replicas }: DeploymentSettings): boolean {
  return replicas.min > replicas.max
}

interface Served {
  readonly name: string
  readonly kind: ModelKind
  readonly isNew: boolean
}

async function publicModel(tx: Tx, input: NewDeployment): Promise<Result<Served>> {
  const { model: name } = input
  if (name === undefined) return failField(['model'], 'deployment_name_missing')
  const existingModel = await lockModel(tx, name)
  if (existingModel === undefined) return addModel(tx, { name, accountId: null }, input)
  if (existingModel.account_id !== null) return failField(['model'], 'model_not_found', { model: name })
  const deployed = await store.findManagedOfModel(tx.db, name)
  return deployed === undefined
    ? ok({ name, kind: existingModel.kind, isNew: false })
    : fail('model_deployed', { model: name })
}

/** The name of a private model starts with the account, so it can neither take nor reveal a name of another account. */
async function privateModel(tx: Tx, actor: Actor, input: NewDeployment): Promise<Result<Served>> {
  if (input.name === undefined) return failField(['name'], 'deployment_name_missing')
  return addModel(tx, { name: `${actor.accountId}/${input.name}`, accountId: actor.accountId }, input)
}

async function addModel(
  tx: Tx,
  { name, accountId }: { name: string; accountId: string | null },
  { kind, contextTokens, sharedWith, spec, supportsTools, supportsImageInput = false }: NewDeployment,
): Promise<Result<Served>> {
  if ((await countModels(tx.db)) >= limits.models) return fail('too_many_models', { max: limits.models })
  const isNew = await insertModel(tx, {
    name,
    kind,
    engine: null,
    context_tokens: contextTokens ?? null,
    supports_tools: kind === 'chat' && (supportsTools ?? acceptsTools(spec.recipe)),
    supports_image_input: kind === 'chat' && supportsImageInput,
    account_id: accountId,
    shared_with: accountId === null ? [] : [...(sharedWith ?? [])],
  })
  return isNew ? ok({ name, kind, isNew }) : fail('model_exists', { model: name })
}

export interface DeploymentChange {
  readonly settings: Partial<DeploymentSettings>
  readonly sharedWith?: readonly string[] | undefined
}

export async function changeManagedDeployment(
  tx: Tx,
  actor: Actor,
  id: string,
  { settings, sharedWith }: DeploymentChange,
): Promise<Result<store.ManagedDeployment>> {
  const locked = await lockOwn(tx, actor, id)
  if (!locked.ok) return locked
  const { value: before } = locked
  if (Object.keys(settings).length === 0 && sharedWith === undefined) return fail('nothing_to_change')
  const after = { ...before.settings, ...settings }
  if (isUpsideDown(after)) return failField(['replicas', 'min'], 'replicas_min_above_max')
  if (before.is_public && after.hourlyBudgetUsd === null) return failField(['hourlyBudgetUsd'], 'house_budget_missing')
  // An order that failed for lack of budget or replicas is tried again at once.
  await store.updateManaged(tx, id, { settings: after, blocked: null })
  if (sharedWith !== undefined && !before.is_public) await store.shareModel(tx, before, sharedWith)
  tx.wake.add(store.SERVE_WAKE)
  recordDeploymentEvent(tx, before, 'deployment.changed', { fields: Object.keys(settings) })
  await audit(tx, actor, before, 'managed_deployment.change')
  return ok(await mustFind(tx, id))
}

export async function rolloutManagedDeployment(
  tx: Tx,
  actor: Actor,
  id: string,
  change: { readonly spec: Partial<DeploymentSpec>; readonly inPlace: boolean },
): Promise<Result<store.ManagedDeployment>> {
  const locked = await lockOwn(tx, actor, id)
  if (!locked.ok) return locked
  const { value: before } = locked
  const spec = { ...before.spec, ...change.spec }
  const container = containerOf(before, spec, 'checked')
  if (!container.ok) return container
  const refused = change.spec.gpus === undefined ? undefined : await refuseSimulated(tx.db, spec)
  if (refused !== undefined) return refused
  const adapters = await setAdapters(tx, { ...before, spec }, container.value.adapters)
  if (!adapters.ok) return adapters
  const version = await store.addVersion(tx, id, spec, change.inPlace)
  recordDeploymentEvent(tx, before, 'deployment.rollout_started', { version })
  await audit(tx, actor, before, 'managed_deployment.change')
  return ok(await mustFind(tx, id))
}

/** The model is gone for callers as soon as its last replica has drained. */
export async function deleteManagedDeployment(tx: Tx, actor: Actor, id: string): Promise<Result<string>> {
  const deployment = await store.lockManaged(tx, id)
  if (deployment === undefined || !isOwn(deployment, actor)) return fail('deployment_not_found')
  if (deployment.deleted_at === null) {
    await store.updateManaged(tx, id, { deleted_at: tx.clock.now() })
    await audit(tx, actor, deployment, 'managed_deployment.delete')
  }
  tx.wake.add(store.SERVE_WAKE)
  return ok(id)
}

async function lockOwn(tx: Tx, actor: Actor, id: string): Promise<Result<store.ManagedDeployment>> {
  const deployment = await store.lockManaged(tx, id)
  if (deployment === undefined || !isOwn(deployment, actor)) return fail('deployment_not_found')
  return deployment.deleted_at === null ? ok(deployment) : fail('deployment_deleting')
}

async function mustFind(tx: Tx, id: string): Promise<store.ManagedDeployment> {
  const deployment = await store.findManaged(tx.db, id)
  if (deployment === undefined) throw new Error(`there is no deployment ${id}`)
  return deployment
}

/** Records an operator's change for everyone in the audit log. A customer's change is in the account's events. */
async function audit(tx: Tx, actor: Actor, deployment: store.ManagedRow, action: AuditAction): Promise<void> {
  if (!deployment.is_public) return
  await writeAudit(tx, { actor: actor.keyId, action, subject: deployment.id, detail: { model: deployment.model } })
}
