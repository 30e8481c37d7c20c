/** A debt after a dispute of spent money, as accounts and operators see it. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { payTopUp, startPaying, type Paying } from './harness/paying.ts'

let paying: Paying
beforeAll(async () => {
  paying = await startPaying()
})
afterAll(() => paying.close())

test('promises 46 and 48: the balance and the operator show a debt until it is repaid', async () => {
  const { id: accountId, call } = await paying.account({ sshKey: false })
  const debts = async () => [
    (await call('GET', '/v2/customer/balance')).body.debtUsd,
    (await paying.operator('GET', `/v2/operator/accounts/${accountId}`)).body.debtUsd,
  ]
  expect(await debts()).toEqual(['0.000000000', '0.000000000'])
  const { intentId } = await payTopUp(paying, call)
  await paying.deliver()
  await paying.settle()
  await paying.operator('POST', `/v2/operator/accounts/${accountId}/adjust`, { amountUsd: '-70', reason: 'it spent' })
  paying.stripe.dispute(intentId)
  await paying.deliver()
  await paying.settle()
  expect(await debts()).toEqual(['70.000000000', '70.000000000'])
  await payTopUp(paying, call, '80')
  await paying.deliver()
  await paying.settle()
  expect(await debts()).toEqual(['0.000000000', '0.000000000'])
  expect((await call('GET', '/v2/customer/balance')).body.availableUsd).toBe('10.000000000')
})
