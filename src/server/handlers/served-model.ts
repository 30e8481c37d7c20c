/** The models that the gateway serves, as `/v1/models` shows them: read from the catalog in memory, not the database. */
import { nanoUsdOf, usdToNumber } from '../../base/money.ts'
import { fail, ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { isVisible, type ServedModel } from '../../gateway/catalog.ts'
import { isReady } from '../../gateway/dialect/chat-call.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { Handlers } from '../http/handler.ts'

export function servedModelHandlers(
  gateway: Pick<Gateway, 'catalog' | 'whenKnown'>,
): Pick<Handlers, 'listModels' | 'getModel'> {
  return {
    listModels: async (_app, { actor, allowedModels }) => {
      const models = [...gateway.catalog.values()].filter(
        (model) => (allowedModels?.includes(model.name) ?? true) && isVisible(model, actor.accountId),
      )
      const data = models.map(modelView)
      const [firstId, lastId] = [data[0]?.id ?? null, data.at(-1)?.id ?? null]
      return ok({ object: 'list', data, has_more: false, first_id: firstId, last_id: lastId })
    },
    getModel: async (_app, { actor, allowedModels, params: { id } }) => {
      await gateway.whenKnown(id, { accountId: actor.accountId, allowedModels })
      const model = (allowedModels?.includes(id) ?? true) ? gateway.catalog.get(id) : undefined
      if (model !== undefined && isVisible(model, actor.accountId)) return ok(modelView(model))
      return fail('model_not_found', { model: id })
    },
  }
}

function modelView(model: ServedModel): ResponseOf<Api['listModels']>['data'][number] {
  const { prices, batchPrices = prices } = model
  const perMillion = (price: bigint): number => usdToNumber(nanoUsdOf(price))
  return {
    id: model.name,
    object: 'model',
    type: 'model',
    display_name: model.name,
    created_at: model.createdAt,
    created: Math.floor(model.createdAt / 1_000),
    owned_by: 'berth',
    context_length: model.contextTokens,
    max_input_tokens: model.contextTokens,
    max_tokens: model.maxOutputTokens,
    ...(model.kind === 'image'
      ? { input_price: null, output_price: null, pixel_step_price: perMillion(prices.pixelStep) }
      : model.kind === 'transcription'
        ? { input_price: null, output_price: null, sound_ms_price: perMillion(prices.soundMs) }
        : {
            input_price: perMillion(prices.input),
            output_price: perMillion(prices.output),
            batch_input_price: perMillion(batchPrices.input),
            batch_output_price: perMillion(batchPrices.output),
          }),
    supports_chat: model.kind === 'chat',
    supports_tools: model.supportsTools,
    supports_image_input: model.supportsImageInput,
    kind: model.kind,
    status: statusOf(model),
  }
}

function statusOf(model: ServedModel): 'ready' | 'loading' | 'unavailable' {
  if (isReady(model)) return 'ready'
  // The first request starts the model.
  if (model.notReady === undefined && model.startsOnDemand !== undefined) return 'loading'
  switch (model.notReady?.phase) {
    case undefined:
    case 'failed':
      return 'unavailable'
    case 'idle':
      return 'ready'
    case 'pulling':
    case 'starting':
      return 'loading'
  }
}
