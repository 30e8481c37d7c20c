import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { status } from '../../test/harness/receiver.ts'
import { startWebhookTest, type WebhookTest } from '../../test/harness/webhook.ts'
import { MINUTE_MS } from '../base/instant.ts'
import { manualClock } from '../../test/sim/clock.ts'
import { deliverWebhooks, fairShare } from './deliver-webhooks.ts'

let house: WebhookTest
beforeEach(async () => {
  house = await startWebhookTest()
})
afterEach(() => house.close())

describe('several servers and deliveries', () => {
  test('three servers send each delivery once', async () => {
    const hooks = await Promise.all(['/a', '/b', '/c', '/d'].map((path) => house.hook(path)))
    for (const { actor } of hooks) await house.emit(actor, 30)
    const times = new Map<string, number>()
    house.receiver.answer = async ({ headers, path }, response) => {
      const key = `${path} ${headers['webhook-id']}`
      times.set(key, (times.get(key) ?? 0) + 1)
      await new Promise((soon) => setImmediate(soon))
      response.end()
    }
    const { signal } = new AbortController()
    const loop = deliverWebhooks(house.app)
    const others = [house.deliver({ on: house.server() }), house.deliver({ on: house.server() })]
    const attempted = await Promise.all([loop.run(signal), loop.run(signal), ...others])
    await loop.close()
    expect(attempted.reduce((sum, one) => sum + one, 0)).toBe(120)
    expect([times.size, Math.max(...times.values())]).toEqual([120, 1])
  })

  test('a slow endpoint does not delay others, and gets at most three requests at once', async () => {
    const slow = await house.hook('/slow')
    const fast = await house.hook('/fast', slow.actor)
    await house.emit(slow.actor, 40)
    let inFlight = 0
    let most = 0
    let fastOnes = 0
    let release = (): void => {}
    const allFast = new Promise<void>((done) => (release = done))
    house.receiver.answer = async ({ path }, response) => {
      if (path === '/fast') {
        fastOnes += 1
        if (fastOnes === 40) release()
      } else {
        inFlight += 1
        most = Math.max(most, inFlight)
        await allFast
        inFlight -= 1
      }
      response.end()
    }
    // Would time out if the fast ones waited for the slow ones.
    expect(await house.deliver({ timeoutMs: 20_000 })).toBe(80)
    expect([fastOnes, most]).toEqual([40, 3])
    expect((await house.deliveries(fast.id)).every((one) => one.state === 'delivered')).toBe(true)
    expect((await house.deliveries(slow.id)).every((one) => one.state === 'delivered')).toBe(true)
  })

  test('sends newly due deliveries in the same pass while a slow endpoint is pending', async () => {
    const slow = await house.hook('/slow')
    const later = await house.hook('/later')
    await house.emit(slow.actor)
    house.receiver.answer = async ({ path }, response) => {
      if (path === '/later') answerSlow()
      else {
        answerSlow = () => void response.end()
        await house.emit(later.actor)
        return
      }
      response.end()
    }
    let answerSlow = (): void => {}
    expect(await house.deliver({ timeoutMs: 20_000 })).toBe(2)
    expect(await house.delivery(slow.id)).toMatchObject({ state: 'delivered' })
  })

  test('slots are shared between webhooks and accounts', () => {
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
  test('between request and write-back causes a resend with the same id', async () => {
    const { actor, id } = await house.hook()
    await house.emit(actor)
    const doomed = house.server()
    house.receiver.answer = async (_, response) => {
      await doomed.database.close()
      response.end()
    }
    await expect(house.deliver({ on: doomed })).rejects.toThrow(/./)
    house.receiver.answer = status(200)
    expect(await house.deliver()).toBe(0)
    house.clock.advance(MINUTE_MS)
    expect(await house.deliver()).toBe(1)
    const [first, second] = house.receiver.received
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
    expect(second?.body).toBe(first?.body)
    expect(await house.delivery(id)).toMatchObject({ state: 'delivered', attempts: 2 })
  })

  test('does not overwrite the result of the server that took over', async () => {
    const { actor, id } = await house.hook()
    await house.emit(actor)
    let answerFirst = (): void => {}
    house.receiver.answer = (_, response) => {
      house.receiver.answer = status(200)
      answerFirst = () => void response.writeHead(500).end()
      arrived()
    }
    let arrived = (): void => {}
    const atReceiver = new Promise<void>((done) => (arrived = done))
    // Its own clock stands still, so that it does not take over its own lease.
    const late = house.deliver({ on: house.server({ clock: manualClock(house.clock.now()) }) })
    await atReceiver
    house.clock.advance(MINUTE_MS)
    expect(await house.deliver({ on: house.server() })).toBe(1)
    answerFirst()
    await late
    expect(await house.delivery(id)).toMatchObject({ state: 'delivered', last_status: 200 })
  })

  test('gracefully returns its deliveries', async () => {
    const { actor, id } = await house.hook()
    await house.emit(actor)
    const stop = new AbortController()
    house.receiver.answer = () => stop.abort()
    expect(await house.deliver({ signal: stop.signal })).toBe(1)
    expect(await house.delivery(id)).toMatchObject({ state: 'pending', attempts: 0, lease_token: null, last_at: null })
    house.receiver.answer = status(200)
    expect(await house.deliver({ on: house.server() })).toBe(1)
  })
})
