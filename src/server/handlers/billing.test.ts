import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HOUR_MS, instantOf } from '../../base/instant.ts'
import { nanoUsdOf, usd } from '../../base/money.ts'
import type { Actor } from '../../app/app.ts'
import { api } from '../../contract/api.ts'
import { buy, openAccount, openTestLedger, settle, startRental, type TestLedger } from '../../../test/harness/ledger.ts'
import { billingHandlers } from './billing.ts'
import { invoiceHandlers } from './invoice.ts'
import { statementHandlers } from './statement.ts'
import { forgetRequests, writeRequest } from '../../../test/harness/ended-request.ts'
import type { z } from 'zod'
import type { Reply } from '../../client/client.ts'
import { ok } from '../../contract/result.ts'

let ledger: TestLedger
let actor: Actor

beforeAll(async () => {
  ledger = await openTestLedger(instantOf(Date.UTC(2026, 10, 14, 12)))
  actor = await openAccount(ledger, 'wire', usd('12.345'))
  await buy(ledger, actor.accountId, usd('10'), 'card')
  const rentalId = await startRental(ledger, actor, { pricePerHour: usd('2') })
  for (let n = 0; n < 3; n += 1) {
    ledger.clock.advance(HOUR_MS / 4)
    await settle(ledger, { rentalId, volumeId: null })
  }
})
afterAll(() => ledger.close())

const handlers = { ...billingHandlers, ...invoiceHandlers, ...statementHandlers }

type Name = keyof typeof handlers

/** Billing over HTTP, with requests and responses checked against the contract. */
async function call(operation: Name, input: { query?: unknown; params?: unknown; body?: unknown } = {}) {
  const { query, params, body, response } = api[operation]
  const request = {
    operation,
    query: query?.parse(input.query ?? {}),
    params: params?.parse(input.params ?? {}),
    body: body?.parse(input.body ?? {}),
    actor,
    requestId: 'req_test',
    idempotencyKey: undefined,
  }
  const handler = handlers[operation] as (
    app: TestLedger['app'],
    request: unknown,
  ) => ReturnType<(typeof handlers)[Name]>
  const result = await handler(ledger.app, request)
  return result.ok ? ok((response as z.ZodType).encode(result.value)) : result
}

test('the balance in both forms', async () => {
  expect(await call('getCustomerBalance')).toEqual({
    ok: true,
    value: {
      balanceUsd: '20.845000000',
      unbilledUsd: '0.000000000',
      availableUsd: '18.845000000',
      heldUsd: '2.000000000',
      hourlySpendUsd: '2.000000000',
      volumeSpendUsd: '0.000000000',
      emptyAt: '2026-11-14T23:10:21.000Z',
      runway: { fundsUsd: '20.845000000', hourlySpendUsd: '2.000000000' },
      creditLineUsd: '0.000000000',
      creditUsedUsd: '0.000000000',
      debtUsd: '0.000000000',
      earningsUsd: '0.000000000',
    },
  })
  expect(await call('getCurrentBalance')).toMatchObject({
    ok: true,
    value: { credits: 2084, balance_usd: '20.845000000', hourly_spend_usd: '2.000000000' },
  })
})

test('purchases in cents, with the offset spelled out', async () => {
  const timestamp = '2026-11-14T12:00:00.000+00:00'
  expect(await call('getPurchaseHistory')).toEqual({
    ok: true,
    value: {
      purchase_history: [
        { amount: '1000', timestamp, source: 'stripe_purchase', memo: 'card' },
        { amount: '1234', timestamp, source: 'stripe_purchase', memo: 'Purchase' },
      ],
    },
  })
})

describe('the statement', () => {
  test('is paged by its cursor to the end', async () => {
    const seen: unknown[] = []
    let cursor: string | undefined
    for (let pages = 0; pages < 10; pages += 1) {
      const page = await call('getStatement', { query: { limit: '2', ...(cursor === undefined ? {} : { cursor }) } })
      const { lines, nextCursor } = (page.ok ? page.value : null) as Reply<'getStatement'>
      seen.push(...lines.map((line) => line.balanceAfterUsd))
      if (nextCursor === null) break
      cursor = nextCursor
    }
    expect(seen).toEqual(['20.845000000', '21.345000000', '21.845000000', '22.345000000', '12.345000000'])
  })

  test.each(['', 'x', '!!', Buffer.from('1.2.3').toString('base64url'), Buffer.from('12').toString('base64url')])(
    'refuses the cursor %j',
    async (cursor) => {
      expect(await call('getStatement', { query: { cursor } })).toMatchObject({ ok: false, reason: 'bad_cursor' })
    },
  )
})

test('invoices: listed, one, and its page', async () => {
  expect(await call('listInvoices')).toMatchObject({
    value: { invoices: [{ number: 'B-wire-2026-11', status: 'open', chargesUsd: '1.500000000' }] },
  })
  expect(await call('getInvoice', { params: { month: '2026-11' } })).toMatchObject({
    value: { chargesUsd: '1.500000000', paymentsUsd: '22.345000000', closingBalanceUsd: '20.845000000' },
  })
  const page = await call('getInvoicePage', { params: { month: '2026-11' } })
  expect(page.ok && page.value).toContain('Invoice B-wire-2026-11')
  expect(await call('getInvoicePage', { params: { month: '2026-10' } })).toMatchObject({ ok: false, kind: 'not_found' })
})

test('usage and request costs', async () => {
  expect(await call('getUsageSummary', { query: { by: 'key' } })).toMatchObject({
    value: { totalUsd: '1.500000000', rows: [{ group: actor.keyId, costUsd: '1.500000000', requests: 0 }] },
  })
  const one = { requestId: 'one', accountId: actor.accountId, at: ledger.clock.now(), cost: nanoUsdOf(42n) }
  await writeRequest(ledger.database.db, one)
  expect(await call('getRequestCost', { body: { requestIds: ['one', 'two'] } })).toEqual({
    ok: true,
    value: { requests: [{ requestId: 'one', costNanoUsd: 42 }] },
  })
  await forgetRequests(ledger.database.db)
})

test('the ledger check', async () => {
  expect(await call('verifyLedger')).toMatchObject({
    value: { ok: true, findings: [], houseUsd: { funding: '-22.345000000', revenue: '1.500000000' } },
  })
})
