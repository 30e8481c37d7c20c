/** The response matches the log and the contract, with money to the nano-dollar. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openAccount } from '../../../test/harness/ledger.ts'
import { openPurseLedger, type PurseLedger } from '../../../test/harness/purse-ledger.ts'
import { usd } from '../../base/money.ts'
import { api } from '../../contract/api.ts'
import { trafficHandlers } from './traffic.ts'
import { settleRecords } from '../../domain/settlement.ts'

let ledger: PurseLedger
beforeAll(async () => {
  ledger = await openPurseLedger()
})
afterAll(() => ledger.close())

test('traffic matches the contract', async () => {
  const actor = await openAccount(ledger, 'caller', usd('1'))
  const treasury = await ledger.startTreasury()
  const holdKey = await ledger.fill(treasury, actor, usd('0.5'))
  await settleRecords(treasury, [ledger.recordOf(actor, holdKey, usd('0.000000123'))])
  const request = { operation: 'getTraffic', actor, params: undefined, body: undefined } as const
  const traffic = await trafficHandlers.getTraffic(ledger.app, {
    ...request,
    query: api.getTraffic.query?.parse({ minutes: '2' }) ?? { minutes: 2 },
    allowedModels: null,
    requestId: 'req_1',
    idempotencyKey: undefined,
  })
  if (!traffic.ok) throw new Error('refused')
  const counted = { requests: 1, failed: 0, inputTokens: 10, outputTokens: 20, costUsd: '0.000000123' }
  const none = { requests: 0, failed: 0, inputTokens: 0, outputTokens: 0, costUsd: '0.000000000' }
  expect(api.getTraffic.response.encode(traffic.value)).toEqual({
    from: '2026-01-01T11:59:00.000Z',
    to: '2026-01-01T12:00:00.000Z',
    minutes: [
      { at: '2026-01-01T11:59:00.000Z', ...none },
      { at: '2026-01-01T12:00:00.000Z', ...counted },
    ],
    // The log keeps whole milliseconds.
    models: [{ model: 'model-a', ...counted, totalMs: { p50: 80, p95: 80 }, firstByteMs: { p50: 13, p95: 13 } }],
  })
})
