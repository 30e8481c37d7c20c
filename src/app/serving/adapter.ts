/**
 * LoRA adapters of managed deployments: models of their own in the catalog, served by the replicas of the base model.
 * New ones exist from the start of a rollout; those that the new version no longer has go when the rollout is done, since
 * the old version serves them until then.
 */
import { limits } from '../../base/limits.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import type { ServedAdapter } from '../../domain/recipe.ts'
import { adapterModel } from '../../domain/replica-plan.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { ManagedDeployment } from '../../store/serving/managed-deployment.ts'
import * as store from '../../store/model/model.ts'

/** Adds the models of a version's adapters, and changes who may use them. */
export async function setAdapters(
  tx: Tx,
  deployment: ManagedDeployment,
  adapters: readonly ServedAdapter[],
): Promise<Result<null>> {
  const base = await store.lockModel(tx, deployment.model)
  if (base === undefined) throw new Error(`there is no model ${deployment.model}`)
  const existingNames = new Set((await store.listAdapters(tx.db, [deployment.id])).map(({ name }) => name))
  for (const [n, { name }] of adapters.entries()) {
    const adapter = { name, sharedWith: deployment.spec.recipe.adapters?.[n]?.sharedWith }
    if (existingNames.has(name)) {
      await store.shareAdapter(tx, base, adapter, deployment.account_id)
      continue
    }
    if ((await store.countModels(tx.db)) >= limits.models) return fail('too_many_models', { max: limits.models })
    const isNew = await store.insertAdapter(tx, base, deployment.id, adapter, deployment.account_id)
    if (!isNew) return failField(['recipe', 'adapters', n, 'name'], 'model_exists', { model: name })
  }
  return ok(null)
}

/** The rollout is done: what the version does not have is gone. */
export async function dropAdapters(tx: Tx, { id, spec, is_public, account_id }: ManagedDeployment): Promise<void> {
  const names = new Set((spec.recipe.adapters ?? []).map(({ name }) => adapterModel(name, is_public, account_id)))
  for (const { name } of await store.listAdapters(tx.db, [id])) if (!names.has(name)) await store.deleteModel(tx, name)
}
