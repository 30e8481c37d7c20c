/** New accounts: what they can spend and add, declined cards, and how they become trusted. */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS } from '../src/base/instant.ts'
import { limits } from '../src/base/limits.ts'
import { usd } from '../src/base/money.ts'
import { sweepExpired } from '../src/reconcile/expire.ts'
import { payTopUp, rowOf, startPaying, topUp, type Paying } from './harness/paying.ts'
import type { Call } from './harness/server.ts'
import { cards } from './sim/stripe-object.ts'

let paying: Paying
beforeAll(async () => {
  paying = await startPaying()
})
afterAll(() => paying.close())

const { signal } = new AbortController()
const sweep = () => sweepExpired(paying.app).run(signal)
const limitsOf = async (call: Call) => (await call('GET', '/v2/account/limits')).body

async function openNew() {
  const account = await paying.account({ sshKey: false })
  await setStage(account.id, 'new')
  return account
}

async function setStage(accountId: string, stage: string) {
  const reply = await paying.operator('PATCH', `/v2/operator/accounts/${accountId}`, { stage, reason: 'a test' })
  expect(reply.body.stage).toBe(stage)
}

describe('a new account', () => {
  test('sees its limits, and the operator moves it on', async () => {
    const { id, call } = await openNew()
    expect(await limitsOf(call)).toMatchObject({
      stage: 'new',
      newUntil: null,
      quota: { hourlySpendUsd: 20, topUpPerDayUsd: 200, gpus: 256 },
      hourlySpendUsd: '0.000000000',
      toppedUpUsd: '0.000000000',
      topUpsBlocked: false,
    })
    const path = `/v2/operator/accounts/${id}`
    const quota = { hourlySpendUsd: 50, topUpPerDayUsd: 200 }
    expect((await paying.operator('PATCH', path, { quota, reason: 'a test' })).body.quota).toMatchObject(quota)
    await setStage(id, 'paid')
    // The one was set; the other is the usual one of the stage.
    expect((await limitsOf(call)).quota).toMatchObject({ hourlySpendUsd: 50, topUpPerDayUsd: 2_000 })
    await setStage(id, 'trusted')
    expect((await limitsOf(call)).quota).toMatchObject({ hourlySpendUsd: 50, topUpPerDayUsd: 1_000_000 })
  })

  test('becomes paid seven days after its first payment, unless that is disputed', async () => {
    const [good, disputed, warned] = [await openNew(), await openNew(), await openNew()]
    const paidAt = paying.clock.now()
    for (const { call } of [good, disputed, warned]) await payTopUp(paying, call, '50')
    await paying.deliver()
    await paying.settle()
    const newUntil = new Date(paidAt + 7 * DAY_MS).toISOString()
    expect(await limitsOf(good.call)).toMatchObject({ stage: 'new', newUntil, toppedUpUsd: '50.000000000' })
    const intentOf = async (accountId: string) => {
      const row = paying.app.database.db.selectFrom('payment').select('intent_id').where('account_id', '=', accountId)
      return (await row.executeTakeFirstOrThrow()).intent_id ?? ''
    }
    paying.stripe.dispute(await intentOf(disputed.id), { inquiry: true })
    paying.stripe.warn(await intentOf(warned.id))
    await paying.deliver()
    await paying.settle()
    paying.clock.advance(7 * DAY_MS - 1_000)
    await sweep()
    expect((await limitsOf(good.call)).stage).toBe('new')
    paying.clock.advance(1_000)
    await sweep()
    expect((await limitsOf(good.call)).stage).toBe('paid')
    for (const { call } of [disputed, warned]) expect((await limitsOf(call)).stage).toBe('new')
  })
})

describe('promise 52: the daily top-up', () => {
  test('is not exceeded by top-ups at once, and has room again a day later', async () => {
    const { id: accountId, call } = await openNew()
    const replies = await Promise.all(
      Array.from({ length: 5 }, () => call('POST', '/v2/billing/top-ups', { amountUsd: '60' })),
    )
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(3)
    expect(new Set(replies.filter(({ status }) => status !== 200).map(({ body }) => body.reason))).toEqual(
      new Set(['top_up_day_limit']),
    )
    expect(replies.find(({ status }) => status !== 200)?.body.message).toContain('$20.00 of it is left')
    await topUp(call, '20')
    // Those that nobody pays leave room; what was paid does not.
    const [first] = replies.filter(({ status }) => status === 200)
    const id = String(first?.body.id)
    paying.stripe.pay((await rowOf(paying.app, id)).session_id ?? '')
    await paying.deliver()
    await paying.settle()
    paying.clock.advance(HOUR_MS)
    expect((await call('POST', '/v2/billing/top-ups', { amountUsd: '140.01' })).body.reason).toBe('top_up_day_limit')
    await topUp(call, '140')
    paying.clock.advance(DAY_MS)
    await topUp(call, '200')
    expect(await paying.available(accountId)).toBe(usd('60'))
  })

  test('also holds for automatic top-ups, which wait', async () => {
    const { id: accountId, call } = await openNew()
    const { id } = await topUp(call, '100', { saveCard: true })
    paying.stripe.pay((await rowOf(paying.app, id)).session_id ?? '')
    await paying.deliver()
    await paying.settle()
    const terms = { belowUsd: '120', amountUsd: '150', monthlyCapUsd: '1000', consent: true }
    expect((await call('PUT', '/v2/billing/auto-top-up', terms)).status).toBe(200)
    await paying.topUpNow()
    expect(await paying.available(accountId)).toBe(usd('100'))
    expect((await call('GET', '/v2/billing/auto-top-up')).body.pausedUntil).not.toBeNull()
    paying.clock.advance(DAY_MS)
    await paying.topUpNow()
    expect(await paying.available(accountId)).toBe(usd('250'))
  })
})

describe('promise 53: ten declined cards a day', () => {
  const decline = async (call: Call, times: number) => {
    const { id } = await topUp(call, '10')
    const sessionId = (await rowOf(paying.app, id)).session_id ?? ''
    for (let n = 0; n < times; n += 1) paying.stripe.pay(sessionId, cards.declined)
    await paying.deliver()
    await paying.settle()
    return sessionId
  }
  const forget = () => sql`delete from card_decline`.execute(paying.app.database.db)

  test('block the account and its network, close its pages, and tell the operator', async () => {
    const [eve, other] = [await openNew(), await paying.account({ sshKey: false })]
    const open = (await rowOf(paying.app, (await topUp(eve.call, '10')).id)).session_id ?? ''
    const sessionId = await decline(eve.call, limits.declinesPerDay - 1)
    expect(await limitsOf(eve.call)).toMatchObject({ topUpsBlocked: false })
    // A message that comes twice is one card.
    const last = paying.stripe.events.at(-1)
    if (last !== undefined) await paying.stripe.deliver(paying.url, last)
    await paying.settle()
    expect(await limitsOf(eve.call)).toMatchObject({ topUpsBlocked: false })
    paying.stripe.pay(sessionId, cards.declined)
    await paying.deliver()
    await paying.settle()
    expect(await limitsOf(eve.call)).toMatchObject({ topUpsBlocked: true })
    for (const session of [sessionId, open]) expect(paying.stripe.get(session)['status']).toBe('expired')
    expect((await paying.alerts()).filter((alert) => alert.startsWith(`declines ${eve.id}`))).toHaveLength(1)
    expect((await eve.call('POST', '/v2/billing/top-ups', { amountUsd: '10' })).body.reason).toBe('top_ups_blocked')
    expect((await eve.call('POST', '/v2/billing/card-setups')).body.reason).toBe('top_ups_blocked')
    // The same network, another account.
    expect((await other.call('POST', '/v2/billing/top-ups', { amountUsd: '10' })).body.reason).toBe('top_ups_blocked')
    paying.clock.advance(DAY_MS + 1)
    await topUp(eve.call, '10')
    await topUp(other.call, '10')
    await forget()
  })

  test('count over several accounts of one network', async () => {
    const accounts = [await openNew(), await openNew()]
    for (const { call } of accounts) await decline(call, limits.declinesPerDay / 2)
    for (const { call } of accounts) {
      expect((await limitsOf(call)).topUpsBlocked).toBe(false)
      expect((await call('POST', '/v2/billing/top-ups', { amountUsd: '10' })).body.reason).toBe('top_ups_blocked')
    }
    await forget()
  })

  test('count when cards are saved, and stop automatic top-ups of the account', async () => {
    const { id: accountId, call } = await openNew()
    const { id } = await topUp(call, '10', { saveCard: true })
    paying.stripe.pay((await rowOf(paying.app, id)).session_id ?? '')
    const { id: setupId } = (await call('POST', '/v2/billing/card-setups')).body as { id: string }
    const setup = paying.app.database.db.selectFrom('card_setup').select('session_id').where('id', '=', setupId)
    const { session_id: sessionId } = await setup.executeTakeFirstOrThrow()
    for (let n = 0; n < limits.declinesPerDay; n += 1) paying.stripe.saveCard(sessionId ?? '', cards.declined)
    await paying.deliver()
    await paying.settle()
    expect(paying.stripe.get(sessionId ?? '')['status']).toBe('expired')
    const terms = { belowUsd: '20', amountUsd: '20', monthlyCapUsd: '100', consent: true }
    expect((await call('PUT', '/v2/billing/auto-top-up', terms)).status).toBe(200)
    await paying.topUpNow()
    expect(await paying.available(accountId)).toBe(usd('10'))
    await forget()
  })
})
