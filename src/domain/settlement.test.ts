import fc from 'fast-check'
import { expect, test } from 'vitest'
import { inferenceRecord } from '../../test/harness/ended-request.ts'
import { DAY_MS, formatDay, instantOf } from '../base/instant.ts'
import { nanoUsdOf, zeroUsd } from '../base/money.ts'
import type { InferenceRecord } from './inference-record.ts'
import { rowsOf } from './row-bytes.ts'
import { readRecord, recordsOf, SettlementBatch, settleRecords, type Settlement } from './settlement.ts'

/** With what separates fields and lines, and what stands for null. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.constantFrom('\\N', '\\', '\t', '\n', '\r', '\\t', '\\\\n', 'naïve “text”', ''),
)
const perhaps = fc.option(text)
const few = fc.constantFrom('a', 'b')
const count = fc.nat(1_000)

const request = fc
  .record({
    accountId: few,
    apiKeyId: few,
    holdKey: fc.option(few),
    operation: fc.constantFrom('chat', 'image'),
    model: fc.oneof(few, text),
    deployment: perhaps,
    at: fc.nat(3 * DAY_MS).map((ms) => instantOf(Date.UTC(2026, 0, 30) + ms)),
    status: fc.constantFrom(200, 499, 503),
    outcome: fc.constantFrom('answered' as const, 'cut' as const, 'broken' as const, 'failed' as const),
    reason: perhaps,
    streamed: fc.boolean(),
    inputTokens: count,
    cachedTokens: count,
    outputTokens: count,
    pixelSteps: count,
    characters: count,
    soundMs: count,
    cost: fc.bigInt(0n, 10n ** 18n).map(nanoUsdOf),
    firstByteMs: fc.option(fc.double({ min: 0, max: 1e5, noNaN: true })),
    totalMs: fc.double({ min: 0, max: 1e5, noNaN: true }),
    traceId: text,
    requestBody: perhaps,
    responseBody: perhaps,
  })
  .map(({ inputTokens, cachedTokens, outputTokens, pixelSteps, characters, soundMs, ...rest }) => ({
    ...rest,
    units: { inputTokens, cachedTokens, outputTokens, pixelSteps, characters, soundMs },
  }))
const requests = fc
  .array(request, { maxLength: 20 })
  .map((all): InferenceRecord[] => all.map((one, n) => inferenceRecord({ ...one, requestId: `req_${100 + n}` })))

/** The stored form has whole milliseconds, and one kind of units each way. */
function asStored(record: InferenceRecord): InferenceRecord {
  const { inputTokens, characters, soundMs, outputTokens, pixelSteps } = record.units
  return {
    ...record,
    units: {
      ...record.units,
      inputTokens: inputTokens + characters + soundMs,
      outputTokens: outputTokens + pixelSteps,
      characters: 0,
      soundMs: 0,
      pixelSteps: 0,
    },
    firstByteMs: record.firstByteMs === null ? null : Math.round(record.firstByteMs),
    totalMs: Math.round(record.totalMs),
  }
}

function collect(records: readonly InferenceRecord[]): { lines: string[]; settlement: Settlement } {
  const batch = new SettlementBatch()
  return { lines: records.map((record) => batch.add(record)), settlement: batch.settlement }
}

test('a line of the journal says all of a request', () => {
  fc.assert(
    fc.property(requests, (records) => {
      const { lines } = collect(records)
      expect(lines.filter((line) => /[\n\r]/.test(line))).toEqual([])
      expect(lines.map(readRecord)).toEqual(records.map(asStored))
    }),
  )
})

test('a batch gives its requests back, whatever they contain', () => {
  fc.assert(
    fc.property(requests, (records) => {
      const { settlement } = collect(records)
      expect(recordsOf(settlement)).toEqual(records.map(asStored))
      expect(rowsOf(settlement.rows).map((row) => row.split('\t').length)).toEqual(records.map(() => 18))
    }),
  )
})

test('a batch knows the cost of its requests while it grows', () => {
  fc.assert(
    fc.property(requests, (records) => {
      const batch = new SettlementBatch()
      for (const [place, record] of records.entries()) {
        batch.add(record)
        if (place % 3 !== 0) continue
        const { requestId, accountId, cost } = records[place >> 1] ?? record
        expect(batch.costOf(requestId)).toEqual({ accountId, cost })
      }
      expect(batch.costOf('req_none')).toBeUndefined()
    }),
  )
})

test('the sums of a batch are those of its requests', () => {
  fc.assert(
    fc.property(requests, (records) => {
      const { days, dues } = collect(records).settlement
      const total = (of: readonly InferenceRecord[]): bigint => of.reduce((sum, { cost }) => sum + cost, 0n)
      for (const { account, day, api_key, model, ...sums } of days.values()) {
        const same = records.filter(
          (one) => [one.accountId, one.apiKeyId, one.model].join() === [account, api_key, model].join(),
        )
        const then = same.filter((one) => formatDay(one.at) === day)
        expect([sums.requests, sums.nano]).toEqual([then.length, total(then)])
        expect(sums.cached).toBe(then.reduce((sum, { units }) => sum + units.cachedTokens, 0))
      }
      for (const { hold, account, api_key, model, ...due } of dues.values()) {
        const paid = records.filter(
          (one) =>
            one.holdKey === hold &&
            one.accountId === account &&
            one.apiKeyId === api_key &&
            one.model === model &&
            one.cost > 0n,
        )
        expect([due.requests, due.nano, due.first]).toEqual([paid.length, total(paid), paid[0]?.requestId])
      }
      expect([...days.values()].reduce((sum, { requests: some }) => sum + some, 0)).toBe(records.length)
      expect([...dues.values()].reduce((sum, { nano }) => sum + nano, 0n)).toBe(total(records))
    }),
  )
})

test('what a journal repeats is settled once, in the order of the ids', async () => {
  const records = ['c', 'a', 'b', 'a'].map((requestId) => inferenceRecord({ requestId, cost: zeroUsd }))
  const settled: InferenceRecord[] = []
  await settleRecords({ settle: async (settlement) => void settled.push(...recordsOf(settlement)) }, records)
  expect(settled.map(({ requestId }) => requestId)).toEqual(['a', 'b', 'c'])
})

test('no other text is taken for a request', () => {
  const line = collect([inferenceRecord({ requestId: 'a' })]).lines[0] ?? ''
  for (const wrong of ['', '{}', line.slice(0, -40), `${line}\tmore`, line.replace('2026-01-01', '2026-02-31')]) {
    expect(readRecord(wrong)).toBeUndefined()
  }
})
