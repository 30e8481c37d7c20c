/** Accounts with webhooks on their own database, a receiving endpoint, and any number of delivering servers. */
import type { Actor, App } from '../../src/app/app.ts'
import { createWebhook } from '../../src/app/account/webhook.ts'
import { randomId } from '../../src/base/id.ts'
import { usd } from '../../src/base/money.ts'
import { systemClock, toDate } from '../../src/base/instant.ts'
import { limits } from '../../src/base/limits.ts'
import { makeVault } from '../../src/base/vault.ts'
import { deliverWebhooks } from '../../src/reconcile/deliver-webhooks.ts'
import { manualClock, type ManualClock } from '../sim/clock.ts'
import { openDatabase, transact, type Database } from '../../src/store/platform/database.ts'
import { recordEvent } from '../../src/store/notice/event.ts'
import type { Delivery } from '../../src/store/notice/webhook-delivery.ts'
import type { Webhook } from '../../src/store/notice/webhook.ts'
import { testDatabase } from './database.ts'
import { startReceiver, type Receiver } from './receiver.ts'

export class WebhookTest {
  readonly database: Database
  readonly app: App
  readonly clock: ManualClock
  readonly receiver: Receiver
  readonly #url: string
  readonly #opened: Array<() => Promise<unknown>>

  constructor(url: string, receiver: Receiver, drop: () => Promise<void>) {
    // Starts at the real time, because signature verification compares with it.
    this.clock = manualClock(systemClock.now())
    this.#url = url
    this.#opened = [drop, () => receiver.close()]
    this.receiver = receiver
    this.app = this.server()
    this.database = this.app.database
  }

  /** Another process on the same database. */
  server(more: Partial<App> = {}): App {
    const database = openDatabase({ url: this.#url, clock: this.clock })
    this.#opened.push(() => database.close())
    const vault = makeVault('a secret for tests')
    const { clock } = this
    const common = { database, clock, installationId: 'test00', drivers: new Map(), vault }
    const app = { ...common, allowPrivateAddresses: true, stoppedDiskPerGbMonth: usd('0.10'), cpuPerHour: usd('0.02') }
    return { ...app, ...more }
  }

  /** One pass on one server. */
  deliver(more: { on?: App; signal?: AbortSignal } & Parameters<typeof deliverWebhooks>[1] = {}): Promise<number> {
    const { on = this.app, signal = new AbortController().signal, ...options } = more
    const loop = deliverWebhooks(on, { random: () => 0.5, ...options })
    this.#opened.push(() => loop.close())
    return loop.run(signal)
  }

  async account(): Promise<Actor> {
    const accountId = randomId('acc')
    const created_at = toDate(this.clock.now())
    await this.database.db.insertInto('account').values({ id: accountId, name: 'Test', created_at }).execute()
    return { accountId, personId: 'usr_1', keyId: 'key', role: 'owner', scopes: ['keys'] }
  }

  async hook(path = '/', owner?: Actor): Promise<{ actor: Actor; id: string; secret: string }> {
    const actor = owner ?? (await this.account())
    const url = path.startsWith('/') ? this.receiver.url + path : path
    const made = await transact(this.database, (tx) => createWebhook(this.app, tx, actor, { url }))
    if (!made.ok) throw new Error(made.message)
    return { actor, id: made.value.webhook.id, secret: made.value.secret }
  }

  async emit({ accountId }: Actor, count = 1): Promise<void> {
    await transact(this.database, async (tx) => {
      for (let n = 1; n <= count; n += 1) {
        recordEvent(tx, { accountId, type: 'rental.running', subject: { kind: 'rental', id: '17' }, data: { n } })
      }
    })
  }

  deliveries(webhookId: string): Promise<Delivery[]> {
    const select = this.database.db.selectFrom('webhook_delivery').selectAll()
    return select.where('webhook_id', '=', webhookId).orderBy('event_id').execute()
  }

  async delivery(webhookId: string): Promise<Delivery> {
    const [delivery, ...others] = await this.deliveries(webhookId)
    if (delivery === undefined || others.length > 0) throw new Error('there is not just one delivery')
    return delivery
  }

  webhook(id: string): Promise<Webhook> {
    return this.database.db.selectFrom('webhook').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  }

  /** As if all attempts but the last had failed. */
  async spendAttempts(webhookId: string): Promise<void> {
    const update = this.database.db.updateTable('webhook_delivery').set({ attempts: limits.webhookAttempts - 1 })
    await update.where('webhook_id', '=', webhookId).where('state', '=', 'pending').execute()
  }

  async close(): Promise<void> {
    for (const close of this.#opened.splice(0).toReversed()) await close().catch(() => undefined)
  }
}

export async function startWebhookTest(): Promise<WebhookTest> {
  const database = await testDatabase()
  return new WebhookTest(database.url, await startReceiver(), () => database.drop())
}
