/** Events of an account: listed, streamed, and delivered by webhooks. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { eventTypes, type EventType } from './event-type.ts'
import { message, pageQuery, textIdParams, timestamp } from './shared.ts'

const eventType = z.enum(Object.keys(eventTypes) as [EventType, ...EventType[]])

export const eventRecord = z
  .object({
    id: z.string(),
    at: z.string(),
    type: eventType,
    subject: z.object({ kind: z.string(), id: z.string() }),
    data: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'Event' })
export type EventRecord = z.output<typeof eventRecord>

/** An event in the operator's list of all accounts. */
export const accountEvent = eventRecord.extend({ accountId: z.string() }).meta({ id: 'AccountEvent' })
export type AccountEvent = z.output<typeof accountEvent>

const webhookRecord = z
  .object({
    id: z.string(),
    url: z.string(),
    description: z.string().nullable(),
    eventTypes: z.array(eventType).nullable().describe('null: all types'),
    enabled: z.boolean(),
    disabledReason: z.string().nullable(),
    createdAt: timestamp,
    updatedAt: timestamp.nullable(),
  })
  .meta({ id: 'Webhook' })

const webhookSecret = z.object({ secret: z.string().describe('`whsec_…`, shown once') })

export const deliveryRecord = z
  .object({
    id: z.string(),
    eventId: z.string(),
    eventType,
    state: z.enum(['pending', 'delivered', 'failed']),
    attempts: z.number(),
    nextAttemptAt: timestamp.nullable(),
    lastStatus: z.number().nullable(),
    lastError: z.string().nullable(),
    lastAttemptAt: timestamp.nullable(),
    createdAt: timestamp,
  })
  .meta({ id: 'WebhookDelivery' })

const webhookUrl = z
  .url({ protocol: /^https?$/ })
  .max(limits.webhookUrlChars)
  .meta({
    title: 'URL',
    description: 'Receives a POST per event and must answer with a 2xx status within 10 seconds',
    examples: ['https://example.com/hooks/berth'],
  })
const webhookFields = {
  description: z.string().max(limits.nameChars).nullable().optional(),
  eventTypes: z.array(eventType).min(1).nullable().optional().describe('null or absent: all types'),
}

const followQuery = z.strictObject({
  after: z
    .string()
    .regex(/^\d{1,18}$/)
    .optional(),
})

export const eventEndpoints = {
  listEvents: endpoint({
    method: 'GET',
    path: '/v2/events',
    family: 'v2',
    tag: 'Events and webhooks',
    access: ['compute:read', 'billing:read'],
    summary: 'List events, newest first',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({
      type: eventType.optional(),
      subject: z.string().max(120).optional().describe('`kind:id`, for example `rental:17`'),
    }),
    response: z.object({ events: z.array(eventRecord), nextCursor: z.string().nullable() }),
  }),
  followEvents: endpoint({
    method: 'GET',
    path: '/v2/events/stream',
    family: 'v2',
    tag: 'Events and webhooks',
    access: ['compute:read', 'billing:read'],
    summary: 'Stream events (server-sent events)',
    description:
      'Starts after the event in the `Last-Event-ID` header or the `after` parameter; by default, with new events. No event is skipped.',
    errors: [400, 401, 403, 500],
    query: followQuery,
    response: z.string(),
    answers: 'events',
  }),
  listAllEvents: endpoint({
    method: 'GET',
    path: '/v2/operator/events',
    family: 'v2',
    tag: 'Operator',
    access: ['operator'],
    summary: 'List events of all accounts, newest first',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({ type: eventType.optional(), accountId: z.string().max(50).optional() }),
    response: z.object({
      events: z.array(accountEvent.extend({ accountName: z.string() })),
      nextCursor: z.string().nullable(),
    }),
  }),
  followAllEvents: endpoint({
    method: 'GET',
    path: '/v2/operator/events/stream',
    family: 'v2',
    tag: 'Operator',
    access: ['operator'],
    summary: 'Stream events of all accounts (server-sent events)',
    description:
      'Each event has its `accountId`. Starts after the event in the `Last-Event-ID` header or the `after` parameter; by default, with new events. No event is skipped, and IDs always increase.',
    errors: [400, 401, 403, 500],
    query: followQuery,
    response: z.string(),
    answers: 'events',
  }),
  listWebhooks: endpoint({
    method: 'GET',
    path: '/v2/webhooks',
    family: 'v2',
    tag: 'Events and webhooks',
    access: ['keys'],
    summary: 'List webhooks',
    errors: [400, 401, 403, 500],
    response: z.object({ webhooks: z.array(webhookRecord) }),
  }),
  createWebhook: endpoint({
    method: 'POST',
    path: '/v2/webhooks',
    family: 'v2',
    tag: 'Events and webhooks',
    access: ['keys'],
    summary: 'Create a webhook: events are sent to a URL, signed according to Standard Webhooks',
    errors: [400, 401, 403, 500],
    body: z.strictObject({ url: webhookUrl, ...webhookFields }).meta({ id: 'CreateWebhook' }),
    response: webhookRecord.extend(webhookSecret.shape).meta({ id: 'NewWebhook' }),
    idempotent: true,
  }),
  changeWebhook: endpoint({
    method: 'PATCH',
    path: '/v2/webhooks/{id}',
    family: 'v2',
    tag: 'Events and webhooks',
    access: ['keys'],
    summary: 'Change or disable a webhook',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({ url: webhookUrl.optional(), enabled: z.boolean().optional(), ...webhookFields })
      .meta({ id: 'ChangeWebhook' }),
    response: webhookRecord,
  }),
  deleteWebhook: endpoint({
    method: 'DELETE',
    path: '/v2/webhooks/{id}',
    family: 'v2',
    tag: 'Events and webhooks',
    access: ['keys'],
    summary: 'Delete a webhook',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
  rotateWebhookSecret: endpoint({
    method: 'POST',
    path: '/v2/webhooks/{id}/rotate-secret',
    family: 'v2',
    tag: 'Events and webhooks',
    access: ['keys'],
    summary: 'Rotate the signing secret; the old one stays valid for 24 hours',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: webhookSecret,
  }),
  testWebhook: endpoint({
    method: 'POST',
    path: '/v2/webhooks/{id}/test',
    family: 'v2',
    tag: 'Events and webhooks',
    access: ['keys'],
    summary: 'Send a `webhook.test` event to one webhook',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: deliveryRecord,
  }),
  listWebhookDeliveries: endpoint({
    method: 'GET',
    path: '/v2/webhooks/{id}/deliveries',
    family: 'v2',
    tag: 'Events and webhooks',
    access: ['keys'],
    summary: 'List deliveries of a webhook, newest first',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    query: pageQuery,
    response: z.object({ deliveries: z.array(deliveryRecord), nextCursor: z.string().nullable() }),
  }),
  redeliver: endpoint({
    method: 'POST',
    path: '/v2/webhooks/deliveries/{id}/redeliver',
    family: 'v2',
    tag: 'Events and webhooks',
    access: ['keys'],
    summary: 'Redeliver an event',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: deliveryRecord,
  }),
}
