/** Old inference data is deleted in batches; a gateway is deleted only when it holds no money. */
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openAccount, openTestLedger, type TestLedger } from '../../test/harness/ledger.ts'
import { inferenceRecord } from '../../test/harness/ended-request.ts'
import type { Actor } from '../app/app.ts'
import { makeTreasury } from '../app/money/treasury.ts'
import { addMs, DAY_MS, MINUTE_MS, type Instant } from '../base/instant.ts'
import { nanoUsdOf, usd } from '../base/money.ts'
import { transact } from '../store/platform/database.ts'
import { releaseExpiredHolds } from '../store/ledger/ledger.ts'
import { ledgerChecks, runCheck } from '../store/ledger/ledger-verify.ts'
import { cleanUpGateways } from './gateways.ts'
import { settleRecords } from '../domain/settlement.ts'

let ledger: TestLedger
let actor: Actor
beforeAll(async () => {
  ledger = await openTestLedger()
  actor = await openAccount(ledger, 'old', usd('10'))
})
afterAll(() => ledger.close())

const pass = () => cleanUpGateways(ledger.app).run(new AbortController().signal)
const treasuryOf = (gatewayId: string) => makeTreasury({ database: ledger.database, clock: ledger.clock, gatewayId })

test('deletes request bodies after a week, in batches', async () => {
  const start = ledger.clock.now()
  let count = 0
  const record = (at: Instant) => {
    count += 1
    const texts = { requestBody: 'v1.sealed', responseBody: 'v1.sealed' }
    const requestId = `req_${count.toString().padStart(5, '0')}`
    return inferenceRecord({ requestId, accountId: actor.accountId, apiKeyId: actor.keyId, at, ...texts })
  }
  const many = Array.from({ length: 1_200 }, () => record(start))
  const late = [record(addMs(start, 23 * DAY_MS)), record(addMs(start, 23 * DAY_MS + 1))]
  await settleRecords(treasuryOf('gw1'), [...many, ...late])
  const left = async () => {
    const { rows } = await sql<{ logged: bigint; texts: bigint }>`
      select (select count(*) from request) as logged, count(request) + count(response) as texts from request_body`.execute(
      ledger.database.db,
    )
    return rows[0]
  }

  ledger.clock.set(addMs(start, 7 * DAY_MS))
  expect(await pass()).toBe(false)
  expect(await left()).toEqual({ logged: 1_202n, texts: 2_404n })
  ledger.clock.set(addMs(start, 7 * DAY_MS + 1))
  expect(await pass()).toBe(true)
  expect(await pass()).toBe(false)
  expect(await left()).toEqual({ logged: 1_202n, texts: 4n })
})

test('deletes an absent gateway with its empty purses, but not one with money', async () => {
  const gateways = async () => {
    const rows = await ledger.database.db.selectFrom('gateway').select('id').orderBy('id').execute()
    return rows.map((row) => row.id)
  }
  const owner = { accountId: actor.accountId, apiKeyId: null }
  await sql`delete from gateway`.execute(ledger.database.db)
  const [rich, poor, bare] = ['rich', 'poor', 'bare'].map(treasuryOf)
  for (const treasury of [rich, poor, bare]) await treasury?.registerGateway()
  await poor?.topUp(owner, { maximum: usd('1'), minimum: usd('1') })
  await poor?.releaseOwnPurses()
  await rich?.topUp(owner, { maximum: usd('1'), minimum: usd('1') })
  ledger.clock.advance(7 * DAY_MS)
  await pass()
  expect(await gateways()).toEqual(['bare', 'poor', 'rich'])
  ledger.clock.advance(1)
  await pass()
  expect(await gateways()).toEqual(['rich'])
  const holds = await sql<{ key: string }>`select key from hold where key like 'purse:%'`.execute(ledger.database.db)
  expect(holds.rows).toEqual([{ key: `purse:rich:${actor.accountId}` }])

  await transact(ledger.database, (tx) => releaseExpiredHolds(tx, 10))
  await pass()
  expect(await gateways()).toEqual([])
  // It comes back after all, with requests that are not settled.
  ledger.clock.advance(MINUTE_MS)
  const holdKey = `purse:rich:${actor.accountId}`
  const ids = { requestId: 'req_back', accountId: actor.accountId, apiKeyId: actor.keyId, holdKey }
  if (rich === undefined) throw new Error('no treasury')
  await settleRecords(rich, [inferenceRecord({ ...ids, cost: nanoUsdOf(777n), at: ledger.clock.now() })])
  expect(await gateways()).toEqual(['rich'])
  const findings = []
  for (const check of ledgerChecks) findings.push(...(await runCheck(ledger.database.db, check, 10)).findings)
  expect(findings).toEqual([])
})
