/** Adding funds, automatic top-up, saved cards and refunds in the console, against a simulated Stripe. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/instant.ts'
import { browserLeftOut, openBrowser, expectDuring, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'
import { StripeSimulator } from '../sim/stripe-server.ts'

needs('browser')

describe.skipIf(whyNoBrowser() !== undefined)(`billing by card${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let stripe: StripeSimulator

  beforeAll(async () => {
    stripe = await StripeSimulator.open(systemClock)
    const { BERTH_PUBLIC_URL: _, ...env } = stripe.env
    browser = await openBrowser({ env: { ...env, BERTH_PUBLIC_URL: 'http://127.0.0.1:9' } })
  })
  afterAll(async () => {
    await browser?.close()
    await stripe?.close()
  })

  const deliver = async (from: number) => {
    for (const event of stripe.events.slice(from)) expect(await stripe.deliver(browser.server.url, event)).toBe(200)
  }

  test('add funds, return, automatic top-up, and a refund by the operator', async () => {
    const { id: accountId, key } = await browser.server.account({ sshKey: false })
    const { page, visit, look, faults, close } = await browser.open(key)
    await page.route('https://checkout.stripe.example/**', (route) =>
      route.fulfill({ contentType: 'text/html', body: '<title>Checkout</title><h1>Pay</h1>' }),
    )
    await visit('/billing', 'Billing')
    const funds = page.getByRole('region', { name: 'Add funds' })
    await funds.getByLabel('Amount (USD)').fill('4')
    await funds.getByRole('button', { name: /^Continue/ }).click()
    await funds.getByText('The amount must be from $5.00').waitFor()
    await look('billing-add-funds')
    await funds.getByRole('button', { name: '$25' }).click()
    await funds.getByLabel('Save the card').check()
    await funds.getByRole('button', { name: 'Continue to pay $25.00' }).click()
    await page.getByRole('heading', { name: 'Pay' }).waitFor()
    const session = stripe.all('checkout.session').find((one) => one['status'] === 'open')
    const paymentId = String(session?.['client_reference_id'])
    // The way to the payment page leaves this site.
    expect(faults()).toEqual([`a request to ${String(session?.['url'])}`])

    await visit(`/billing?payment=${paymentId}`, 'Billing')
    await page.getByText('Waiting for the payment of $25.00').waitFor()
    await look('billing-waiting')
    const before = stripe.events.length
    stripe.taxPercent = 19
    stripe.pay(String(session?.['id']))
    stripe.taxPercent = 0
    await expectDuring(page.getByText('Payment received: $25.00 was added to your balance. You paid $4.75'), () =>
      deliver(before),
    )
    await page.getByRole('button', { name: 'Close' }).click()

    const auto = page.getByRole('region', { name: 'Automatic top-up' })
    await auto.getByRole('button', { name: 'Turn on' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Add (USD)').fill('10')
    await dialog.getByText('Charge Visa …4242 $10.00').waitFor()
    await dialog.getByRole('button', { name: 'Agree and turn on' }).click()
    await dialog.getByText('The amount must be at least the threshold.').waitFor()
    await look('billing-auto-dialog')
    await dialog.getByLabel('Add (USD)').fill('100')
    await dialog.getByRole('button', { name: 'Agree and turn on' }).click()
    await auto.getByText('when less than $20.00 is available').waitFor()
    await look('billing-auto')
    const { body } = await browser.server.as(key)('GET', '/v2/billing/auto-top-up')
    expect(body).toMatchObject({ enabled: true, amountUsd: '100.000000000', card: { last4: '4242' } })

    await auto.getByRole('button', { name: 'Remove Visa …4242' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove card' }).click()
    await auto.getByText('its card was removed').waitFor()
    await page.getByRole('tab', { name: 'Card payments' }).click()
    await page.getByRole('table', { name: 'Payments' }).getByText('Paid').waitFor()
    await look('billing-payments')
    await close()

    const intent = stripe.all('payment_intent').find(({ customer }) => customer === session?.['customer'])
    const events = stripe.events.length
    stripe.warn(String(intent?.['id']))
    await deliver(events)
    const operator = await browser.open(browser.server.operatorKey)
    await operator.visit('/operator/payments', 'Payments')
    await operator.page.getByText('Fraud warning').waitFor()
    await operator.look('operator-payments')
    await operator.page.getByRole('button', { name: `Refund ${paymentId}` }).click()
    const refund = operator.page.getByRole('dialog')
    await refund.getByLabel('Amount').fill('10')
    await refund.getByLabel('Reason').fill('a warning of fraud')
    await operator.look('operator-refund')
    await expectDuring(operator.page.getByText('Refunding $10.00 and $1.90 of tax'), () =>
      refund.getByRole('button', { name: 'Refund' }).click(),
    )
    await waitFor('the refund', () => stripe.all('refund').some(({ amount }) => amount === 1_190))
    await operator.page.getByText('Partly refunded').waitFor()
    await operator.close()
    const balance = await browser.server.operator('GET', `/v2/operator/accounts/${accountId}`)
    expect(balance.body.availableUsd).toBe('15.000000000')
  })

  test('without a key of Stripe the page asks to pay the operator', async () => {
    const plain = await openBrowser()
    try {
      const { key } = await plain.server.account({ sshKey: false })
      const { page, visit, close } = await plain.open(key)
      await visit('/billing', 'Billing')
      await page.getByText('This server does not take card payments.').waitFor()
      expect(await page.getByRole('heading', { name: 'Add funds' }).count()).toBe(0)
      await close()
    } finally {
      await plain.close()
    }
  })
})
