/** Webhooks and their deliveries over HTTP. */
import { createOnce } from '../../app/idempotency.ts'
import {
  changeWebhook,
  checkWebhookUrl,
  createWebhook,
  deleteWebhook,
  findTest,
  listDeliveries,
  redeliver,
  rotateWebhookSecret,
  testWebhook,
} from '../../app/account/webhook.ts'
import { instantOf, type Instant } from '../../base/instant.ts'
import { ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { transact } from '../../store/platform/database.ts'
import type { DeliveryOfEvent } from '../../store/notice/webhook-delivery.ts'
import { listWebhooks, type Webhook } from '../../store/notice/webhook.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'

export const webhookHandlers = {
  listWebhooks: async ({ database }, { actor }) => {
    const webhooks = await listWebhooks(database.db, actor.accountId)
    return ok({ webhooks: webhooks.map(webhookOnWire) })
  },

  createWebhook: async (app, { operation, actor, body, idempotencyKey }) => {
    const refused = await checkWebhookUrl(app, body.url)
    if (refused !== undefined) return refused
    return createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const created = await createWebhook(app, tx, actor, body)
      return created.ok ? ok({ ...webhookOnWire(created.value.webhook), secret: created.value.secret }) : created
    })
  },

  changeWebhook: async (app, { actor, params, body }) => {
    const refused = body.url === undefined ? undefined : await checkWebhookUrl(app, body.url)
    if (refused !== undefined) return refused
    const changed = await transact(app.database, (tx) => changeWebhook(tx, actor, params.id, body))
    return changed.ok ? ok(webhookOnWire(changed.value)) : changed
  },

  deleteWebhook: async ({ database }, { actor, params }) => {
    const deleted = await transact(database, (tx) => deleteWebhook(tx, actor, params.id))
    return deleted.ok ? ok({ message: 'Webhook deleted; pending deliveries are dropped' }) : deleted
  },

  rotateWebhookSecret: async (app, { actor, params }) =>
    transact(app.database, (tx) => rotateWebhookSecret(app, tx, actor, params.id)),

  testWebhook: async ({ database }, { actor, params }) => {
    const tested = await transact(database, (tx) => testWebhook(tx, actor, params.id))
    if (!tested.ok) return tested
    const delivery = await findTest(database.db, actor, params.id)
    return delivery.ok ? ok(deliveryOnWire(delivery.value)) : delivery
  },

  listWebhookDeliveries: async ({ database }, { actor, params, query }) => {
    const { limit, cursor } = query
    const place = cursor === undefined ? undefined : decodeDeliveryCursor(cursor)
    if (cursor !== undefined && place === undefined) return badCursor()
    const page = { limit: rowsToAsk(limit), ...(place === undefined ? {} : { before: place }) }
    const deliveries = await listDeliveries(database.db, actor, params.id, page)
    if (!deliveries.ok) return deliveries
    const { rows, nextCursor } = pageOf(deliveries.value, limit, (delivery) => `${delivery.created_at}:${delivery.id}`)
    return ok({ deliveries: rows.map(deliveryOnWire), nextCursor })
  },

  redeliver: async ({ database }, { actor, params }) => {
    const restarted = await transact(database, (tx) => redeliver(tx, actor, params.id))
    return restarted.ok ? ok(deliveryOnWire(restarted.value)) : restarted
  },
} satisfies Partial<Handlers>

function webhookOnWire(webhook: Webhook): ResponseOf<Api['changeWebhook']> {
  return {
    id: webhook.id,
    url: webhook.url,
    description: webhook.description,
    eventTypes: webhook.event_types,
    enabled: webhook.enabled,
    disabledReason: webhook.disabled_reason,
    createdAt: webhook.created_at,
    updatedAt: webhook.updated_at,
  }
}

function deliveryOnWire(delivery: DeliveryOfEvent): ResponseOf<Api['redeliver']> {
  return {
    id: delivery.id,
    eventId: delivery.event_id.toString(),
    eventType: delivery.event_type,
    state: delivery.state,
    attempts: delivery.attempts,
    nextAttemptAt: delivery.state === 'pending' ? delivery.due_at : null,
    lastStatus: delivery.last_status,
    lastError: delivery.last_error,
    lastAttemptAt: delivery.last_at,
    createdAt: delivery.created_at,
  }
}

function decodeDeliveryCursor(cursor: string): { createdAt: Instant; id: string } | undefined {
  const [, ms, id] = /^(\d{1,15}):(\w+)$/.exec(decodeCursor(cursor) ?? '') ?? []
  return ms === undefined || id === undefined ? undefined : { createdAt: instantOf(Number(ms)), id }
}
