/** Events and the webhooks that push them. */
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
import { formatInstant, formatInstantOrNull, instantOf, type Instant } from '../../base/instant.ts'
import { failField, ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { readAccountNames } from '../../store/account/account.ts'
import { listAllEvents, newestEventId } from '../../store/notice/all-events.ts'
import { transact } from '../../store/platform/database.ts'
import { listEvents } from '../../store/notice/event.ts'
import type { DeliveryOfEvent } from '../../store/notice/webhook-delivery.ts'
import { listWebhooks, type Webhook } from '../../store/notice/webhook.ts'
import { badCursor, decodeCursor, decodeIdCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import { eventsNotSettled } from '../events/event-stream.ts'
import type { Handlers } from '../http/handler.ts'

export const eventHandlers = {
  listEvents: async ({ database }, { actor, query }) => {
    const { limit, cursor, type } = query
    const before = cursor === undefined ? undefined : decodeIdCursor(cursor)
    if (cursor !== undefined && before === undefined) return badCursor()
    const subject = query.subject === undefined ? undefined : parseSubject(query.subject)
    if (query.subject !== undefined && subject === undefined) {
      return failField(['subject'], 'bad_subject')
    }
    const found = await listEvents(database.db, actor.accountId, {
      limit: rowsToAsk(limit),
      ...(before === undefined ? {} : { before }),
      ...(type === undefined ? {} : { type }),
      ...(subject === undefined ? {} : { subject }),
    })
    const { rows, nextCursor } = pageOf(found, limit, (event) => event.id)
    return ok({ events: rows, nextCursor })
  },

  listAllEvents: async ({ database }, { query }) => {
    const { limit, cursor, type, accountId } = query
    const before = cursor === undefined ? undefined : decodeIdCursor(cursor)
    if (cursor !== undefined && before === undefined) return badCursor()
    const upTo = before === undefined ? await newestEventId(database.db) : before - 1n
    if (upTo === undefined) return eventsNotSettled()
    const found = await listAllEvents(database.db, {
      upTo,
      limit: rowsToAsk(limit),
      ...(type === undefined ? {} : { type }),
      ...(accountId === undefined ? {} : { accountId }),
    })
    const { rows, nextCursor } = pageOf(found, limit, (event) => event.id)
    const nameOf = await readAccountNames(
      database.db,
      rows.map((event) => event.accountId),
    )
    return ok({ events: rows.map((event) => ({ ...event, accountName: nameOf(event.accountId) })), nextCursor })
  },

  listWebhooks: async ({ database }, { actor }) => {
    const webhooks = await listWebhooks(database.db, actor.accountId)
    return ok({ webhooks: webhooks.map(webhookOnWire) })
  },

  createWebhook: async (app, { operation, actor, body, idempotencyKey }) => {
    const refused = await checkWebhookUrl(app, body.url)
    if (refused !== undefined) return refused
    return createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const made = await createWebhook(app, tx, actor, body)
      return made.ok ? ok({ ...webhookOnWire(made.value.webhook), secret: made.value.secret }) : made
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
    const before = cursor === undefined ? undefined : decodeDeliveryCursor(cursor)
    if (cursor !== undefined && before === undefined) return badCursor()
    const page = { limit: rowsToAsk(limit), ...(before === undefined ? {} : { before }) }
    const found = await listDeliveries(database.db, actor, params.id, page)
    if (!found.ok) return found
    const { rows, nextCursor } = pageOf(found.value, limit, (delivery) => `${delivery.created_at}:${delivery.id}`)
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
    createdAt: formatInstant(webhook.created_at),
    updatedAt: formatInstantOrNull(webhook.updated_at),
  }
}

function deliveryOnWire(delivery: DeliveryOfEvent): ResponseOf<Api['redeliver']> {
  return {
    id: delivery.id,
    eventId: delivery.event_id.toString(),
    eventType: delivery.event_type,
    state: delivery.state,
    attempts: delivery.attempts,
    nextAttemptAt: delivery.state === 'pending' ? formatInstant(delivery.due_at) : null,
    lastStatus: delivery.last_status,
    lastError: delivery.last_error,
    lastAttemptAt: formatInstantOrNull(delivery.last_at),
    createdAt: formatInstant(delivery.created_at),
  }
}

function parseSubject(text: string): { kind: string; id: string } | undefined {
  const [, kind, id] = /^([a-z_]+):([!-~]+)$/.exec(text) ?? []
  return kind === undefined || id === undefined ? undefined : { kind, id }
}

function decodeDeliveryCursor(cursor: string): { createdAt: Instant; id: string } | undefined {
  const [, ms, id] = /^(\d{1,15}):(\w+)$/.exec(decodeCursor(cursor) ?? '') ?? []
  return ms === undefined || id === undefined ? undefined : { createdAt: instantOf(Number(ms)), id }
}
