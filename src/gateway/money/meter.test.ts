/** With a real database and disk: limits are hard, and each request reaches the ledger soon, once and encrypted. */
import * as fs from 'node:fs'
import path from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openAccount } from '../../../test/harness/ledger.ts'
import { callOf, costsOf, finish, reserve, serve, startGateway } from '../../../test/harness/metered-gateway.ts'
import { openPurseLedger, purseOfKey, sharedPurse, type PurseLedger } from '../../../test/harness/purse-ledger.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { listRequests, readRequest } from '../../app/serving/request-log.ts'
import { MINUTE_MS, SECOND_MS } from '../../base/instant.ts'
import { usd, zeroUsd } from '../../base/money.ts'
import { listAudit } from '../../store/platform/audit.ts'
import { transact } from '../../store/platform/database.ts'
import { releaseExpiredHolds } from '../../store/ledger/ledger.ts'

let ledger: PurseLedger
beforeAll(async () => {
  ledger = await openPurseLedger()
})
afterAll(() => ledger.close())

describe('a request', () => {
  test('reserves, is recorded, is known until a pass settles it; the rest goes back when idle', async () => {
    const actor = await openAccount(ledger, 'whole', usd('1'))
    const { meter } = await startGateway(ledger)
    const id = await serve(ledger, meter, actor, usd('0.1'), usd('0.03'))
    expect(meter.costOf(id)).toEqual({ accountId: actor.accountId, cost: usd('0.03') })
    expect(await costsOf(ledger, actor, [id])).toEqual([])
    expect(meter.figures()).toMatchObject({ unsettled: 1, purses: 1, settled: 0 })

    await meter.pass()
    expect(await costsOf(ledger, actor, [id])).toEqual([{ requestId: id, cost: usd('0.03') }])
    expect(meter.costOf(id)).toBeUndefined()
    expect(meter.figures()).toMatchObject({ unsettled: 0, unsettledBytes: 0, settled: 1 })
    const { available, held } = await ledger.balances(actor)
    expect(available + held).toBe(usd('0.97'))
    expect(held).toBeGreaterThan(0n)

    ledger.clock.advance(31 * SECOND_MS)
    await meter.pass()
    expect(await ledger.balances(actor)).toMatchObject({ available: usd('0.97'), held: 0n })
    expect(meter.figures().purses).toBe(0)
    expect(await ledger.findings()).toEqual([])
  })

  test('never costs more than its reservation, and the cap is counted', async () => {
    const actor = await openAccount(ledger, 'capped', usd('1'))
    const { meter } = await startGateway(ledger)
    const id = await serve(ledger, meter, actor, usd('0.1'), usd('0.3'))
    expect(meter.costOf(id)?.cost).toBe(usd('0.1'))
    const free = await finish(meter, undefined, callOf(ledger, actor, usd('0.3'), { outcome: 'failed' }))
    expect(meter.costOf(free)?.cost).toBe(0n)
    expect(meter.figures().cappedCosts).toBe(2)
    await meter.pass()
    expect(await costsOf(ledger, actor, [id, free])).toHaveLength(2)
    const { available, held } = await ledger.balances(actor)
    expect(available + held).toBe(usd('0.9'))
  })

  test('leaves nothing behind when cancelled', async () => {
    const actor = await openAccount(ledger, 'cancelled', usd('1'))
    const { meter, dir } = await startGateway(ledger)
    meter.cancel(await reserve(meter, sharedPurse(actor), usd('0.9')))
    await reserve(meter, sharedPurse(actor), usd('0.9'))
    expect(meter.figures().unsettled).toBe(0)
    expect(fs.readdirSync(dir)).toEqual([])
  })

  test('is refused with a reason if the balance or the key’s limit does not cover it', async () => {
    const actor = await openAccount(ledger, 'poor', usd('0.5'))
    const { meter } = await startGateway(ledger)
    expect(await meter.reserve(sharedPurse(actor), usd('0.6'))).toMatchObject({
      kind: 'insufficient_balance',
      reason: 'insufficient_balance',
    })
    await ledger.limitKey(actor, { total: usd('0.2') })
    expect(await meter.reserve(purseOfKey(actor), usd('0.3'))).toMatchObject({
      kind: 'insufficient_balance',
      reason: 'key_spending_limit',
      message: expect.stringContaining('$0.30'),
    })
  })

  test('keeps its bodies encrypted, on disk and in the database, readable for its owner', async () => {
    const actor = await openAccount(ledger, 'bodies', usd('1'))
    const stranger = await openAccount(ledger, 'stranger')
    const { meter, dir } = await startGateway(ledger)
    const call = callOf(ledger, actor, usd('0.01'), { requestBody: 'my secret question', responseBody: 'its answer' })
    await finish(meter, await reserve(meter, sharedPurse(actor), usd('0.02')), call)
    await finish(
      meter,
      undefined,
      callOf(ledger, actor, zeroUsd, { outcome: 'failed', status: 503, reason: 'overloaded' }),
    )
    const written = fs.readdirSync(dir).map((name) => fs.readFileSync(path.join(dir, name), 'utf8'))
    expect(written.join('')).toContain(call.requestId)
    expect(written.join('')).not.toContain('secret question')
    await meter.pass()
    const row = await ledger.database.db
      .selectFrom('request_body')
      .selectAll()
      .where('request_id', '=', call.requestId)
      .executeTakeFirstOrThrow()
    expect(row.request).not.toContain('secret question')
    expect(await readRequest(ledger.app, actor, call)).toMatchObject({
      ok: true,
      value: {
        requestId: call.requestId,
        requestBody: 'my secret question',
        responseBody: 'its answer',
        cost: usd('0.01'),
        inputUnits: 10n,
        cachedUnits: 4n,
        outputUnits: 20n,
        totalMs: 80,
      },
    })
    expect(await readRequest(ledger.app, stranger, call)).toMatchObject({ ok: false, kind: 'not_found' })
    expect(await listRequests(ledger.app, actor, { filter: {}, limit: 10 })).toMatchObject({ value: { length: 2 } })
  })
})

describe('a purse', () => {
  test('is renewed during a long request', async () => {
    const actor = await openAccount(ledger, 'long', usd('1'))
    const { meter } = await startGateway(ledger)
    const reservation = await reserve(meter, sharedPurse(actor), usd('0.5'))
    for (let n = 0; n < 10; n += 1) {
      ledger.clock.advance(4 * MINUTE_MS)
      await meter.pass()
      await transact(ledger.database, (tx) => releaseExpiredHolds(tx, 100))
    }
    await finish(meter, reservation, callOf(ledger, actor, usd('0.5')))
    await meter.pass()
    const audits = await listAudit(ledger.database.db, { accountId: actor.accountId, limit: 10 })
    expect(audits).toEqual([])
    const { available, held } = await ledger.balances(actor)
    expect(available + held).toBe(usd('0.5'))
  })

  test('that expired during a suspend is not spent from, and running requests are still charged', async () => {
    const actor = await openAccount(ledger, 'slept', usd('1'))
    const { meter } = await startGateway(ledger)
    const reservation = await reserve(meter, sharedPurse(actor), usd('0.3'))
    ledger.clock.advance(20 * MINUTE_MS)
    await transact(ledger.database, (tx) => releaseExpiredHolds(tx, 100))
    expect(meter.tryReserve(sharedPurse(actor), usd('0.01'))).toBeUndefined()
    await reserve(meter, sharedPurse(actor), usd('0.7'))
    await finish(meter, reservation, callOf(ledger, actor, usd('0.2')))
    await meter.pass()
    const audits = await listAudit(ledger.database.db, { accountId: actor.accountId, limit: 10 })
    expect(audits.map((row) => row.action)).toContain('purse.expired')
    const { available, held } = await ledger.balances(actor)
    expect(available + held).toBe(usd('0.8'))
    expect(await ledger.findings()).toEqual([])
  })
})

describe('running and closing', () => {
  test('settles on its own, and at once when many wait', async () => {
    const actor = await openAccount(ledger, 'running', usd('10'))
    const { meter } = await startGateway(ledger, { settleSoonMs: 20, settleEveryMs: 20 })
    const ids: string[] = []
    for (let n = 0; n < 20; n += 1) ids.push(await serve(ledger, meter, actor, usd('0.02'), usd('0.01')))
    await waitFor('all settled', async () => (await costsOf(ledger, actor, ids)).length === 20)
    const { meter: slow } = await startGateway(ledger)
    for (let n = 0; n < 4_000; n += 1) void finish(slow, undefined, callOf(ledger, actor, zeroUsd))
    await waitFor('many settled', () => slow.figures().settled === 4_000)
    expect(slow.figures().unsettled).toBe(0)
  })

  test('settles a request after a quiet time soon, and those that keep coming together', async () => {
    const actor = await openAccount(ledger, 'steady', usd('10'))
    const { meter } = await startGateway(ledger, { settleSoonMs: 1, settleEveryMs: 200 })
    const postings = async (): Promise<number> => {
      const { rows } = await sql<{ n: number }>`
        select count(*)::integer as n from posting where account_id = ${actor.accountId} and kind = 'charge'`.execute(
        ledger.database.db,
      )
      return rows[0]?.n ?? 0
    }
    await serve(ledger, meter, actor, usd('0.02'), usd('0.01'))
    await waitFor('the first settlement', async () => (await postings()) === 1)
    let sent = 0
    while ((await postings()) === 1) {
      sent += 1
      await serve(ledger, meter, actor, usd('0.002'), usd('0.001'))
    }
    expect(sent).toBeGreaterThan(1)
    await waitFor('the rest', () => meter.figures().settled === sent + 1)
    expect(await postings()).toBeLessThan(sent)
    expect(await ledger.findings()).toEqual([])
  })

  test('maintains its purses more often than it settles', async () => {
    const actor = await openAccount(ledger, 'maintained', usd('10'))
    const { meter, gatewayId } = await startGateway(ledger, { settleSoonMs: 1, settleEveryMs: 600_000 })
    await serve(ledger, meter, actor, usd('0.02'), usd('0.01'))
    await waitFor('the first settlement', () => meter.figures().settled === 1)
    await serve(ledger, meter, actor, usd('0.02'), usd('0.01'))
    ledger.clock.advance(11 * SECOND_MS)
    const now = ledger.clock.now()
    await waitFor('a sign of life', async () => {
      const gateway = ledger.database.db.selectFrom('gateway').select('seen_at').where('id', '=', gatewayId)
      return (await gateway.executeTakeFirstOrThrow()).seen_at === now
    })
    expect(meter.figures()).toMatchObject({ settled: 1, unsettled: 1 })
  })

  test('close settles the rest and gives everything back', async () => {
    const actor = await openAccount(ledger, 'closing', usd('10'))
    const { meter } = await startGateway(ledger)
    const id = await serve(ledger, meter, actor, usd('3'), usd('0.5'))
    const open = await reserve(meter, sharedPurse(actor), usd('2'))
    await meter.close()
    expect(await costsOf(ledger, actor, [id])).toHaveLength(1)
    // Money that a running request may still need stays until the request or the purse ends.
    expect(await ledger.balances(actor)).toMatchObject({ available: usd('7.5'), held: usd('2') })
    meter.cancel(open)
    await meter.close()
    expect(await ledger.balances(actor)).toMatchObject({ available: usd('9.5'), held: 0n })
  })
})
