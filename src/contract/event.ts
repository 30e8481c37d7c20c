/** Events of an account: listed, streamed, and delivered by webhooks. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { message, pageQuery, textIdParams } from './shared.ts'

/** Every event type, with a description that reads as a sentence without its data. */
export const eventTypes = {
  'rental.created': 'A rental was ordered and is waiting for its machine',
  'rental.running': 'The machine is running; billing starts',
  'rental.unknown': 'Contact with the machine was lost; billing is paused',
  'rental.recovered': 'Contact with the machine is back',
  'rental.stopping': 'The rental is being stopped; its disk is kept',
  'rental.stopped': 'The machine is off and its GPUs are released; only the disk is charged',
  'rental.waiting': 'The rental will start when its host has enough free GPUs',
  'rental.starting': 'The stopped rental is starting on its disk',
  'rental.started': 'The machine is running again; its full price is charged',
  'rental.start_failed': 'The rental could not be started and stays stopped; the event has the reason',
  'rental.rebooted': 'The machine was told to reboot',
  'rental.failed': 'The rental failed; the event has the reason',
  'rental.terminating': 'Termination was requested; billing has stopped',
  'rental.terminated': 'The machine is gone',
  'rental.stuck': 'The rental has been in one state for longer than it should',
  'rental.term_expiring': 'The reserved term ends within 7, 2 or 1 days',
  'rental.idle': 'The machine has not been used for as long as its idle rule allows',
  'rental.term_converted': 'The reserved term ended; the rental continues on demand',
  'rental.changed': 'The label, end time or spending limit was changed',
  'rental.ready': 'Every port with a health check answers',
  'rental.not_ready': 'A port with a health check has stopped answering',
  'rental.port_token_created': 'A token for an HTTP port was created',
  'rental.port_token_revoked': 'A token for an HTTP port was revoked',
  'volume.created': 'A volume was ordered',
  'volume.active': 'The volume is ready to use; billing starts',
  'volume.suspended': 'The balance is empty; the volume is kept for a limited time without charge',
  'volume.resumed': 'The balance covers the volume again',
  'volume.unknown': 'The data of the volume cannot be found; billing has stopped',
  'volume.recovered': 'The data of the volume was found again; billing continues',
  'volume.attached': 'The volume was attached to a rental',
  'volume.detached': 'The volume was detached from a rental',
  'volume.growing': 'The volume is being made larger',
  'volume.grown': 'The volume has its new size; the new price applies',
  'volume.grow_failed': 'The volume could not be made larger; its size and price stay',
  'volume.deleting': 'Deletion was requested; billing has stopped',
  'volume.deleted': 'The volume and its data are gone',
  'volume.failed': 'The volume could not be created',
  'deployment.created': 'A managed deployment was created',
  'deployment.changed': 'The replicas, scaling, limits or sharing of a deployment were changed',
  'deployment.scaled': 'A deployment needs more or fewer replicas; the event has the reason',
  'deployment.blocked': 'A replica could not be ordered; the event has the reason',
  'deployment.replica_starting': 'A replica was ordered and is starting',
  'deployment.replica_ready': 'A replica answered and serves requests; billing starts',
  'deployment.replica_ended': 'A replica has ended; the event has the reason',
  'deployment.replica_failed': 'A replica failed before it could serve; the event has its last output',
  'deployment.rollout_started': 'A new version of a deployment is rolled out',
  'deployment.rollout_done': 'The new version serves all requests',
  'deployment.failed': 'The version of a deployment failed repeatedly and is not tried again',
  'deployment.deleted': 'The deployment and its replicas are gone',
  'balance.credited': 'A payment or credit was received',
  'balance.adjusted': 'The operator corrected the balance',
  'balance.runway_low': 'At the current rate the balance runs out within 24, 6 or 1 hours',
  'budget.alert': 'Costs of the month reached a percentage of a budget',
  'budget.exceeded': 'Costs of the month reached the whole budget',
  'balance.empty': 'The balance is empty; everything it paid for ends',
  'key.created': 'An API key was created',
  'key.revoked': 'An API key was revoked',
  'webhook.test': 'A test delivery',
  'reservation.requested': 'A large reservation was requested',
} as const
export type EventType = keyof typeof eventTypes

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
const accountEvent = eventRecord.extend({ accountId: z.string() }).meta({ id: 'AccountEvent' })
export type AccountEvent = z.output<typeof accountEvent>

const webhookRecord = z
  .object({
    id: z.string(),
    url: z.string(),
    description: z.string().nullable(),
    eventTypes: z.array(eventType).nullable().describe('null: all types'),
    enabled: z.boolean(),
    disabledReason: z.string().nullable(),
    createdAt: z.string(),
    updatedAt: z.string().nullable(),
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
    nextAttemptAt: z.string().nullable(),
    lastStatus: z.number().nullable(),
    lastError: z.string().nullable(),
    lastAttemptAt: z.string().nullable(),
    createdAt: z.string(),
  })
  .meta({ id: 'WebhookDelivery' })

const webhookUrl = z.url({ protocol: /^https?$/ }).max(limits.webhookUrlChars)
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
