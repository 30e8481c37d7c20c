/** Models, as an operator manages them. Each change is written to the audit log in the same transaction. */
import { limits } from '../../base/limits.ts'
import { formatUsd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { EngineName, ModelFile, ModelPriceName } from '../../contract/model.ts'
import type { AuditAction } from '../../domain/audit.ts'
import type { ModelKind } from '../../domain/inference.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Tx } from '../../store/platform/database.ts'
import { findManagedOfModel } from '../../store/serving/managed-deployment.ts'
import * as store from '../../store/model/model.ts'
import type { Actor } from '../app.ts'

/** With the names of the contract. */
export type PricesInput = { readonly [name in ModelPriceName]?: NanoUsd | undefined }

export interface ModelFacts {
  /** null: bundled with Berth. */
  readonly files?: readonly ModelFile[] | null | undefined
  readonly contextTokens?: number | null | undefined
  readonly maxOutputTokens?: number | null | undefined
  readonly supportsTools?: boolean | undefined
  readonly supportsImageInput?: boolean | undefined
  readonly enabled?: boolean | undefined
  readonly batchDiscountPercent?: number | undefined
}

export interface ModelInput extends ModelFacts {
  readonly name: string
  readonly kind: ModelKind
  readonly engine: EngineName | null
  readonly prices: PricesInput
  readonly reason?: string | undefined
}

const kindOfEngine: Readonly<Record<EngineName, ModelKind>> = {
  llama: 'chat',
  speech: 'speech',
  embedding: 'embedding',
  picture: 'image',
  transcription: 'transcription',
}

export async function createModel(
  tx: Tx,
  actor: Actor,
  input: ModelInput,
): Promise<Result<store.ModelWithDeployments>> {
  const flaw = findFlaw(input, input.files ?? null)
  if (flaw !== undefined) return flaw
  if ((await store.countModels(tx.db)) >= limits.models) {
    return fail('too_many_models', { max: limits.models })
  }
  const { prices } = input
  const inserted = await store.insertModel(tx, {
    name: input.name,
    kind: input.kind,
    engine: input.engine,
    input_nano: zeroUsd,
    output_nano: zeroUsd,
    pixel_step_nano: zeroUsd,
    character_nano: zeroUsd,
    sound_ms_nano: zeroUsd,
    // A cached token without a separate price costs as much as any.
    cached_nano: prices.inputUsdPerMillion ?? zeroUsd,
    ...columnsOf(input, prices),
  })
  if (!inserted) {
    return fail('model_exists', { model: input.name })
  }
  const { name, kind, engine } = input
  await audit(tx, actor, 'model.create', name, input.reason, { kind, engine, ...detailOf(input, prices) })
  return mustFind(tx, name)
}

export interface ModelChange extends ModelFacts {
  readonly name: string
  readonly prices: PricesInput
  readonly reason?: string | undefined
}

export async function changeModel(
  tx: Tx,
  actor: Actor,
  change: ModelChange,
): Promise<Result<store.ModelWithDeployments>> {
  const before = await store.lockModel(tx, change.name)
  if (before === undefined) return noSuchModel(change.name)
  const columns = columnsOf(change, change.prices)
  if (Object.keys(columns).length === 0) return fail('nothing_to_change')
  if (change.files !== undefined) {
    const flaw = findFlaw(before, change.files)
    if (flaw !== undefined) return flaw
  }
  // If cached tokens cost as much as others, they still do after the change.
  const { inputUsdPerMillion: input, cachedUsdPerMillion: cached } = change.prices
  const follows = input !== undefined && cached === undefined && before.cached_nano === before.input_nano
  const isPriced = [...Object.values(change.prices), change.batchDiscountPercent].some((price) => price !== undefined)
  await store.updateModel(tx, change.name, {
    ...columns,
    ...(follows ? { cached_nano: input } : {}),
    ...(isPriced ? { follows_base_price: false } : {}),
  })
  if (isPriced) await store.passPricesOn(tx, change.name)
  const changed = detailOf(change, { ...change.prices, ...(follows ? { cachedUsdPerMillion: input } : {}) })
  await audit(tx, actor, 'model.change', change.name, change.reason, { before: sameFields(before, changed), changed })
  return mustFind(tx, change.name)
}

/** Costs and logs of its requests keep the model's name. */
export async function deleteModel(tx: Tx, actor: Actor, name: string): Promise<Result<string>> {
  if ((await findManagedOfModel(tx.db, name)) !== undefined) return fail('model_deployed', { model: name })
  const adapterOf = (await store.findModel(tx.db, name))?.adapter_of ?? null
  if (adapterOf !== null) return fail('model_deployed', { model: name })
  if (!(await store.deleteModel(tx, name))) return noSuchModel(name)
  await audit(tx, actor, 'model.delete', name, undefined, {})
  return ok(name)
}

function noSuchModel(model: string): Failure {
  return fail('model_not_found', { model })
}

/** Checks that a schema cannot express: which fields of a model belong together. */
function findFlaw(
  { kind, engine }: { kind: ModelKind; engine: EngineName | null },
  files: readonly ModelFile[] | null,
): Failure | undefined {
  if (engine === null) {
    return files === null ? undefined : failField(['files'], 'no_engine')
  }
  if (kindOfEngine[engine] !== kind) {
    return failField(['engine'], 'engine_mismatch', { engine, kind: kindOfEngine[engine] })
  }
  if (engine !== 'llama' && engine !== 'transcription') {
    if (files === null) return undefined
    return failField(['files'], 'files_mismatch', { engine })
  }
  if (files === null) return failField(['files'], 'files_missing')
  const unlike = files.findIndex((one) => files.some((other) => other.file === one.file && other.sha256 !== one.sha256))
  if (unlike < 0) return undefined
  return failField(['files', unlike, 'sha256'], 'files_mismatch', { engine: undefined })
}

function columnsOf(facts: ModelFacts, prices: PricesInput) {
  const columns = {
    files: facts.files === undefined || facts.files === null ? facts.files : JSON.stringify(facts.files),
    context_tokens: facts.contextTokens,
    max_output_tokens: facts.maxOutputTokens,
    supports_tools: facts.supportsTools,
    supports_image_input: facts.supportsImageInput,
    enabled: facts.enabled,
    batch_discount_percent: facts.batchDiscountPercent,
    input_nano: prices.inputUsdPerMillion,
    cached_nano: prices.cachedUsdPerMillion,
    output_nano: prices.outputUsdPerMillion,
    pixel_step_nano: prices.pixelStepUsdPerMillion,
    character_nano: prices.characterUsdPerMillion,
    sound_ms_nano: prices.soundMsUsdPerMillion,
  }
  return named(columns)
}

/** Removes fields that are undefined. */
export function named<T extends object>(values: T): { [name in keyof T]?: Exclude<T[name], undefined> } {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as { [name in keyof T]?: Exclude<T[name], undefined> }
}

/** The details for the audit log: names as in the contract, money as text. */
function detailOf(facts: ModelFacts, prices: PricesInput): Record<string, unknown> {
  const { files, contextTokens, maxOutputTokens, supportsTools, supportsImageInput, enabled, batchDiscountPercent } =
    facts
  const money = Object.entries(named(prices)).map(([name, amount]) => [name, formatUsd(amount)])
  return {
    ...named({
      files,
      contextTokens,
      maxOutputTokens,
      supportsTools,
      supportsImageInput,
      enabled,
      batchDiscountPercent,
    }),
    ...(Object.fromEntries(money) as Record<string, string>),
  }
}

function sameFields(model: store.Model, changed: Record<string, unknown>): Record<string, unknown> {
  const all = detailOf(
    {
      files: model.files,
      contextTokens: model.context_tokens,
      maxOutputTokens: model.max_output_tokens,
      supportsTools: model.supports_tools,
      supportsImageInput: model.supports_image_input,
      enabled: model.enabled,
      batchDiscountPercent: model.batch_discount_percent,
    },
    {
      inputUsdPerMillion: model.input_nano,
      cachedUsdPerMillion: model.cached_nano,
      outputUsdPerMillion: model.output_nano,
      pixelStepUsdPerMillion: model.pixel_step_nano,
      characterUsdPerMillion: model.character_nano,
      soundMsUsdPerMillion: model.sound_ms_nano,
    },
  )
  return Object.fromEntries(Object.entries(all).filter(([name]) => Object.hasOwn(changed, name)))
}

async function audit(
  tx: Tx,
  actor: Actor,
  action: AuditAction,
  subject: string,
  reason: string | undefined,
  detail: Record<string, unknown>,
): Promise<void> {
  await writeAudit(tx, { actor: actor.keyId, action, subject, ...(reason === undefined ? {} : { reason }), detail })
}

async function mustFind(tx: Tx, name: string): Promise<Result<store.ModelWithDeployments>> {
  const model = await store.findModel(tx.db, name)
  return model === undefined ? noSuchModel(name) : ok(model)
}
