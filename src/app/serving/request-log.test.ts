/** The log of one account: ordered, complete over pages, and nobody else's. */
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openAccount, openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import { inferenceRecord } from '../../../test/harness/ended-request.ts'
import { addMs, DAY_MS } from '../../base/instant.ts'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import type { RequestFilter, RequestPlace } from '../../store/request/request-log.ts'
import type { Actor } from '../app.ts'
import { listRequests, readRequest, type RequestEntry } from './request-log.ts'
import { makeTreasury } from '../money/treasury.ts'
import { settleRecords } from '../../domain/settlement.ts'

let ledger: TestLedger
let actor: Actor
let other: Actor
const records: InferenceRecord[] = []
const STEP_MS = 4 * DAY_MS

beforeAll(async () => {
  ledger = await openTestLedger()
  actor = await openAccount(ledger, 'log')
  other = await openAccount(ledger, 'otherlog')
  const start = ledger.clock.now()
  for (let n = 0; n < 120; n += 1) {
    const owner = n % 10 === 9 ? other : actor
    records.push(
      inferenceRecord({
        // Ids do not increase with time.
        requestId: `req_${((n * 7) % 120).toString().padStart(3, '0')}`,
        accountId: owner.accountId,
        apiKeyId: owner.keyId,
        // Several in one instant, over four months.
        at: addMs(start, (Math.floor(n / 4) - 29) * STEP_MS),
        model: n % 3 === 0 ? 'large' : 'small',
        outcome: n % 5 === 0 ? 'failed' : 'answered',
      }),
    )
  }
  const treasury = makeTreasury({ database: ledger.database, clock: ledger.clock, gatewayId: 'gw' })
  await settleRecords(treasury, records)
})
afterAll(() => ledger.close())

async function readPages(filter: RequestFilter, limit: number): Promise<RequestEntry[]> {
  const all: RequestEntry[] = []
  for (let after: RequestPlace | undefined; ;) {
    const page = await listRequests(ledger.app, actor, { filter, limit, ...(after === undefined ? {} : { after }) })
    if (!page.ok) throw new Error(page.message)
    all.push(...page.value)
    const last = page.value.at(-1)
    if (page.value.length < limit || last === undefined) return all
    after = { at: last.at, requestId: last.requestId }
  }
}

describe('the list', () => {
  test('has each request of the account once, newest first, for all pages and filters', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 50 }),
        fc.record(
          {
            model: fc.constantFrom('large', 'small', 'none'),
            outcome: fc.constantFrom('failed' as const, 'answered' as const, 'cut' as const),
            since: fc
              .integer({ min: -2, max: 32 })
              .map((n) => addMs(records[0]?.at ?? ledger.clock.now(), n * STEP_MS)),
            apiKeyId: fc.constantFrom('logkey', 'otherlogkey'),
          },
          { requiredKeys: [] },
        ),
        async (limit, filter) => {
          const { model, outcome, since, apiKeyId } = filter
          const expected = records
            .filter((record) => record.accountId === actor.accountId)
            .filter((record) => model === undefined || record.model === model)
            .filter((record) => outcome === undefined || record.outcome === outcome)
            .filter((record) => since === undefined || record.at >= since)
            .filter((record) => apiKeyId === undefined || record.apiKeyId === apiKeyId)
            .toSorted((a, b) => b.at - a.at || (a.requestId < b.requestId ? -1 : 1))
          const entries = await readPages(filter, limit)
          expect(entries.map((entry) => entry.requestId)).toEqual(expected.map((record) => record.requestId))
        },
      ),
      { numRuns: 25 },
    )
  })

  test('shows outcomes without bodies', async () => {
    const [newest] = await readPages({}, 50)
    expect(newest).toEqual({
      requestId: expect.stringMatching(/^req_/),
      apiKeyId: actor.keyId,
      batchId: null,
      operation: 'chat',
      model: expect.stringMatching(/large|small/),
      deployment: 'dep_1',
      at: addMs(records[0]?.at ?? ledger.clock.now(), 29 * STEP_MS),
      status: 200,
      outcome: expect.any(String),
      reason: null,
      streamed: false,
      inputUnits: 10n,
      cachedUnits: 4n,
      outputUnits: 20n,
      cost: 0n,
      firstByteMs: 13,
      totalMs: 80,
      traceId: '0123456789abcdef0123456789abcdef',
    })
  })
})

test('only its owner can read a request; bodies are null if not stored', async () => {
  const requestId = records[0]?.requestId ?? ''
  expect(await readRequest(ledger.app, actor, { requestId })).toMatchObject({
    ok: true,
    value: { requestId, requestBody: null, responseBody: null },
  })
  expect(await readRequest(ledger.app, other, { requestId })).toMatchObject({ ok: false, reason: 'request_not_found' })
})
