/** Models and deployments over HTTP, for operators. Deployment keys are never returned. */
import type { App } from '../../app/app.ts'
import { createOnce } from '../../app/idempotency.ts'
import { changeDeployment, createDeployment, deleteDeployment } from '../../app/serving/model-deployment.ts'
import { changeModel, createModel, deleteModel, type PricesInput } from '../../app/serving/model.ts'
import { checkUpstreamUrl } from '../../app/serving/model-url.ts'
import type { NanoUsd } from '../../base/money.ts'
import { ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { modelPriceNames, type ModelPriceName } from '../../contract/model.ts'
import { transact } from '../../store/platform/database.ts'
import { readRegistry, type Deployment, type ModelWithDeployments } from '../../store/model/model.ts'
import type { Handlers } from '../http/handler.ts'

export const modelHandlers = {
  listOperatedModels: async (app) => {
    const models = await readRegistry(app.database.db)
    return ok({ models: models.map((model) => modelOnWire(app, model)) })
  },

  createModel: async (app, { operation, actor, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const created = await createModel(tx, actor, { ...body, engine: body.engine ?? null, prices: pricesOf(body) })
      return created.ok ? ok(modelOnWire(app, created.value)) : created
    }),

  changeModel: async (app, { actor, query, body }) => {
    const changed = await transact(app.database, (tx) =>
      changeModel(tx, actor, { ...body, name: query.name, prices: pricesOf(body) }),
    )
    return changed.ok ? ok(modelOnWire(app, changed.value)) : changed
  },

  deleteModel: async (app, { actor, query }) => {
    const deleted = await transact(app.database, (tx) => deleteModel(tx, actor, query.name))
    return deleted.ok ? ok({ message: 'Model and its deployments deleted; its charges stay in the ledger' }) : deleted
  },

  createDeployment: async (app, { operation, actor, body, idempotencyKey }) => {
    const refused = await checkUpstreamUrl(body.url)
    if (refused !== undefined) return refused
    return createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const created = await createDeployment(app, tx, actor, body)
      return created.ok ? ok(deploymentOnWire(app, created.value)) : created
    })
  },

  changeDeployment: async (app, { actor, params, body }) => {
    const refused = body.url === undefined ? undefined : await checkUpstreamUrl(body.url)
    if (refused !== undefined) return refused
    const changed = await transact(app.database, (tx) => changeDeployment(app, tx, actor, { ...body, id: params.id }))
    return changed.ok ? ok(deploymentOnWire(app, changed.value)) : changed
  },

  deleteDeployment: async (app, { actor, params }) => {
    const deleted = await transact(app.database, (tx) => deleteDeployment(tx, actor, params.id))
    return deleted.ok ? ok({ message: 'Deployment deleted; requests in flight will finish' }) : deleted
  },
} satisfies Partial<Handlers>

function pricesOf(body: { readonly [name in ModelPriceName]?: NanoUsd | undefined }): PricesInput {
  return Object.fromEntries(modelPriceNames.flatMap((name) => (body[name] === undefined ? [] : [[name, body[name]]])))
}

function modelOnWire(app: App, model: ModelWithDeployments): ResponseOf<Api['changeModel']> {
  return {
    name: model.name,
    kind: model.kind,
    engine: model.engine,
    files: model.files,
    contextTokens: model.context_tokens,
    maxOutputTokens: model.max_output_tokens,
    inputUsdPerMillion: model.input_nano,
    cachedUsdPerMillion: model.cached_nano,
    outputUsdPerMillion: model.output_nano,
    pixelStepUsdPerMillion: model.pixel_step_nano,
    characterUsdPerMillion: model.character_nano,
    batchDiscountPercent: model.batch_discount_percent,
    soundMsUsdPerMillion: model.sound_ms_nano,
    supportsTools: model.supports_tools,
    supportsImageInput: model.supports_image_input,
    enabled: model.enabled,
    createdAt: model.created_at,
    local: app.modelStatus?.localState(model.name) ?? null,
    deployments: model.deployments.map((deployment) => deploymentOnWire(app, deployment)),
  }
}

function deploymentOnWire(app: App, deployment: Deployment): ResponseOf<Api['changeDeployment']> {
  return {
    id: deployment.id,
    model: deployment.model,
    protocol: deployment.protocol,
    url: deployment.url,
    upstreamModel: deployment.upstream_model,
    hasApiKey: deployment.key_sealed !== null,
    weight: deployment.weight,
    concurrency: deployment.concurrency,
    connectMs: deployment.connect_ms,
    firstByteMs: deployment.first_byte_ms,
    betweenBytesMs: deployment.between_bytes_ms,
    totalMs: deployment.total_ms,
    readsMetrics: deployment.reads_metrics,
    drained: deployment.drained_at !== null,
    createdAt: deployment.created_at,
    health: app.modelStatus?.deploymentHealth(deployment.id) ?? null,
  }
}
