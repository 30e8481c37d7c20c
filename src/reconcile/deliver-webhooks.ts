/**
 * Sends due webhook deliveries. A pass continues until nothing is due: whenever a delivery ends, the next takes its
 * slot, so a slow endpoint delays only itself. A webhook can use few slots, and all webhooks of one account at most half
 * of them. A server that dies between the request and the write-back leaves a lease that expires; the delivery is then
 * sent again with the same message id.
 */
import { setMaxListeners } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import type { App } from '../app/app.ts'
import { addMs, type Instant } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { outboundAgent, type Resolve } from '../base/net/outbound.ts'
import { isFailing, parseRetryAfter, retryDelayMs } from '../domain/webhook.ts'
import { transact } from '../store/platform/database.ts'
import {
  disableWebhook,
  failureStreak,
  finishDelivery,
  leaseDeliveries,
  listDueDeliveries,
  postponeDelivery,
  returnDelivery,
  type DueDelivery,
  type Outgoing,
} from '../store/notice/webhook-delivery.ts'
import { sendWebhook, type Outcome } from './webhook-request.ts'

const MAX_SLOTS = 16
const MAX_SLOTS_PER_WEBHOOK = 3
const MAX_SLOTS_PER_ACCOUNT = 8
/** The number of due deliveries read: enough that some remain after those of busy webhooks are skipped. */
const MAX_DUE = 500
/** How soon to look for newly due deliveries while slow endpoints are pending. */
const POLL_MS = 500
const GONE = 410

export interface DeliverWebhooks {
  /** One pass: sends until nothing is due or `signal` aborts. Returns the number of attempted deliveries. */
  run(signal: AbortSignal): Promise<number>
  close(): Promise<void>
}

export function deliverWebhooks(
  app: App,
  options: { timeoutMs?: number; random?: () => number; resolve?: Resolve } = {},
): DeliverWebhooks {
  const { timeoutMs = limits.webhookTimeoutMs, random = Math.random, resolve } = options
  const agent = outboundAgent({
    allowPrivate: app.allowPrivateAddresses,
    timeoutMs,
    ...(resolve === undefined ? {} : { resolve }),
  })
  const { db } = app.database
  // Overlapping passes share this map, so that the limits apply to all of them together.
  const sending = new Map<DueDelivery, Promise<void>>()
  let finished = 0
  let lastStart: Promise<unknown> = Promise.resolve()

  /** Starts what fits into free slots. Returns the number of deliveries. */
  const startMore = async (signal: AbortSignal, errors: unknown[]): Promise<number> => {
    const now = app.clock.now()
    const busy = [...sending.keys()]
    if (signal.aborted || busy.length >= MAX_SLOTS) return 0
    const due = await listDueDeliveries(db, { now, limit: MAX_DUE, ...fullyBusy(busy) })
    const ids = fairShare(due, busy).map((delivery) => delivery.id)
    if (ids.length === 0) return 0
    const { token, rows: outgoing } = await leaseDeliveries(db, ids, { now, leaseMs: 3 * timeoutMs })
    for (const delivery of outgoing) {
      const done = attempt(app, delivery, token, { agent, timeoutMs, signal, random })
        .catch((error: unknown) => void errors.push(error))
        .finally(() => {
          sending.delete(delivery)
          finished += 1
        })
      sending.set(delivery, done)
    }
    return outgoing.length
  }

  return {
    run: async (signal) => {
      const errors: unknown[] = []
      const pass = passSignal(signal)
      let attempted = 0
      try {
        for (;;) {
          const finishedBefore = finished
          const start = lastStart.then(() => startMore(pass.signal, errors))
          lastStart = start.catch(() => undefined)
          const started = await start
          attempted += started
          // A slot that became free during the query may have been the missing one.
          if (started > 0 || finished > finishedBefore) continue
          if (sending.size === 0) break
          await nextChange(sending.values())
        }
      } finally {
        pass.detach()
      }
      if (errors.length > 0) throw errors[0]
      return attempted
    },
    close: () => agent.destroy(),
  }
}

type Sender = Parameters<typeof sendWebhook>[1] & { readonly random: () => number }

async function attempt(app: App, delivery: Outgoing, token: string, { random, ...sender }: Sender): Promise<void> {
  const at = app.clock.now()
  const { url, event } = delivery
  const message = { url, event, at, secrets: openSecrets(app, delivery, at) }
  const outcome = await sendWebhook(message, sender)
  if (sender.signal.aborted && outcome.kind === 'unanswered')
    await returnDelivery(app.database.db, { id: delivery.id, token })
  else await writeBack(app, delivery, token, outcome, random)
}

/** Waits until a delivery ends or it is time to look for newly due ones. */
async function nextChange(sending: Iterable<Promise<void>>): Promise<void> {
  const timer = new AbortController()
  const poll = setTimeout(POLL_MS, undefined, { signal: timer.signal }).catch(() => undefined)
  await Promise.race([...sending, poll])
  timer.abort()
}

/** `signal` for one pass, so that the listeners of its requests do not pile up on the signal of the process. */
function passSignal(signal: AbortSignal): { signal: AbortSignal; detach(): void } {
  const controller = new AbortController()
  setMaxListeners(2 * MAX_SLOTS, controller.signal)
  const abort = (): void => controller.abort()
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort)
  return { signal: controller.signal, detach: () => signal.removeEventListener('abort', abort) }
}

/**
 * Returns the deliveries of `due`, in order, that can start now without exceeding the slots of a webhook or account.
 */
export function fairShare(due: readonly DueDelivery[], sending: readonly DueDelivery[]): DueDelivery[] {
  const webhooks = countBy(sending, (delivery) => delivery.webhookId)
  const accounts = countBy(sending, (delivery) => delivery.accountId)
  const share: DueDelivery[] = []
  for (const delivery of due) {
    if (sending.length + share.length >= MAX_SLOTS) break
    const ofWebhook = webhooks.get(delivery.webhookId) ?? 0
    const ofAccount = accounts.get(delivery.accountId) ?? 0
    if (ofWebhook >= MAX_SLOTS_PER_WEBHOOK || ofAccount >= MAX_SLOTS_PER_ACCOUNT) continue
    webhooks.set(delivery.webhookId, ofWebhook + 1)
    accounts.set(delivery.accountId, ofAccount + 1)
    share.push(delivery)
  }
  return share
}

function fullyBusy(sending: readonly DueDelivery[]): { busyWebhooks: string[]; busyAccounts: string[] } {
  const keysFrom = (counts: Map<string, number>, limit: number): string[] =>
    [...counts].flatMap(([key, count]) => (count >= limit ? [key] : []))
  return {
    busyWebhooks: keysFrom(
      countBy(sending, (delivery) => delivery.webhookId),
      MAX_SLOTS_PER_WEBHOOK,
    ),
    busyAccounts: keysFrom(
      countBy(sending, (delivery) => delivery.accountId),
      MAX_SLOTS_PER_ACCOUNT,
    ),
  }
}

function countBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, number> {
  const counts = new Map<string, number>()
  for (const item of items) counts.set(keyOf(item), (counts.get(keyOf(item)) ?? 0) + 1)
  return counts
}

function openSecrets(app: App, delivery: Outgoing, now: Instant): string[] {
  const { secretSealed, oldSecretSealed, oldSecretUntil } = delivery
  const oldSigns = oldSecretSealed !== null && oldSecretUntil !== null && now < oldSecretUntil
  return [secretSealed, ...(oldSigns ? [oldSecretSealed] : [])].map((sealed) => app.vault.open(sealed))
}

async function writeBack(
  app: App,
  delivery: Outgoing,
  token: string,
  outcome: Outcome,
  random: () => number,
): Promise<void> {
  const { db } = app.database
  const leased = { id: delivery.id, token }
  const at = app.clock.now()
  if (outcome.kind === 'delivered') {
    await finishDelivery(db, leased, 'delivered', { at, status: outcome.status, error: null })
    return
  }
  const status = outcome.kind === 'refused' ? outcome.status : null
  const retryAfterMs = outcome.kind === 'refused' ? parseRetryAfter(outcome.retryAfter, at) : undefined
  const delayMs = status === GONE ? undefined : retryDelayMs(delivery.attempts, random, retryAfterMs)
  const attempt = { at, status, error: outcome.error }
  if (delayMs !== undefined) {
    await postponeDelivery(db, leased, addMs(at, delayMs), attempt)
    return
  }
  await transact(app.database, async (tx) => {
    if (!(await finishDelivery(tx.db, leased, 'failed', attempt))) return
    if (status === GONE) await disableWebhook(tx, delivery.webhookId, 'gone')
    else if (isFailing(await failureStreak(tx.db, delivery.webhookId), at)) {
      await disableWebhook(tx, delivery.webhookId, 'failing')
    }
  })
}
