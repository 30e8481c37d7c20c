/** Old requests are deleted by partition; their costs stay in every sum, and nothing counts twice. */
import path from 'node:path'
import { sql } from 'kysely'
import { afterEach, expect, test } from 'vitest'
import { emptyDatabase } from '../../test/harness/database.ts'
import { openAccount, openTestLedger, type TestLedger } from '../../test/harness/ledger.ts'
import { inferenceRecord } from '../../test/harness/ended-request.ts'
import { removeFolder } from '../../test/harness/leftover.ts'
import { olderSchema } from '../../test/harness/older-schema.ts'
import type { Actor } from '../app/app.ts'
import { verifyLedger } from '../app/money/ledger-verify.ts'
import { makeTreasury } from '../app/money/treasury.ts'
import { addMs, DAY_MS, formatInstant, instantOf, toDate, type Instant } from '../base/instant.ts'
import { nanoUsdOf, usd, zeroUsd } from '../base/money.ts'
import type { InferenceRecord } from '../domain/inference-record.ts'
import { readRequestCosts, sumUsage, type UsageGrouping } from '../store/ledger/billing.ts'
import { countMonthRequests } from '../store/ledger/invoice.ts'
import { migrate } from '../store/platform/migrate.ts'
import { findLoggedRequest } from '../store/request/request-log.ts'
import { applyRetention } from './retention.ts'
import { settleRecords } from '../domain/settlement.ts'

const START = instantOf(Date.UTC(2026, 0, 15, 12))
const retention = { requestDays: 400, responseDays: 30 }

const closing: Array<() => Promise<unknown>> = []
afterEach(async () => {
  for (const step of closing.splice(0).toReversed()) await step()
})

async function open(): Promise<{ ledger: TestLedger; actor: Actor }> {
  const ledger = await openTestLedger(START)
  closing.push(() => ledger.close())
  return { ledger, actor: await openAccount(ledger, 'keeps', usd('10')) }
}

/** Runs passes until nothing is left to do; returns the dropped partitions. */
async function pass(ledger: TestLedger): Promise<string[]> {
  const dropped: string[] = []
  const loop = applyRetention(ledger.app, retention, (name) => dropped.push(name))
  while (await loop.run(new AbortController().signal));
  return dropped
}

async function settle(ledger: TestLedger, actor: Actor, records: readonly InferenceRecord[]): Promise<void> {
  const treasury = makeTreasury({ database: ledger.database, clock: ledger.clock, gatewayId: 'gw' })
  const owner = { accountId: actor.accountId, apiKeyId: null }
  const lent = await treasury.topUp(owner, { maximum: usd('1'), minimum: usd('0.001') })
  if (lent.kind !== 'granted') throw new Error(lent.kind)
  await settleRecords(
    treasury,
    records.map((record) => ({ ...record, holdKey: lent.holdKey })),
  )
  await treasury.releaseOwnPurses()
}

let requests = 0
function request(actor: Actor, at: Instant, more: Partial<InferenceRecord> = {}): InferenceRecord {
  requests += 1
  const { accountId, keyId: apiKeyId } = actor
  return inferenceRecord({ requestId: `req_${requests}`, accountId, apiKeyId, at, cost: nanoUsdOf(700n), ...more })
}

async function usage(ledger: TestLedger, actor: Actor) {
  const all = { from: instantOf(0), until: addMs(ledger.clock.now(), DAY_MS), limit: 1_000 }
  const sums: Record<string, unknown> = {}
  for (const by of ['day', 'model', 'key'] as const satisfies UsageGrouping[])
    sums[by] = await sumUsage(ledger.database.db, actor.accountId, { ...all, by })
  return sums
}

const faults = async (ledger: TestLedger) => {
  const verdict = await verifyLedger(ledger.app)
  return verdict.ok ? verdict.value.findings : verdict
}

test('keeps single costs for their retention, and their sums forever', async () => {
  const { ledger, actor } = await open()
  await pass(ledger)
  const failed = {
    units: { inputTokens: 0, cachedTokens: 0, outputTokens: 0, pixelSteps: 0, characters: 0, soundMs: 0 },
    cost: zeroUsd,
  }
  const old = [request(actor, START), request(actor, addMs(START, 1)), request(actor, addMs(START, 2), failed)]
  const other = request(actor, addMs(START, DAY_MS), { model: 'model-b', cost: nanoUsdOf(5n) })
  await settle(ledger, actor, [...old, other])
  const month = { from: instantOf(Date.UTC(2026, 0, 1)), until: instantOf(Date.UTC(2026, 1, 1)) }
  const before = {
    usage: await usage(ledger, actor),
    invoice: await countMonthRequests(ledger.database.db, actor.accountId, month),
  }
  expect(before.invoice).toEqual(
    new Map([
      ['model-a', 2],
      ['model-b', 1],
    ]),
  )

  // 400 days after the last instant of the week, and not before.
  ledger.clock.set(instantOf(Date.UTC(2026, 0, 19) + 400 * DAY_MS - 1))
  await settle(ledger, actor, [request(actor, ledger.clock.now())])
  const usageBefore = await usage(ledger, actor)
  expect((await pass(ledger)).filter((name) => name.startsWith('request_'))).toEqual([])
  const ids = [...old, other].map((one) => one.requestId)
  expect(await readRequestCosts(ledger.database.db, actor.accountId, ids)).toHaveLength(4)
  ledger.clock.set(addMs(ledger.clock.now(), 1))
  expect((await pass(ledger)).filter((name) => name.startsWith('request_'))).toEqual(['request_20260112'])

  expect(await readRequestCosts(ledger.database.db, actor.accountId, ids)).toEqual([])
  expect(await usage(ledger, actor)).toEqual(usageBefore)
  expect(await countMonthRequests(ledger.database.db, actor.accountId, month)).toEqual(before.invoice)
  const days = await ledger.database.db
    .selectFrom('request_day')
    .selectAll()
    .where('day', '<', '2026-02-01')
    .orderBy('day')
    .execute()
  expect(
    days.map(({ day, model, requests, answered, cost_nano }) => [day, model, requests, answered, cost_nano]),
  ).toEqual([
    ['2026-01-15', 'model-a', 3n, 2n, 1_400n],
    ['2026-01-16', 'model-b', 1n, 1n, 5n],
  ])
  expect(await faults(ledger)).toEqual([])
  expect(await pass(ledger)).toEqual([])
})

test('rejects a request from a summed-up day, so that nothing counts twice', async () => {
  const { ledger, actor } = await open()
  await pass(ledger)
  const one = request(actor, START)
  await settle(ledger, actor, [one])
  await settle(ledger, actor, [one])
  const before = await usage(ledger, actor)
  ledger.clock.set(instantOf(Date.UTC(2026, 1, 1) + 400 * DAY_MS))
  await pass(ledger)
  await settle(ledger, actor, [one, request(actor, ledger.clock.now())])
  const { total } = (await usage(ledger, actor))['model'] as { total: bigint }
  expect(total).toBe((before['model'] as { total: bigint }).total + 700n)
  expect(await faults(ledger)).toEqual([])
})

test('requests without a partition are moved when there is one, and deleted with those of their time', async () => {
  const { ledger, actor } = await open()
  const early = request(actor, addMs(START, 3 * DAY_MS))
  const never = request(actor, addMs(START, 400 * DAY_MS))
  await settle(ledger, actor, [early, never])
  const where = async () =>
    (
      await sql<{ name: string }>`select tableoid::regclass::text as name from request order by at`.execute(
        ledger.database.db,
      )
    ).rows.map((row) => row.name)
  expect(await where()).toEqual(['request_default', 'request_default'])
  await pass(ledger)
  expect(await where()).toEqual(['request_20260112', 'request_default'])
  expect(await findLoggedRequest(ledger.database.db, actor.accountId, early.requestId)).toMatchObject({
    cost_nano: 700n,
  })
  ledger.clock.set(instantOf(Date.UTC(2026, 0, 19) + 400 * DAY_MS))
  expect(await pass(ledger)).toContain('request_20260112')
  expect(await where()).toEqual(['request_default'])
  ledger.clock.set(instantOf(Date.UTC(2027, 2, 1) + 400 * DAY_MS))
  await pass(ledger)
  expect(await where()).toEqual([])
  expect(await faults(ledger)).toEqual([])
})

/** As servers of the previous version do it. */
async function settleAtOnce(ledger: TestLedger, actor: Actor, records: readonly InferenceRecord[]): Promise<void> {
  const treasury = makeTreasury({ database: ledger.database, clock: ledger.clock, gatewayId: 'gw' })
  const owner = { accountId: actor.accountId, apiKeyId: null }
  const lent = await treasury.topUp(owner, { maximum: usd('1'), minimum: usd('0.001') })
  if (lent.kind !== 'granted') throw new Error(lent.kind)
  const rows = records.map((record) => ({
    ...record,
    holdKey: lent.holdKey,
    at: formatInstant(record.at),
    inputUnits: record.units.inputTokens,
    cachedUnits: record.units.cachedTokens,
    outputUnits: record.units.outputTokens,
    cost: record.cost.toString(),
    firstByteMs: 12,
    totalMs: 80,
  }))
  await sql`select * from settle_requests('gw', ${toDate(ledger.clock.now())}, ${toDate(lent.expiresAt)},
    ${JSON.stringify(rows)}::jsonb)`.execute(ledger.database.db)
  await treasury.releaseOwnPurses()
}

test('migrates a filled database, beside servers of the previous version, and each request counts once', async () => {
  const schema = await olderSchema('0044')
  closing.push(() => removeFolder(schema))
  const ledger = await openTestLedger(START, await emptyDatabase())
  closing.push(() => ledger.close())
  await migrate(ledger.database.pool, schema)
  const actor = await openAccount(ledger, 'old', usd('10'))
  const bodies = { requestBody: 'v1.question', responseBody: 'v1.answer' }
  const records = Array.from({ length: 300 }, (_, n) => request(actor, addMs(START, (n - 200) * DAY_MS), bodies))
  await settleAtOnce(ledger, actor, records)

  await migrate(ledger.database.pool, path.resolve('schema'))
  await settle(ledger, actor, records)
  const [first, second] = [request(actor, addMs(START, 20 * DAY_MS)), request(actor, addMs(START, 21 * DAY_MS), bodies)]
  await settleAtOnce(ledger, actor, [...records, first])
  await settle(ledger, actor, [first, second])
  await settleAtOnce(ledger, actor, [first, second])
  ledger.clock.set(addMs(START, 100 * DAY_MS))
  const { total } = (await usage(ledger, actor))['day'] as { total: bigint }
  expect(total).toBe(302n * 700n)
  const { db } = ledger.database
  for (const { requestId } of [...records.slice(0, 1), second])
    expect(await findLoggedRequest(db, actor.accountId, requestId)).toMatchObject({ response_body: 'v1.answer' })
  expect(await faults(ledger)).toEqual([])
})
