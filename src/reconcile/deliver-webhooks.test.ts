import { pipeline } from 'node:stream/promises'
import { Webhook } from 'standardwebhooks'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { status } from '../../test/harness/receiver.ts'
import { startWebhookTest, type WebhookTest } from '../../test/harness/webhook.ts'
import { changeWebhook, rotateWebhookSecret, testWebhook } from '../app/account/webhook.ts'
import { DAY_MS, HOUR_MS } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { transact } from '../store/platform/database.ts'

let house: WebhookTest
beforeEach(async () => {
  house = await startWebhookTest()
})
afterEach(() => house.close())

describe('a message', () => {
  test('passes the Standard Webhooks verifier and carries the event', async () => {
    const { actor, id, secret } = await house.hook('/hook?x=1')
    await house.emit(actor)
    expect(await house.deliver()).toBe(1)
    const [got] = house.receiver.received
    if (got === undefined) throw new Error('nothing was received')
    const delivery = await house.delivery(id)
    expect(new Webhook(secret).verify(got.body, got.headers)).toEqual({
      type: 'rental.running',
      timestamp: new Date(house.clock.now()).toISOString(),
      data: { n: 1, subject: { kind: 'rental', id: '17' }, id: delivery.event_id.toString() },
    })
    expect(() => new Webhook(`whsec_${'A'.repeat(32)}`).verify(got.body, got.headers)).toThrow('No matching signature')
    expect(got.path).toBe('/hook?x=1')
    expect(got.headers).toMatchObject({
      'webhook-id': `evt_${delivery.event_id}`,
      'content-type': 'application/json',
    })
    expect(delivery).toMatchObject({ state: 'delivered', attempts: 1, last_status: 200, last_error: null })
    expect(await house.deliver()).toBe(0)
  })

  test('carries both signatures for a day after a rotation', async () => {
    const { actor, id, secret } = await house.hook()
    const rotated = await transact(house.database, (tx) => rotateWebhookSecret(house.app, tx, actor, id))
    if (!rotated.ok) throw new Error(rotated.message)
    await house.emit(actor)
    await house.deliver()
    house.clock.advance(DAY_MS)
    await house.emit(actor)
    await house.deliver()
    const [during, after] = house.receiver.received
    if (during === undefined || after === undefined) throw new Error('not received')
    for (const one of [secret, rotated.value.secret]) {
      expect(new Webhook(one).verify(during.body, during.headers)).toMatchObject({ type: 'rental.running' })
    }
    expect(after.headers['webhook-signature']).toBe(
      new Webhook(rotated.value.secret).sign(
        after.headers['webhook-id'] ?? '',
        new Date(house.clock.now()),
        after.body,
      ),
    )
  })
})

describe('a failing endpoint', () => {
  test('is retried with back-off and the same id until the last attempt', async () => {
    const { actor, id } = await house.hook()
    house.receiver.answer = status(500)
    await house.emit(actor)
    const waits: number[] = []
    for (let attempts = 1; attempts < limits.webhookAttempts; attempts += 1) {
      expect(await house.deliver()).toBe(1)
      const delivery = await house.delivery(id)
      expect(delivery).toMatchObject({ state: 'pending', attempts, last_status: 500, lease_token: null })
      waits.push((delivery.due_at - house.clock.now()) / 1_000)
      house.clock.set(delivery.due_at)
    }
    expect(waits).toEqual([5, 30, 120, 600, 1800, 3600, 7200, 14400, 14400, 14400, 14400])
    expect(await house.deliver()).toBe(1)
    expect(await house.delivery(id)).toMatchObject({
      state: 'failed',
      attempts: limits.webhookAttempts,
      last_error: expect.stringContaining('500'),
    })
    house.clock.advance(DAY_MS)
    expect(await house.deliver()).toBe(0)
    expect(new Set(house.receiver.received.map((one) => one.headers['webhook-id'])).size).toBe(1)
    expect((await house.webhook(id)).enabled).toBe(true)
  })

  test('is not called before the back-off ends, and Retry-After extends it', async () => {
    const { actor, id } = await house.hook()
    house.receiver.answer = status(503, { 'retry-after': '120' })
    await house.emit(actor)
    await house.deliver()
    house.clock.advance(119_999)
    expect(await house.deliver()).toBe(0)
    house.clock.advance(1)
    house.receiver.answer = status(204)
    expect(await house.deliver()).toBe(1)
    expect(await house.delivery(id)).toMatchObject({ state: 'delivered', attempts: 2, last_status: 204 })
  })

  test('a redirect counts as a failure and is not followed', async () => {
    const { actor, id } = await house.hook('/start')
    house.receiver.answer = status(307, { location: `${house.receiver.url}/elsewhere` })
    await house.emit(actor)
    await house.deliver()
    expect(house.receiver.received.map((one) => one.path)).toEqual(['/start'])
    expect(await house.delivery(id)).toMatchObject({
      state: 'pending',
      last_status: 307,
      last_error: expect.stringContaining('redirects'),
    })
  })

  test('times out before or after the response headers', async () => {
    const silent = await house.hook('/silent')
    const half = await house.hook('/half')
    house.receiver.answer = ({ path }, response) => {
      if (path === '/half') response.writeHead(200).write('and then')
    }
    await house.emit(silent.actor)
    await house.emit(half.actor)
    // Long enough for headers to arrive on a busy machine.
    expect(await house.deliver({ timeoutMs: 1_500 })).toBe(2)
    expect(await house.delivery(silent.id)).toMatchObject({
      state: 'pending',
      last_status: null,
      last_error: expect.stringContaining('timed out'),
    })
    expect(await house.delivery(half.id)).toMatchObject({ state: 'delivered' })
  })

  test('reads only the beginning of a huge response', async () => {
    const { actor, id } = await house.hook()
    let written = 0
    function* endless() {
      for (;;) {
        written += 65_536
        yield Buffer.alloc(65_536)
      }
    }
    const cut = new Promise((done) => {
      house.receiver.answer = (_, response) => pipeline(endless, response.once('close', done)).catch(() => undefined)
    })
    await house.emit(actor)
    await house.deliver()
    await cut
    // The buffers of a local connection.
    expect(written).toBeLessThan(32 * 1_048_576)
    expect(await house.delivery(id)).toMatchObject({ state: 'delivered' })
  })

  test('reports a refused connection without an address', async () => {
    // Nothing listens there; a port that was just closed may be in use again.
    const { actor, id } = await house.hook('http://127.0.0.1:9/')
    await house.emit(actor)
    await house.deliver()
    expect(await house.delivery(id)).toMatchObject({ last_status: null, last_error: 'The connection was refused' })
  })
})

describe('a private address', () => {
  test.each(['127.0.0.1', '[::1]', 'rebind.example'])('%s is rejected at delivery time', async (host) => {
    const { actor, id } = await house.hook(house.receiver.url.replace('127.0.0.1', host))
    await house.emit(actor)
    const resolve = () => Promise.resolve([{ address: '127.0.0.1', family: 4 }])
    expect(await house.deliver({ on: house.server({ allowPrivateAddresses: false }), resolve })).toBe(1)
    expect(house.receiver.received).toEqual([])
    expect(await house.delivery(id)).toMatchObject({ state: 'pending', last_error: 'The host has no public address' })
  })
})

describe('a webhook is disabled', () => {
  test('by 410, which fails its pending deliveries', async () => {
    const { actor, id } = await house.hook()
    house.receiver.answer = status(500)
    await house.emit(actor)
    await house.deliver()
    house.receiver.answer = status(410)
    await house.emit(actor)
    await house.deliver()
    expect(await house.webhook(id)).toMatchObject({ enabled: false, disabled_reason: 'gone' })
    const [waiting, gone] = await house.deliveries(id)
    expect(waiting).toMatchObject({ state: 'failed', last_error: expect.stringContaining('disabled') })
    expect(gone).toMatchObject({ state: 'failed', last_status: 410 })
    await house.emit(actor)
    expect(await house.deliveries(id)).toHaveLength(2)
  })

  test('by fifty failed deliveries in a row; enabling it resets the count', async () => {
    const { actor, id } = await house.hook()
    await house.emit(actor)
    await house.deliver()
    house.clock.advance(1)
    house.receiver.answer = status(500)
    await house.emit(actor, 49)
    await house.spendAttempts(id)
    await house.deliver()
    expect(await house.webhook(id)).toMatchObject({ enabled: true })
    await house.emit(actor)
    await house.spendAttempts(id)
    await house.deliver()
    expect(await house.webhook(id)).toMatchObject({ enabled: false, disabled_reason: 'failing' })

    house.clock.advance(1)
    await transact(house.database, (tx) => changeWebhook(tx, actor, id, { enabled: true }))
    expect(await house.webhook(id)).toMatchObject({ enabled: true, disabled_reason: null })
    await house.emit(actor)
    await house.spendAttempts(id)
    await house.deliver()
    expect(await house.webhook(id)).toMatchObject({ enabled: true })
  })

  test('by five days without a success', async () => {
    const { actor, id } = await house.hook()
    house.receiver.answer = status(500)
    const failOnce = async () => {
      await house.emit(actor)
      await house.spendAttempts(id)
      await house.deliver()
      return (await house.webhook(id)).disabled_reason
    }
    expect(await failOnce()).toBeNull()
    house.clock.advance(5 * DAY_MS - 1)
    expect(await failOnce()).toBeNull()
    house.clock.advance(1)
    expect(await failOnce()).toBe('failing')
  })

  test('and still receives a test, once', async () => {
    const { actor, id } = await house.hook()
    await transact(house.database, (tx) => changeWebhook(tx, actor, id, { enabled: false }))
    await transact(house.database, (tx) => testWebhook(tx, actor, id))
    house.receiver.answer = status(500)
    expect(await house.deliver()).toBe(1)
    house.clock.advance(HOUR_MS)
    expect(await house.deliver()).toBe(0)
    expect(await house.delivery(id)).toMatchObject({ state: 'failed', last_status: 500 })
  })
})
