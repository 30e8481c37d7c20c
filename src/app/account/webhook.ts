/**
 * Webhooks: events of the account sent to a URL of its choice. The signing secret is shown once, when it is created.
 * Disabling a webhook fails its pending deliveries; a test or a redelivery is still sent, once.
 */
import { randomBytes } from 'node:crypto'
import { addMs } from '../../base/instant.ts'
import { checkOutboundUrl } from '../../base/net/outbound.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { EventType } from '../../contract/event-type.ts'
import { quotaExceeded, quotaOf } from '../../domain/quota.ts'
import { secretOverlapMs } from '../../domain/webhook.ts'
import { lockAccount } from '../../store/account/account.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import { recordEvent } from '../../store/notice/event.ts'
import * as deliveries from '../../store/notice/webhook-delivery.ts'
import * as store from '../../store/notice/webhook.ts'
import type { Actor, App } from '../app.ts'

export interface WebhookInput {
  readonly url: string
  readonly description?: string | null | undefined
  /** null or undefined: all types. */
  readonly eventTypes?: EventType[] | null | undefined
}

export type WebhookChange = Omit<WebhookInput, 'url'> & {
  readonly url?: string | undefined
  readonly enabled?: boolean | undefined
}

/** Queries DNS, so it runs before the transaction. */
export async function checkWebhookUrl(app: App, url: string): Promise<Failure | undefined> {
  const refusal = await checkOutboundUrl(url, app.allowPrivateAddresses)
  return refusal === undefined ? undefined : failField(['url'], 'url_refused', { message: `${refusal}.` })
}

/** `input.url` has passed `checkWebhookUrl`. */
export async function createWebhook(
  app: App,
  tx: Tx,
  actor: Actor,
  input: WebhookInput,
): Promise<Result<{ webhook: store.Webhook; secret: string }>> {
  const account = await lockAccount(tx, actor.accountId)
  if (account === undefined) return fail('account_not_found')
  const quota = quotaOf(account.quota)
  if ((await store.countWebhooks(tx.db, account.id)) >= quota.webhooks) return quotaExceeded('webhooks', quota)
  const secret = makeSecret()
  const webhook = await store.insertWebhook(tx, {
    accountId: account.id,
    url: new URL(input.url).href,
    description: input.description ?? null,
    eventTypes: input.eventTypes ?? null,
    secretSealed: app.vault.seal(secret),
  })
  return ok({ webhook, secret })
}

export async function changeWebhook(
  tx: Tx,
  actor: Actor,
  id: string,
  change: WebhookChange,
): Promise<Result<store.Webhook>> {
  const webhook = await store.lockWebhook(tx, actor.accountId, id)
  if (webhook === undefined) return noSuchWebhook()
  const changed = await store.changeWebhook(tx, id, {
    ...(change.url === undefined ? {} : { url: new URL(change.url).href }),
    ...(change.description === undefined ? {} : { description: change.description }),
    ...(change.eventTypes === undefined ? {} : { event_types: change.eventTypes }),
    // Berth gave the reason; from now on the customer decides the state.
    ...(change.enabled === undefined ? {} : { enabled: change.enabled, disabled_reason: null }),
  })
  if (change.enabled === false) await deliveries.dropDeliveries(tx, id)
  return ok(changed)
}

export async function deleteWebhook(tx: Tx, actor: Actor, id: string): Promise<Result<string>> {
  return (await store.deleteWebhook(tx, actor.accountId, id)) ? ok(id) : noSuchWebhook()
}

/** The old secret signs along with the new one for a day. A second rotation within that day drops the oldest at once. */
export async function rotateWebhookSecret(
  app: App,
  tx: Tx,
  actor: Actor,
  id: string,
): Promise<Result<{ secret: string }>> {
  const webhook = await store.lockWebhook(tx, actor.accountId, id)
  if (webhook === undefined) return noSuchWebhook()
  const secret = makeSecret()
  await store.changeWebhook(tx, id, {
    secret_sealed: app.vault.seal(secret),
    old_secret_sealed: webhook.secret_sealed,
    old_secret_until: addMs(tx.clock.now(), secretOverlapMs),
  })
  return ok({ secret })
}

/** Records the test event. Its delivery exists after the commit; `findTest` reads it. */
export async function testWebhook(tx: Tx, actor: Actor, id: string): Promise<Result<store.Webhook>> {
  const webhook = await store.lockWebhook(tx, actor.accountId, id)
  if (webhook === undefined) return noSuchWebhook()
  recordEvent(tx, {
    accountId: actor.accountId,
    type: 'webhook.test',
    subject: { kind: 'webhook', id },
    data: { message: 'A test delivery' },
  })
  return ok(webhook)
}

export async function findTest(db: Db, actor: Actor, id: string): Promise<Result<deliveries.DeliveryOfEvent>> {
  const webhook = await store.findWebhook(db, actor.accountId, id)
  const delivery = webhook === undefined ? undefined : await deliveries.findTestDelivery(db, id)
  // The webhook was deleted between the test and now.
  return delivery === undefined ? noSuchWebhook() : ok(delivery)
}

export async function listDeliveries(
  db: Db,
  actor: Actor,
  id: string,
  query: Parameters<typeof deliveries.listDeliveries>[2],
): Promise<Result<deliveries.DeliveryOfEvent[]>> {
  const webhook = await store.findWebhook(db, actor.accountId, id)
  return webhook === undefined ? noSuchWebhook() : ok(await deliveries.listDeliveries(db, id, query))
}

/** Sends a delivery again, even if it succeeded. */
export async function redeliver(tx: Tx, actor: Actor, id: string): Promise<Result<deliveries.DeliveryOfEvent>> {
  const before = await deliveries.findDelivery(tx.db, actor.accountId, id)
  if (before === undefined) return noSuchDelivery()
  await deliveries.restartDelivery(tx, id)
  const after = await deliveries.findDelivery(tx.db, actor.accountId, id)
  return after === undefined ? noSuchDelivery() : ok(after)
}

const SECRET_BYTES = 24

/** The format of Standard Webhooks. */
function makeSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`
}

function noSuchWebhook(): Failure {
  return fail('webhook_not_found')
}

function noSuchDelivery(): Failure {
  return fail('delivery_not_found')
}
