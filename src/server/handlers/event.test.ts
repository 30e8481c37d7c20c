import { Webhook } from 'standardwebhooks'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { status } from '../../../test/harness/receiver.ts'
import { startWebhookTest, type WebhookTest } from '../../../test/harness/webhook.ts'
import type { Actor } from '../../app/app.ts'
import { transact } from '../../store/platform/database.ts'
import { recordEvent } from '../../store/notice/event.ts'
import type { Result } from '../../contract/result.ts'
import { limits } from '../../base/limits.ts'
import { api, type Api } from '../../contract/api.ts'
import type { BodyInputOf, QueryInputOf, ResponseOf } from '../../contract/endpoint.ts'
import type { HandlerRequest } from '../http/handler.ts'
import { eventHandlers } from './event.ts'
import { webhookHandlers } from './webhook.ts'

const handlers = { ...eventHandlers, ...webhookHandlers }

type Op = keyof typeof handlers

let house: WebhookTest
let actor: Actor
beforeEach(async () => {
  house = await startWebhookTest()
  actor = await house.account()
})
afterEach(() => house.close())

interface Input<O extends Op> {
  id?: string
  query?: QueryInputOf<Api[O]>
  body?: BodyInputOf<Api[O]>
  as?: Actor
  idempotencyKey?: string
  strict?: boolean
}

/** Calls a handler as `bind.ts` does, with query and body parsed by the contract. */
async function call<O extends Op>(operation: O, input: Input<O> = {}): Promise<Result<ResponseOf<Api[O]>>> {
  const endpoint = api[operation]
  const request = {
    operation,
    params: { id: input.id },
    query: 'query' in endpoint ? endpoint.query?.parse(input.query ?? {}) : undefined,
    body: 'body' in endpoint ? endpoint.body?.parse(input.body) : undefined,
    actor: input.as ?? actor,
    requestId: 'req_1',
    idempotencyKey: input.idempotencyKey,
  } as unknown as HandlerRequest<O>
  const handler = handlers[operation] as unknown as (
    app: typeof house.app,
    request: HandlerRequest<O>,
  ) => Promise<Result<ResponseOf<Api[O]>>>
  return handler(input.strict ? { ...house.app, allowPrivateAddresses: false } : house.app, request)
}

async function get<O extends Op>(operation: O, input: Input<O> = {}): Promise<ResponseOf<Api[O]>> {
  const result = await call(operation, input)
  if (!result.ok) throw new Error(result.message)
  return result.value
}

const reasonOf = (result: Result<unknown>) => (result.ok ? 'ok' : [result.kind, result.reason])
const create = (more: Partial<BodyInputOf<Api['createWebhook']>> = {}) =>
  get('createWebhook', { body: { url: house.receiver.url, ...more } })

describe('events', () => {
  test('are listed newest first, page by page, without gaps or duplicates', async () => {
    await house.emit(actor, 7)
    await house.emit(await house.account(), 3)
    const seen: unknown[] = []
    let cursor: string | null | undefined
    do {
      const page = await get('listEvents', { query: { limit: 3, ...(cursor ? { cursor } : {}) } })
      expect(page.events.length).toBeLessThanOrEqual(3)
      seen.push(...page.events.map((event) => event.data['n']))
      cursor = page.nextCursor
    } while (cursor !== null)
    expect(seen).toEqual([7, 6, 5, 4, 3, 2, 1])
  })

  test('of every account are listed newest first, page by page, each with its account', async () => {
    const other = await house.account()
    for (let n = 0; n < 3; n += 1) for (const owner of [actor, other]) await house.emit(owner)
    const first = await get('listAllEvents', { query: { limit: 4 } })
    const second = await get('listAllEvents', { query: { limit: 4, cursor: first.nextCursor ?? '' } })
    const accounts = [...first.events, ...second.events].map((event) => event.accountId)
    expect(accounts.toReversed()).toEqual(Array.from({ length: 3 }, () => [actor.accountId, other.accountId]).flat())
    expect(second.nextCursor).toBeNull()
    const ofOne = await get('listAllEvents', { query: { accountId: other.accountId, type: 'rental.running' } })
    expect(ofOne.events).toHaveLength(3)
    expect(await get('listAllEvents', { query: { type: 'volume.active' } })).toEqual({ events: [], nextCursor: null })
    expect(reasonOf(await call('listAllEvents', { query: { cursor: 'nonsense' } }))).toEqual(['invalid', 'bad_cursor'])
  })

  test('are filtered by type and by subject', async () => {
    await house.emit(actor, 2)
    await transact(house.database, async (tx) =>
      recordEvent(tx, {
        accountId: actor.accountId,
        type: 'volume.active',
        subject: { kind: 'volume', id: '17' },
        data: {},
      }),
    )
    const types = async (query: QueryInputOf<Api['listEvents']>) =>
      (await get('listEvents', { query })).events.map((event) => event.type)
    expect(await types({ type: 'volume.active' })).toEqual(['volume.active'])
    expect(await types({ subject: 'rental:17' })).toEqual(['rental.running', 'rental.running'])
    expect(await types({ subject: 'volume:17', type: 'rental.running' })).toEqual([])
  })

  test.each(['rental', 'rental:', ':17', 'rental:1 7', 'rental:\0', 'RENTAL:1'])(
    '%j is not a subject',
    async (subject) => {
      expect(await call('listEvents', { query: { subject } })).toMatchObject({
        kind: 'invalid',
        issues: [{ path: ['subject'] }],
      })
    },
  )

  test('a cursor of another list is refused', async () => {
    expect(reasonOf(await call('listEvents', { query: { cursor: 'nonsense' } }))).toEqual(['invalid', 'bad_cursor'])
  })
})

describe('webhooks', () => {
  test('are created with a working secret that is shown once', async () => {
    const webhook = await create({ description: 'Pager', eventTypes: ['rental.running'] })
    expect(webhook).toMatchObject({
      description: 'Pager',
      eventTypes: ['rental.running'],
      enabled: true,
      updatedAt: null,
    })
    expect(webhook.secret).toMatch(/^whsec_[\w+/]{32}$/)
    const { webhooks } = await get('listWebhooks')
    expect(webhooks).toEqual([expect.objectContaining({ id: webhook.id, url: `${house.receiver.url}/` })])
    expect(JSON.stringify([webhooks, await house.webhook(webhook.id)])).not.toContain(webhook.secret.slice(6))
    await house.emit(actor)
    await house.deliver()
    const [got] = house.receiver.received
    expect(new Webhook(webhook.secret).verify(got?.body ?? '', got?.headers ?? {})).toMatchObject({
      type: 'rental.running',
    })
  })

  test('get only the requested types', async () => {
    const { id } = await create({ eventTypes: ['volume.active'] })
    await house.emit(actor)
    expect(await house.deliveries(id)).toEqual([])
  })

  test('are created once per idempotency key, with the same secret', async () => {
    const input = { body: { url: house.receiver.url }, idempotencyKey: 'k1' }
    const [first, second] = await Promise.all([get('createWebhook', input), get('createWebhook', input)])
    expect(second).toEqual(first)
    expect((await get('listWebhooks')).webhooks).toHaveLength(1)
  })

  test('cannot have private addresses, neither new nor changed', async () => {
    const { id } = await create()
    for (const url of ['https://127.0.0.1/', 'https://[::1]/', 'http://1.1.1.1/', 'https://me:pw@1.1.1.1/']) {
      const refused = { kind: 'invalid', reason: 'url_refused', issues: [{ path: ['url'] }] }
      expect(await call('createWebhook', { body: { url }, strict: true })).toMatchObject(refused)
      expect(await call('changeWebhook', { id, body: { url }, strict: true })).toMatchObject(refused)
    }
    expect(await call('createWebhook', { body: { url: 'https://1.1.1.1/' }, strict: true })).toMatchObject({ ok: true })
  })

  test('are limited by the quota, even when created at once', async () => {
    await house.database.db
      .updateTable('account')
      .set({ quota: JSON.stringify({ webhooks: 2 }) })
      .where('id', '=', actor.accountId)
      .execute()
    const body = { url: house.receiver.url }
    const results = await Promise.all(Array.from({ length: 5 }, () => call('createWebhook', { body })))
    expect(results.filter((one) => one.ok)).toHaveLength(2)
    expect(reasonOf(results.find((one) => !one.ok) ?? { ok: true, value: 0 })).toEqual(['forbidden', 'quota_exceeded'])
  })

  test('can be changed, and pending deliveries are dropped when disabled', async () => {
    const { id } = await create()
    await house.emit(actor)
    const off = await get('changeWebhook', { id, body: { enabled: false, description: null } })
    expect(off).toMatchObject({ enabled: false, disabledReason: null, description: null })
    expect(off.updatedAt).toBeTypeOf('number')
    expect(await house.delivery(id)).toMatchObject({ state: 'failed', last_error: expect.stringContaining('disabled') })
    await house.emit(actor)
    expect(await house.deliveries(id)).toHaveLength(1)
    const on = await get('changeWebhook', {
      id,
      body: { enabled: true, eventTypes: null, url: `${house.receiver.url}/b` },
    })
    expect(on).toMatchObject({ enabled: true, eventTypes: null, url: `${house.receiver.url}/b` })
  })

  test('rotate their secret', async () => {
    const { id, secret } = await create()
    const rotated = await get('rotateWebhookSecret', { id })
    expect(rotated.secret).toMatch(/^whsec_/)
    await house.emit(actor)
    await house.deliver()
    const [got] = house.receiver.received
    for (const one of [secret, rotated.secret]) {
      expect(new Webhook(one).verify(got?.body ?? '', got?.headers ?? {})).toBeDefined()
    }
  })

  test('are deleted with their pending deliveries', async () => {
    const { id } = await create()
    await house.emit(actor)
    await get('deleteWebhook', { id })
    expect(await house.deliveries(id)).toEqual([])
    expect(reasonOf(await call('deleteWebhook', { id }))).toEqual(['not_found', 'webhook_not_found'])
    expect(await house.deliver()).toBe(0)
  })

  test('of another account are not found', async () => {
    const { id } = await create()
    const { id: deliveryId } = await get('testWebhook', { id })
    const as = await house.account()
    const answers = [
      await call('changeWebhook', { id, as, body: { enabled: false } }),
      await call('deleteWebhook', { id, as }),
      await call('rotateWebhookSecret', { id, as }),
      await call('testWebhook', { id, as }),
      await call('listWebhookDeliveries', { id, as }),
      await call('redeliver', { id: deliveryId, as }),
    ]
    expect(answers.map((one) => (one.ok ? 'ok' : one.kind))).toEqual(answers.map(() => 'not_found'))
    expect((await get('listWebhooks', { as })).webhooks).toEqual([])
    expect(await house.webhook(id)).toMatchObject({ enabled: true, old_secret_sealed: null })
  })
})

describe('deliveries', () => {
  test('a test delivery goes to one webhook only, and is listed', async () => {
    const { id } = await create({ eventTypes: ['volume.active'] })
    const other = await create()
    const tested = await get('testWebhook', { id })
    expect(tested).toMatchObject({ eventType: 'webhook.test', state: 'pending', attempts: 0, lastAttemptAt: null })
    expect(await house.deliver()).toBe(1)
    const { deliveries } = await get('listWebhookDeliveries', { id })
    expect(deliveries).toEqual([expect.objectContaining({ id: tested.id, state: 'delivered', nextAttemptAt: null })])
    expect(await house.deliveries(other.id)).toEqual([])
    expect(JSON.parse(house.receiver.received[0]?.body ?? '')).toMatchObject({
      data: { subject: { kind: 'webhook', id } },
    })
  })

  test('are listed newest first, page by page, also within one millisecond', async () => {
    const { id } = await create()
    await house.emit(actor, 4)
    house.clock.advance(1)
    await house.emit(actor, 3)
    const seen: string[] = []
    let cursor: string | null | undefined
    do {
      const page = await get('listWebhookDeliveries', { id, query: { limit: 2, ...(cursor ? { cursor } : {}) } })
      seen.push(...page.deliveries.map((one) => `${one.createdAt} ${one.id}`))
      cursor = page.nextCursor
    } while (cursor !== null)
    expect(seen).toEqual([...new Set(seen)].sort((a, b) => (a < b ? 1 : -1)))
    expect(seen).toHaveLength(7)
    const bad = await call('listWebhookDeliveries', { id, query: { cursor: 'MTI' } })
    expect(reasonOf(bad)).toEqual(['invalid', 'bad_cursor'])
  })

  test('are sent again on demand, and keep their earlier attempts', async () => {
    const { id } = await create()
    house.receiver.answer = status(500)
    await house.emit(actor)
    await house.spendAttempts(id)
    await house.deliver()
    const failed = await house.delivery(id)
    expect(failed).toMatchObject({ state: 'failed', attempts: limits.webhookAttempts })
    const again = await get('redeliver', { id: failed.id })
    expect(again).toMatchObject({ id: failed.id, state: 'pending', attempts: 0, lastStatus: 500 })
    house.receiver.answer = status(200)
    expect(await house.deliver()).toBe(1)
    expect(await house.delivery(id)).toMatchObject({ state: 'delivered', attempts: 1 })
    await get('redeliver', { id: failed.id })
    expect(await house.deliver()).toBe(1)
    expect(new Set(house.receiver.received.map((one) => one.headers['webhook-id'])).size).toBe(1)
  })
})
