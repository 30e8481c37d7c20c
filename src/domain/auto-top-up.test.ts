import { describe, expect, test } from 'vitest'
import { addMs, DAY_MS, instantOf } from '../base/instant.ts'
import { usd } from '../base/money.ts'
import { judgeCharge, needsConfirmation, type AutomaticPayment } from './auto-top-up.ts'
import { consentText } from './auto-top-up-terms.ts'
import type { Intent } from './processor.ts'

const NOW = instantOf(Date.UTC(2026, 10, 14, 12))
const payment: AutomaticPayment = {
  id: 'pay_1',
  isLive: true,
  amount: usd('100'),
  tax: usd('19'),
  customerId: 'cus_1',
  createdAt: NOW,
}
const intent: Intent = {
  id: 'pi_1',
  isLive: true,
  status: 'succeeded',
  reference: 'pay_1',
  customerId: 'cus_1',
  chargeId: 'ch_1',
  currency: 'usd',
  receivedCents: 11_900,
  failure: null,
  card: null,
}

test('a charge that matches in everything is paid, with the tax that was calculated', () => {
  expect(judgeCharge(payment, intent, NOW)).toEqual({ kind: 'paid', intent, tax: usd('19') })
})

describe('promise 38: a charge that differs is not paid', () => {
  test.each([
    [{ receivedCents: 11_901 }, 'total'],
    [{ receivedCents: 10_000 }, 'total'],
    [{ currency: 'eur' }, 'currency'],
    [{ customerId: 'cus_2' }, 'customer'],
    [{ reference: 'pay_2' }, 'reference'],
    [{ isLive: false }, 'live'],
  ])('%j', (change, word) => {
    const verdict = judgeCharge(payment, { ...intent, ...change }, NOW)
    expect(verdict).toMatchObject({ kind: 'mismatch', detail: expect.stringContaining(word) })
  })
})

test('a charge in progress is waited for, and looked at by an operator after a month', () => {
  const processing = { ...intent, status: 'processing' }
  expect(judgeCharge(payment, processing, addMs(NOW, 29 * DAY_MS)).kind).toBe('wait')
  expect(judgeCharge(payment, processing, addMs(NOW, 31 * DAY_MS)).kind).toBe('mismatch')
})

test.each([
  ['requires_payment_method', 'insufficient_funds', false],
  ['requires_payment_method', 'authentication_required', false],
  ['requires_action', null, false],
  ['canceled', null, true],
])('a charge that is %s (%s) has failed; it is over: %s', (status, failure, isOver) => {
  const verdict = judgeCharge(payment, { ...intent, status, failure }, NOW)
  expect(verdict).toEqual({ kind: 'failed', failure: failure ?? status, isOver })
})

test('only the question of a bank needs the customer', () => {
  expect(['authentication_required', 'requires_action'].map(needsConfirmation)).toEqual([true, true])
  expect(['insufficient_funds', 'generic_decline', 'canceled'].map(needsConfirmation)).toEqual([false, false, false])
})

test('the consent names the card and every amount', () => {
  const text = consentText({ below: usd('20'), amount: usd('100'), cap: usd('500') }, 'Visa …4242')
  for (const part of ['Visa …4242', '$20.00', '$100.00', '$500.00', 'tax', 'per month', 'per hour'])
    expect(text).toContain(part)
})
