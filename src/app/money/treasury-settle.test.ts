/** Each request is billed once, whatever happened to its purse, and the ledger stays exact. */
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openAccount } from '../../../test/harness/ledger.ts'
import { openPurseLedger, sharedPurse, type PurseLedger } from '../../../test/harness/purse-ledger.ts'
import { addMs, DAY_MS, MINUTE_MS, startOfDay } from '../../base/instant.ts'
import { nanoUsdOf, usd, zeroUsd } from '../../base/money.ts'
import { noUnits } from '../../domain/inference.ts'
import { readRequestCosts, sumUsage } from '../../store/ledger/billing.ts'
import { openDatabase, transact } from '../../store/platform/database.ts'
import { countMonthRequests } from '../../store/ledger/invoice.ts'
import { lockAvailable, releaseExpiredHolds } from '../../store/ledger/ledger.ts'
import type { Actor } from '../app.ts'
import { settleRecords } from '../../domain/settlement.ts'

let ledger: PurseLedger
beforeAll(async () => {
  ledger = await openPurseLedger()
})
afterAll(() => ledger.close())

async function countDeadlocks(url: string): Promise<string | undefined> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const counted = await client.query<{ deadlocks: string }>(
    'select deadlocks from pg_stat_database where datname = current_database()',
  )
  await client.end()
  return counted.rows[0]?.deadlocks
}

describe('settling', () => {
  test('writes costs, log and charges by key and model, each request once even if sent again', async () => {
    const actor = await openAccount(ledger, 'once', usd('10'))
    const treasury = await ledger.startTreasury()
    const holdKey = await ledger.fill(treasury, actor, usd('2'))
    const records = [
      ledger.recordOf(actor, holdKey, usd('0.25'), { model: 'large' }),
      ledger.recordOf(actor, holdKey, usd('0.5'), { model: 'large' }),
      ledger.recordOf(actor, holdKey, usd('0.125'), { model: 'small' }),
      ledger.recordOf(actor, null, zeroUsd, { outcome: 'failed', status: 503, reason: 'engine_failed' }),
    ]
    await settleRecords(treasury, [...records, ...records])
    await settleRecords(treasury, records.slice(1))
    // Several at once, and in another order.
    await Promise.all([1, 2, 3, 4].map((n) => settleRecords(treasury, n % 2 === 0 ? records : records.toReversed())))

    expect(await ledger.balances(actor)).toEqual({ available: usd('8'), held: usd('1.125'), earnings: 0n })
    const charges = await sql<{ model: string; memo: string; nano: bigint; api_key_id: string }>`
      select p.model, p.memo, p.api_key_id, t.amount_nano as nano from posting p join transfer t on t.posting_id = p.id
      where p.account_id = ${actor.accountId} and p.kind = 'charge' order by p.model`.execute(ledger.database.db)
    expect(charges.rows).toEqual([
      { model: 'large', memo: 'Inference, large, 2 requests', nano: usd('0.75'), api_key_id: actor.keyId },
      { model: 'small', memo: 'Inference, small, 1 request', nano: usd('0.125'), api_key_id: actor.keyId },
    ])
    const { rows } = await sql<{ spent: bigint; requests: bigint }>`
      select (select sum(spent_nano)::bigint from key_spend where api_key_id = ${actor.keyId}) as spent,
        (select count(*) from request where account_id = ${actor.accountId}) as requests`.execute(ledger.database.db)
    expect(rows[0]).toEqual({ spent: usd('0.875'), requests: 4n })
    expect(await ledger.findings()).toEqual([])
  })

  test('an expired purse is refilled from the balance, and the house bears the rest', async () => {
    const actor = await openAccount(ledger, 'expired', usd('1'))
    const treasury = await ledger.startTreasury()
    const holdKey = await ledger.fill(treasury, actor, usd('0.6'))
    const late = [ledger.recordOf(actor, holdKey, usd('0.2')), ledger.recordOf(actor, holdKey, usd('0.25'))]
    ledger.clock.advance(10 * MINUTE_MS)
    await transact(ledger.database, (tx) => releaseExpiredHolds(tx, 100))
    expect(await ledger.balances(actor)).toMatchObject({ available: usd('1'), held: 0n })
    expect(await ledger.audits('purse.expired', actor.accountId)).toMatchObject([
      { subject: holdKey, detail: { gateway: `${ledger.gatewayIds.at(-1)}`, amountUsd: '0.600000000' } },
    ])

    await settleRecords(treasury, [late[0] ?? ledger.recordOf(actor, null, zeroUsd)])
    expect(await ledger.balances(actor)).toMatchObject({ available: usd('0.8'), held: 0n })
    // Most of the money has been spent since.
    await ledger.fill(await ledger.startTreasury(), actor, usd('0.7'))
    await settleRecords(treasury, late)
    expect(await ledger.balances(actor)).toMatchObject({ available: 0n, held: usd('0.7') })
    const [overdrawn, before] = await ledger.audits('purse.overdrawn', actor.accountId)
    expect(before?.detail).toMatchObject({ missingUsd: '0.200000000', borneByTheHouseUsd: '0.000000000' })
    expect(overdrawn?.detail).toMatchObject({ missingUsd: '0.250000000', borneByTheHouseUsd: '0.150000000' })
    const statement = await sql<{ kind: string; reason: string | null }>`
      select kind, reason from posting where account_id = ${actor.accountId} and kind not in ('hold', 'release') order by id`.execute(
      ledger.database.db,
    )
    expect(statement.rows.map((line) => line.kind)).toEqual(['purchase', 'charge', 'adjustment', 'charge'])
    expect(statement.rows[2]?.reason).toMatch(/the house bears/)
    expect(await ledger.findings()).toEqual([])
  })

  test('works without purse and hold, as after a restored backup', async () => {
    const actor = await openAccount(ledger, 'restored', usd('1'))
    const treasury = await ledger.startTreasury()
    const holds = [`purse:lost:${actor.accountId}`, `purse:lost:${actor.accountId}:${actor.keyId}`]
    await settleRecords(
      treasury,
      holds.map((holdKey) => ledger.recordOf(actor, holdKey, usd('0.3'))),
    )
    expect(await ledger.balances(actor)).toMatchObject({ available: usd('0.4'), held: 0n })
    const purses = await ledger.database.db.selectFrom('purse').selectAll().where('hold_key', 'in', holds).execute()
    expect(new Set(purses.map((purse) => purse.api_key_id))).toEqual(new Set([actor.keyId, null]))
    expect(await ledger.findings()).toEqual([])
  })

  test('audits a rejected record and settles the others', async () => {
    const actor = await openAccount(ledger, 'refused', usd('1'))
    const treasury = await ledger.startTreasury()
    const holdKey = await ledger.fill(treasury, actor, usd('1'))
    const good = Array.from({ length: 9 }, () => ledger.recordOf(actor, holdKey, usd('0.01')))
    const stranger = ledger.recordOf({ ...actor, accountId: 'acc_gone' }, holdKey, usd('0.01'), {
      requestBody: 'v1.secret',
    })
    const thief = ledger.recordOf(await openAccount(ledger, 'thief', usd('1')), holdKey, usd('0.01'))
    const unpaid = ledger.recordOf(actor, null, usd('0.01'))
    const astray = ledger.recordOf(actor, 'rental:1', usd('0.01'))
    await settleRecords(treasury, [...good.slice(0, 4), stranger, thief, unpaid, astray, ...good.slice(4)])
    expect(await ledger.balances(actor)).toMatchObject({ held: usd('0.91') })
    const audited = await ledger.audits('request.not_settled')
    expect(new Set(audited.map((row) => row.subject))).toEqual(
      new Set([stranger, thief, unpaid, astray].map((record) => record.requestId)),
    )
    expect(JSON.stringify(audited.map((row) => row.detail))).not.toContain('v1.secret')
    expect(await ledger.findings()).toEqual([])
  })

  test('runs in parallel with other postings without a deadlock', async () => {
    const idler = await openAccount(ledger, 'idler')
    const names = Array.from({ length: 12 }, (_, n) => `parallel${n}`)
    const actors: Actor[] = []
    for (const name of names) actors.push(await openAccount(ledger, name, usd('1')))
    // Connections of its own: PostgreSQL counts deadlocks when they end.
    const url = ledger.database.pool.options.connectionString ?? ''
    const database = openDatabase({ url, clock: ledger.clock, poolSize: 16 })
    const treasuries = await Promise.all([1, 2, 3].map(() => ledger.startTreasury(database)))
    const holdKeys = await Promise.all(
      treasuries.map((treasury) => Promise.all(actors.map((actor) => ledger.fill(treasury, actor, usd('0.2'))))),
    )
    const ids = actors.map((actor) => actor.accountId)
    const work: Array<Promise<unknown>> = []
    // The same requests twice concurrently, in another order: the second waits for the first.
    const [one, second] = [await ledger.startTreasury(database), await ledger.startTreasury(database)]
    for (let round = 0; round < 3; round += 1) {
      const same = Array.from({ length: 1_000 }, () => ledger.recordOf(idler, null, zeroUsd))
      await Promise.all([settleRecords(one, same), settleRecords(second, same.toReversed())])
    }
    for (let round = 0; round < 8; round += 1) {
      for (const [g, treasury] of treasuries.entries()) {
        const keys = holdKeys[g] ?? []
        const records = actors.map((actor, n) => ledger.recordOf(actor, keys[n] ?? null, usd('0.01')))
        work.push(settleRecords(treasury, round % 2 === 0 ? records : records.toReversed()))
        work.push(treasury.renew(round % 2 === 0 ? keys : keys.toReversed()))
        // By their names the tenth account comes before the third.
        work.push(transact(database, (tx) => lockAvailable(tx, [ids[2] ?? '', ids[10] ?? ''])))
        const actor = actors[(round + g) % actors.length]
        const key = keys[(round + g) % actors.length]
        if (actor === undefined || key === undefined) continue
        work.push(treasury.giveBack(key, usd('0.001')))
        work.push(treasury.topUp(sharedPurse(actor), { maximum: usd('0.002'), minimum: usd('0.000001') }))
      }
    }
    await Promise.all(work)
    await database.close()
    expect(await countDeadlocks(url)).toBe('0')
    for (const actor of actors) {
      const { available, held } = await ledger.balances(actor)
      expect(available + held).toBe(usd('0.76'))
    }
    expect(await ledger.findings()).toEqual([])
  })

  test('a failed request has cost zero and does not count as usage', async () => {
    const actor = await openAccount(ledger, 'counted', usd('1'))
    const treasury = await ledger.startTreasury()
    const holdKey = await ledger.fill(treasury, actor, usd('0.5'))
    const answered = ledger.recordOf(actor, holdKey, usd('0.1'))
    const failed = ledger.recordOf(actor, null, zeroUsd, { outcome: 'failed', units: noUnits })
    await settleRecords(treasury, [answered, failed])
    const { db } = ledger.database
    const costs = await readRequestCosts(db, actor.accountId, [answered.requestId, failed.requestId])
    expect(new Map(costs.map((one) => [one.requestId, one.cost]))).toEqual(
      new Map([
        [answered.requestId, usd('0.1')],
        [failed.requestId, 0n],
      ]),
    )
    const now = ledger.clock.now()
    const span = { from: startOfDay(now), until: addMs(startOfDay(now), DAY_MS) }
    expect(await sumUsage(db, actor.accountId, { ...span, by: 'model', limit: 10 })).toEqual({
      total: usd('0.1'),
      groups: [{ group: 'model-a', cost: usd('0.1'), requests: 1 }],
    })
    expect(await countMonthRequests(db, actor.accountId, span)).toEqual(new Map([['model-a', 1]]))
  })

  test('settles many in bounded transactions', async () => {
    const actor = await openAccount(ledger, 'many', usd('10'))
    const treasury = await ledger.startTreasury()
    const holdKey = await ledger.fill(treasury, actor, usd('5'))
    const records = Array.from({ length: 8_100 }, () => ledger.recordOf(actor, holdKey, nanoUsdOf(1_000n)))
    await settleRecords(treasury, records)
    const { rows } = await sql<{ charges: bigint }>`
      select count(*) as charges from posting where account_id = ${actor.accountId} and kind = 'charge'`.execute(
      ledger.database.db,
    )
    expect(rows[0]?.charges).toBe(2n)
    expect((await ledger.balances(actor)).held).toBe(nanoUsdOf(usd('5') - 8_100_000n))
  })
})
