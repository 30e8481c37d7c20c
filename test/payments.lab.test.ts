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
  },
)
