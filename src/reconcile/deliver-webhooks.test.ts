import { Webhook } from 'standardwebhooks'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startReceiver, status, type Receiver } from '../../test/harness/receiver.ts'
import { testDatabase, type TestDatabase } from '../../test/harness/database.ts'
import type { App } from '../app/app.ts'
import { changeWebhook, createWebhook, rotateWebhookSecret, testWebhook } from '../app/webhook.ts'
import { randomId } from '../base/id.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, systemClock, toDate } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { makeVault } from '../base/vault.ts'
import { manualClock, type ManualClock } from '../sim/clock.ts'
import { openDatabase, transact, type Database } from '../store/database.ts'
import { recordEvent } from '../store/event.ts'
import { deliverWebhooks, fairShare } from './deliver-webhooks.ts'

let testDb: TestDatabase
let database: Database
let clock: ManualClock
let receiver: Receiver
let app: App
const opened: Array<{ close(): Promise<void> }> = []

beforeAll(async () => {
  testDb = await testDatabase()
})
afterAll(() => testDb.drop())

beforeEach(async () => {
  // The real time, since the verifier of the signatures asks for it.
  clock = manualClock(systemClock.now())
  database = openDatabase({ url: testDb.url, clock })
  await database.db.deleteFrom('webhook').execute()
  receiver = await startReceiver()
  app = makeApp(database)
  opened.push(database, receiver)
})
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close().catch(() => undefined)
})

function makeApp(ofDatabase: Database, allowPrivateAddresses = true): App {
  const vault = makeVault('a secret for tests')
  return { database: ofDatabase, clock, installationId: 'test00', drivers: new Map(), vault, allowPrivateAddresses }
}

/** Another process on the same database. */
function otherServer(): App {
  const other = openDatabase({ url: testDb.url, clock })
  opened.push(other)
  return makeApp(other)
}

function deliver(on: App = app, options: Parameters<typeof deliverWebhooks>[1] = {}) {
  const loop = deliverWebhooks(on, { random: () => 0.5, ...options })
  opened.push(loop)
  return { run: (signal: AbortSignal = new AbortController().signal) => loop.run(signal) }
}

async function makeAccount() {
  const accountId = randomId('acc')
  await database.db
    .insertInto('account')
    .values({ id: accountId, name: 'Test', created_at: toDate(clock.now()) })
    .execute()
  return { accountId, personId: 'usr_1', keyId: 'key', role: 'owner', scopes: ['keys'] } as const
}

async function makeHook(url: string, actor?: Awaited<ReturnType<typeof makeAccount>>) {
  const owner = actor ?? (await makeAccount())
  const made = await transact(database, (tx) => createWebhook(app, tx, owner, { url }))
  if (!made.ok) throw new Error(made.message)
  return { actor: owner, id: made.value.webhook.id, secret: made.value.secret }
}

async function emit(accountId: string, count = 1) {
  await transact(database, async (tx) => {
    for (let n = 1; n <= count; n += 1) {
      recordEvent(tx, { accountId, type: 'rental.running', subject: { kind: 'rental', id: '17' }, data: { n } })
    }
  })
}

const deliveriesOf = (webhookId: string) =>
  database.db
    .selectFrom('webhook_delivery')
    .selectAll()
    .where('webhook_id', '=', webhookId)
    .orderBy('event_id')
    .execute()
const hookOf = (id: string) =>
  database.db.selectFrom('webhook').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

async function onlyDelivery(webhookId: string) {
  const [delivery, ...others] = await deliveriesOf(webhookId)
  if (delivery === undefined || others.length > 0) throw new Error('not one delivery')
  return delivery
}

/** As if all attempts but the last had failed. */
const spendAttempts = (webhookId: string) =>
  database.db
    .updateTable('webhook_delivery')
    .set({ attempts: limits.webhookAttempts - 1 })
    .where('webhook_id', '=', webhookId)
    .where('state', '=', 'pending')
    .execute()

describe('a message', () => {
  test('is signed so that the convention’s own verifier accepts it, and says what happened', async () => {
    const { actor, id, secret } = await makeHook(`${receiver.url}/hook?x=1`)
    await emit(actor.accountId)
    expect(await deliver().run()).toBe(1)
    const [got] = receiver.received
    if (got === undefined) throw new Error('nothing was received')
    const delivery = await onlyDelivery(id)
    expect(new Webhook(secret).verify(got.body, got.headers)).toEqual({
      type: 'rental.running',
      timestamp: new Date(clock.now()).toISOString(),
      data: { n: 1, subject: { kind: 'rental', id: '17' }, id: delivery.event_id.toString() },
    })
    expect(() => new Webhook(`whsec_${'A'.repeat(32)}`).verify(got.body, got.headers)).toThrow('No matching signature')
    expect(got.path).toBe('/hook?x=1')
    expect(got.headers).toMatchObject({
      'webhook-id': `evt_${delivery.event_id}`,
      'content-type': 'application/json',
    })
    expect(delivery).toMatchObject({ state: 'delivered', attempts: 1, last_status: 200, last_error: null })
    expect(await deliver().run()).toBe(0)
  })

  test('carries both signatures for a day after a rotation', async () => {
    const { actor, id, secret } = await makeHook(receiver.url)
    const rotated = await transact(database, (tx) => rotateWebhookSecret(app, tx, actor, id))
    if (!rotated.ok) throw new Error(rotated.message)
    await emit(actor.accountId)
    await deliver().run()
    clock.advance(DAY_MS)
    await emit(actor.accountId)
    await deliver().run()
    const [during, after] = receiver.received
    if (during === undefined || after === undefined) throw new Error('not received')
    for (const one of [secret, rotated.value.secret]) {
      expect(new Webhook(one).verify(during.body, during.headers)).toMatchObject({ type: 'rental.running' })
    }
    expect(after.headers['webhook-signature']).toBe(
      new Webhook(rotated.value.secret).sign(after.headers['webhook-id'] ?? '', new Date(clock.now()), after.body),
    )
  })
})

describe('an endpoint that does not take it', () => {
  test('is tried again, later each time, under the same id, until the last attempt', async () => {
    const { actor, id } = await makeHook(receiver.url)
    receiver.answer = status(500)
    await emit(actor.accountId)
    const loop = deliver()
    const waits: number[] = []
    for (let attempts = 1; attempts < limits.webhookAttempts; attempts += 1) {
      expect(await loop.run()).toBe(1)
      const delivery = await onlyDelivery(id)
      expect(delivery).toMatchObject({ state: 'pending', attempts, last_status: 500, lease_token: null })
      waits.push((delivery.due_at - clock.now()) / 1_000)
      clock.set(delivery.due_at)
      clock.advance(0)
    }
    expect(waits).toEqual([5, 30, 120, 600, 1800, 3600, 7200, 14400, 14400, 14400, 14400])
    expect(await loop.run()).toBe(1)
    expect(await onlyDelivery(id)).toMatchObject({
      state: 'failed',
      attempts: limits.webhookAttempts,
      last_error: 'Answered 500 instead of a status from 200 to 299',
    })
    clock.advance(DAY_MS)
    expect(await loop.run()).toBe(0)
    expect(new Set(receiver.received.map((one) => one.headers['webhook-id'])).size).toBe(1)
    expect((await hookOf(id)).enabled).toBe(true)
  })

  test('is not asked before the wait is over, and Retry-After makes it longer', async () => {
    const { actor, id } = await makeHook(receiver.url)
    receiver.answer = status(503, { 'retry-after': '120' })
    await emit(actor.accountId)
    await deliver().run()
    clock.advance(119_999)
    expect(await deliver().run()).toBe(0)
    clock.advance(1)
    receiver.answer = status(204)
    expect(await deliver().run()).toBe(1)
    expect(await onlyDelivery(id)).toMatchObject({ state: 'delivered', attempts: 2, last_status: 204 })
  })

  test('a redirect is an answer and is not followed', async () => {
    const { actor, id } = await makeHook(`${receiver.url}/start`)
    receiver.answer = status(307, { location: `${receiver.url}/elsewhere` })
    await emit(actor.accountId)
    await deliver().run()
    expect(receiver.received.map((one) => one.path)).toEqual(['/start'])
    expect(await onlyDelivery(id)).toMatchObject({
      state: 'pending',
      last_status: 307,
      last_error: 'Answered 307; redirects are not followed',
    })
  })

  test('one that hangs is left after the time-out, before or after its headers', async () => {
    const silent = await makeHook(`${receiver.url}/silent`)
    const half = await makeHook(`${receiver.url}/half`)
    receiver.answer = ({ path }, response) => {
      if (path === '/half') response.writeHead(200).write('and then')
    }
    await emit(silent.actor.accountId)
    await emit(half.actor.accountId)
    expect(await deliver(app, { timeoutMs: 200 }).run()).toBe(2)
    expect(await onlyDelivery(silent.id)).toMatchObject({
      state: 'pending',
      last_status: null,
      last_error: 'No answer came in time',
    })
    expect(await onlyDelivery(half.id)).toMatchObject({ state: 'delivered' })
  })

  test('of a huge answer no more than a little is read', async () => {
    const { actor, id } = await makeHook(receiver.url)
    let written = 0
    const cut = new Promise<void>((done) => {
      receiver.answer = async (_, response) => {
        response.on('close', done)
        while (!response.destroyed) {
          written += 65_536
          if (!response.write(Buffer.alloc(65_536)))
            await new Promise((more) => response.once('drain', more).once('close', more))
        }
      }
    })
    await emit(actor.accountId)
    await deliver().run()
    await cut
    // What the two ends of a local connection hold between them.
    expect(written).toBeLessThan(32 * 1_048_576)
    expect(await onlyDelivery(id)).toMatchObject({ state: 'delivered' })
  })

  test('a refused connection is told without an address', async () => {
    const { actor, id } = await makeHook(receiver.url)
    await receiver.close()
    await emit(actor.accountId)
    await deliver().run()
    expect(await onlyDelivery(id)).toMatchObject({ last_status: null, last_error: 'The connection was refused' })
  })
})

describe('a private address', () => {
  test.each(['127.0.0.1', '[::1]', 'rebind.example'])('%s is refused at the time of sending', async (host) => {
    const { actor, id } = await makeHook(receiver.url.replace('127.0.0.1', host))
    await emit(actor.accountId)
    const resolve = () => Promise.resolve([{ address: '127.0.0.1', family: 4 }])
    expect(await deliver(makeApp(database, false), { resolve }).run()).toBe(1)
    expect(receiver.received).toEqual([])
    expect(await onlyDelivery(id)).toMatchObject({ state: 'pending', last_error: 'The host has no public address' })
  })
})

describe('a webhook is turned off', () => {
  test('by 410, and what waits for it is given up', async () => {
    const { actor, id } = await makeHook(receiver.url)
    receiver.answer = status(500)
    await emit(actor.accountId)
    await deliver().run()
    receiver.answer = status(410)
    await emit(actor.accountId)
    await deliver().run()
    expect(await hookOf(id)).toMatchObject({ enabled: false, disabled_reason: 'gone' })
    const [waiting, gone] = await deliveriesOf(id)
    expect(waiting).toMatchObject({ state: 'failed', last_error: 'The webhook was turned off' })
    expect(gone).toMatchObject({ state: 'failed', last_status: 410 })
    await emit(actor.accountId)
    expect(await deliveriesOf(id)).toHaveLength(2)
  })

  test('by fifty failed deliveries in a row, counted anew when it is turned on again', async () => {
    const { actor, id } = await makeHook(receiver.url)
    await emit(actor.accountId)
    await deliver().run()
    clock.advance(1)
    receiver.answer = status(500)
    await emit(actor.accountId, 49)
    await spendAttempts(id)
    await deliver().run()
    expect(await hookOf(id)).toMatchObject({ enabled: true })
    await emit(actor.accountId)
    await spendAttempts(id)
    await deliver().run()
    expect(await hookOf(id)).toMatchObject({ enabled: false, disabled_reason: 'failing' })

    clock.advance(1)
    await transact(database, (tx) => changeWebhook(tx, actor, id, { enabled: true }))
    expect(await hookOf(id)).toMatchObject({ enabled: true, disabled_reason: null })
    await emit(actor.accountId)
    await spendAttempts(id)
    await deliver().run()
    expect(await hookOf(id)).toMatchObject({ enabled: true })
  })

  test('by five days without a success', async () => {
    const { actor, id } = await makeHook(receiver.url)
    receiver.answer = status(500)
    const failOnce = async () => {
      await emit(actor.accountId)
      await spendAttempts(id)
      await deliver().run()
      return (await hookOf(id)).disabled_reason
    }
    expect(await failOnce()).toBeNull()
    clock.advance(5 * DAY_MS - 1)
    expect(await failOnce()).toBeNull()
    clock.advance(1)
    expect(await failOnce()).toBe('failing')
  })

  test('and a test is sent all the same, once', async () => {
    const { actor, id } = await makeHook(receiver.url)
    await transact(database, (tx) => changeWebhook(tx, actor, id, { enabled: false }))
    await transact(database, (tx) => testWebhook(tx, actor, id))
    receiver.answer = status(500)
    expect(await deliver().run()).toBe(1)
    clock.advance(HOUR_MS)
    expect(await deliver().run()).toBe(0)
    expect(await onlyDelivery(id)).toMatchObject({ state: 'failed', last_status: 500 })
  })
})

describe('several at once', () => {
  test('two servers never send the same delivery at the same time, and send each once', async () => {
    const hooks = await Promise.all(['/a', '/b', '/c', '/d'].map((path) => makeHook(receiver.url + path)))
    for (const { actor } of hooks) await emit(actor.accountId, 30)
    const times = new Map<string, number>()
    receiver.answer = async ({ headers, path }, response) => {
      const key = `${path} ${headers['webhook-id']}`
      times.set(key, (times.get(key) ?? 0) + 1)
      await new Promise((soon) => setImmediate(soon))
      response.end()
    }
    const passes = [deliver(), deliver(), deliver(otherServer()), deliver(otherServer())].map((loop) => loop.run())
    const attempted = await Promise.all(passes)
    expect(attempted.reduce((sum, one) => sum + one, 0)).toBe(120)
    expect([times.size, Math.max(...times.values())]).toEqual([120, 1])
  })

  test('a slow endpoint does not hold up the others, and is not asked more than three times at once', async () => {
    const slow = await makeHook(`${receiver.url}/slow`)
    const fast = await makeHook(`${receiver.url}/fast`, slow.actor)
    await emit(slow.actor.accountId, 40)
    let asked = 0
    let most = 0
    let fastOnes = 0
    let release = (): void => {}
    const allFast = new Promise<void>((done) => (release = done))
    receiver.answer = async ({ path }, response) => {
      if (path === '/fast') {
        fastOnes += 1
        if (fastOnes === 40) release()
      } else {
        asked += 1
        most = Math.max(most, asked)
        await allFast
        asked -= 1
      }
      response.end()
    }
    // Would time out if the fast ones waited for the slow ones.
    expect(await deliver(app, { timeoutMs: 20_000 }).run()).toBe(80)
    expect([fastOnes, most]).toEqual([40, 3])
    expect((await deliveriesOf(fast.id)).every((one) => one.state === 'delivered')).toBe(true)
    expect((await deliveriesOf(slow.id)).every((one) => one.state === 'delivered')).toBe(true)
  })

  test('places are shared out between webhooks and accounts', () => {
    const due = (webhook: string, count: number) =>
      Array.from({ length: count }, (_, n) => ({
        id: `${webhook}.${n}`,
        webhookId: webhook,
        accountId: webhook.slice(0, 1),
      }))
    const all = [...due('a1', 9), ...due('a2', 9), ...due('a3', 9), ...due('b1', 9), ...due('c1', 9), ...due('d1', 9)]
    const share = fairShare(all, due('d1', 2))
    expect(share.map((one) => one.id).join(' ')).toBe(
      'a1.0 a1.1 a1.2 a2.0 a2.1 a2.2 a3.0 a3.1 b1.0 b1.1 b1.2 c1.0 c1.1 c1.2',
    )
  })
})

describe('a server that stops', () => {
  test('between the request and the write-back sends again, with the same id', async () => {
    const { actor, id } = await makeHook(receiver.url)
    await emit(actor.accountId)
    const doomed = otherServer()
    receiver.answer = async (_, response) => {
      await doomed.database.close()
      response.end()
    }
    await expect(deliver(doomed).run()).rejects.toThrow()
    receiver.answer = status(200)
    expect(await deliver().run()).toBe(0)
    clock.advance(MINUTE_MS)
    expect(await deliver().run()).toBe(1)
    const [first, second] = receiver.received
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
    expect(second?.body).toBe(first?.body)
    expect(await onlyDelivery(id)).toMatchObject({ state: 'delivered', attempts: 2 })
  })

  test('comes too late with its answer when another has taken over', async () => {
    const { actor, id } = await makeHook(receiver.url)
    await emit(actor.accountId)
    let answerFirst = (): void => {}
    receiver.answer = (_, response) => {
      receiver.answer = status(200)
      answerFirst = () => void response.writeHead(500).end()
      arrived()
    }
    let arrived = (): void => {}
    const atReceiver = new Promise<void>((done) => (arrived = done))
    const late = deliver().run()
    await atReceiver
    clock.advance(MINUTE_MS)
    expect(await deliver(otherServer()).run()).toBe(1)
    answerFirst()
    await late
    expect(await onlyDelivery(id)).toMatchObject({ state: 'delivered', last_status: 200 })
  })

  test('on purpose gives back what it was sending', async () => {
    const { actor, id } = await makeHook(receiver.url)
    await emit(actor.accountId)
    const stop = new AbortController()
    receiver.answer = () => stop.abort()
    expect(await deliver().run(stop.signal)).toBe(1)
    expect(await onlyDelivery(id)).toMatchObject({ state: 'pending', attempts: 0, lease_token: null, last_at: null })
    receiver.answer = status(200)
    expect(await deliver(otherServer()).run()).toBe(1)
  })
})
