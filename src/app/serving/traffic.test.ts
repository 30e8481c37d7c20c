/** Every minute is listed, sums equal the log, and only the requested minutes count. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openAccount } from '../../../test/harness/ledger.ts'
import { openPurseLedger, type PurseLedger } from '../../../test/harness/purse-ledger.ts'
import { addMs, instantOf, MINUTE_MS, SECOND_MS, type Instant } from '../../base/instant.ts'
import { nanoUsdOf, sumUsd, usd, zeroUsd } from '../../base/money.ts'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import { readTraffic } from './traffic.ts'
import { settleRecords } from '../../domain/settlement.ts'

const MINUTES = 5
const chat = { inputTokens: 100, cachedTokens: 30, outputTokens: 7, pixelSteps: 0, characters: 0, soundMs: 0 }
const spoken = { inputTokens: 0, cachedTokens: 0, outputTokens: 0, pixelSteps: 0, characters: 900, soundMs: 0 }
/** Half a minute into the current one. */
const now = instantOf(Date.UTC(2026, 0, 1, 12, 0, 30))
const first = instantOf(Date.UTC(2026, 0, 1, 11, 56))

let ledger: PurseLedger

beforeAll(async () => {
  ledger = await openPurseLedger()
  ledger.clock.advance(now - ledger.clock.now())
  const treasury = await ledger.startTreasury()
  const accounts = [await openAccount(ledger, 'one', usd('1')), await openAccount(ledger, 'two', usd('1'))] as const
  const holds = [
    await ledger.fill(treasury, accounts[0], usd('0.1')),
    await ledger.fill(treasury, accounts[1], usd('0.1')),
  ]
  const records: InferenceRecord[] = []
  const record = (at: Instant, more: Partial<InferenceRecord> = {}): void => {
    const n = records.length
    const its = { units: chat, at, totalMs: n + 1, firstByteMs: null, ...more }
    records.push(ledger.recordOf(accounts[n % 2 === 0 ? 0 : 1], holds[n % 2] ?? null, nanoUsdOf(11n), its))
  }
  // The last instant before the first minute, and its first instant.
  record(addMs(first, -1), { model: 'before' })
  record(first, { model: 'a', firstByteMs: 5 })
  // Minute 1 stays empty. In minute 2: 20 of one model, the slowest of which failed.
  for (let n = 1; n <= 20; n += 1)
    record(addMs(first, 2 * MINUTE_MS + n), { model: 'b', totalMs: n * 10, firstByteMs: n })
  record(addMs(first, 3 * MINUTE_MS - 1), {
    model: 'b',
    outcome: 'failed',
    status: 503,
    totalMs: 99_999,
    cost: zeroUsd,
  })
  record(addMs(first, 3 * MINUTE_MS), { model: 'b', outcome: 'cut', totalMs: 88_888 })
  record(addMs(first, 3 * MINUTE_MS), { model: 'c', outcome: 'broken', totalMs: 77_777 })
  record(addMs(first, 4 * MINUTE_MS + 29 * SECOND_MS), { model: 'voice', operation: 'speech', units: spoken })
  await settleRecords(treasury, records)
})
afterAll(() => ledger.close())

test('lists each minute with the requests that ended in it, also empty ones', async () => {
  const { from, to, minutes } = await readTraffic(ledger.app, MINUTES)
  expect([from, to]).toEqual([first, now])
  const of = (n: number, requests: number, failed: number, paid: number, tokens = requests) => ({
    minute: addMs(first, n * MINUTE_MS),
    requests,
    failed,
    inputTokens: BigInt(100 * tokens),
    outputTokens: BigInt(7 * tokens),
    cost: BigInt(11 * paid),
  })
  // Characters of speech are not tokens.
  expect(minutes).toEqual([of(0, 1, 0, 1), of(1, 0, 0, 0), of(2, 21, 1, 20), of(3, 2, 1, 2), of(4, 1, 0, 1, 0)])
})

test('lists each model with totals and latencies of answered requests', async () => {
  const { minutes, models } = await readTraffic(ledger.app, MINUTES)
  expect(models.map(({ model, requests, failed }) => [model, requests, failed])).toEqual([
    ['b', 22, 1],
    ['a', 1, 0],
    ['c', 1, 1],
    ['voice', 1, 0],
  ])
  // Of 10, 20 … 200: the tenth and the nineteenth.
  expect(models[0]).toMatchObject({ totalMs: [100, 190], firstByteMs: [10, 19] })
  expect(models[1]).toMatchObject({ totalMs: [2, 2], firstByteMs: [5, 5] })
  expect(models[2]).toMatchObject({ totalMs: null, firstByteMs: null })
  expect(models[3]).toMatchObject({ firstByteMs: null })
  expect(sumUsd(models.map((one) => one.cost))).toBe(sumUsd(minutes.map((one) => one.cost)))
})

test('one minute is the current one', async () => {
  const { minutes, models } = await readTraffic(ledger.app, 1)
  expect(minutes).toMatchObject([{ minute: addMs(first, 4 * MINUTE_MS), requests: 1 }])
  expect(models).toMatchObject([{ model: 'voice' }])
})
