/** Every request that Berth sends to Stripe is one that Stripe's own description allows. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { usd } from '../src/base/money.ts'
import { payTopUp, rowOf, startPaying, topUp, type Paying } from './harness/paying.ts'
import { startStripeMock, whyNoStripeMock, type StripeMock } from './lab/stripe-mock.ts'
import { needs } from './needs.ts'

needs('go')

const why = whyNoStripeMock()
/** Building stripe-mock is slow where it is not there yet. */
const START_MS = 10 * 60_000

describe.skipIf(why !== undefined)(
  `payments, checked by stripe-mock${why === undefined ? '' : ` (skipped: ${why})`}`,
  () => {
    let mock: StripeMock
    let paying: Paying
    const refusals: string[] = []

    beforeAll(async () => {
      mock = await startStripeMock()
      paying = await startPaying()
      paying.stripe.check = async (call) => {
        const refusal = await mock.refuse(call)
        if (refusal !== undefined) refusals.push(refusal)
      }
    }, START_MS)
    afterAll(async () => {
      await paying?.close()
      await mock?.close()
    })

    test('a mistake is noticed', async () => {
      const call = { method: 'POST', path: '/v1/refunds', params: {}, key: null, version: '2026-08-26.dahlia' }
      expect(await mock.refuse({ ...call, text: 'amount=many' })).toContain('400')
      expect(await mock.refuse({ ...call, text: 'amount=100&payment_intent=pi_1' })).toBeUndefined()
    })

    test('top-ups, refunds, disputes, warnings and the list of events', async () => {
      const { id: accountId, call } = await paying.account({ sshKey: false })
      const { id: saved } = await topUp(call, '20', { saveCard: true })
      paying.stripe.pay((await rowOf(paying.app, saved)).session_id ?? '')
      const { id, intentId } = await payTopUp(paying, call)
      await paying.deliver()
      await paying.settle()
      await paying.operator('POST', `/v2/operator/payments/${id}/refund`, { amountUsd: '10', reason: 'test' })
      await paying.settle()
      paying.stripe.warn(intentId)
      paying.stripe.dispute(intentId)
      await paying.catchUp()
      expect(await paying.available(accountId)).toBe(usd('20'))
      const called = new Set(
        paying.stripe.calls.map(({ method, path }) => `${method} ${path.split('/').slice(2, 4).join('/')}`),
      )
      expect([...called].map((one) => one.replace(/\/[a-z]+_[\w]+$/, ''))).toEqual(
        expect.arrayContaining([
          'POST customers',
          'POST checkout/sessions',
          'GET events',
          'POST refunds',
          'GET disputes',
        ]),
      )
      expect(refusals).toEqual([])
    })

    test('automatic top-ups, saved cards and the portal', async () => {
      const { id: accountId, call } = await paying.account({ sshKey: false })
      const { id } = await topUp(call, '5', { saveCard: true })
      paying.stripe.pay((await rowOf(paying.app, id)).session_id ?? '')
      await paying.deliver()
      await paying.settle()
      const terms = { belowUsd: '20', amountUsd: '20', monthlyCapUsd: '100', consent: true }
      expect((await call('PUT', '/v2/billing/auto-top-up', terms)).status).toBe(200)
      await paying.topUpNow()
      expect(await paying.available(accountId)).toBe(usd('25'))
      expect((await call('POST', '/v2/billing/card-portal')).status).toBe(200)
      await paying.operator('POST', `/v2/operator/accounts/${accountId}/adjust`, { amountUsd: '-20', reason: 'spent' })
      paying.stripe.declines = true
      paying.clock.advance(3_600_000)
      await paying.topUpNow()
      paying.stripe.declines = false
      const [card] = (await call('GET', '/v2/billing/cards')).body.cards
      expect((await call('DELETE', `/v2/billing/cards/${card.id}`)).status).toBe(200)
      const paths = paying.stripe.calls.map(({ path }) => path)
      for (const part of [
        '/v1/tax/calculations',
        '/v1/billing_portal/sessions',
        `/v1/payment_methods/${card.id}/detach`,
      ])
        expect(paths).toContain(part)
      expect(paths.some((path) => path.endsWith('/cancel'))).toBe(true)
      expect(refusals).toEqual([])
    })
  },
)
