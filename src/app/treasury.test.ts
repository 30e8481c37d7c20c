/** The promises: gateways never hold more than there is, each request is billed once, and the books stay exact. */
import * as fc from 'fast-check'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { inferenceRecord } from '../../test/harness/ended-request.ts'
import { waitFor } from '../../test/harness/wait.ts'
import { buy, openAccount, openBooks, type Books } from '../../test/harness/books.ts'
import { addMs, MINUTE_MS, SECOND_MS } from '../base/instant.ts'
import { nanoUsdOf, sumUsd, usd, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { InferenceRecord, PurseOwner, Topped } from '../domain/purse.ts'
import { listAudit } from '../store/audit.ts'
import { openDatabase, transact, type Database } from '../store/database.ts'
import { lockAvailable, readBalances, releaseExpiredHolds } from '../store/ledger.ts'
import { ledgerChecks, runCheck } from '../store/ledger-verify.ts'
import { lockOrderFacts } from '../store/order.ts'
import { topUpPurse } from '../store/purse.ts'
import type { Actor } from './app.ts'
import { makeTreasury, type GatewayTreasury } from './treasury.ts'

let books: Books
beforeAll(async () => {
  books = await openBooks()
})
afterAll(() => books.close())

let gateways = 0
async function startGateway(database: Database = books.database): Promise<GatewayTreasury> {
  gateways += 1
  const treasury = makeTreasury({ database, clock: books.clock, gatewayId: `gw${gateways}` })
  await treasury.registerGateway()
  return treasury
}

const shared = (actor: Actor) => ({ accountId: actor.accountId, apiKeyId: null })
const ofKey = (actor: Actor) => ({ accountId: actor.accountId, apiKeyId: actor.keyId })
const grantedBy = (topped: Topped): NanoUsd => (topped.kind === 'granted' ? topped.amount : zeroUsd)
const balances = (actor: Actor) => readBalances(books.database.db, actor.accountId)

async function fill(treasury: GatewayTreasury, actor: Actor, amount: NanoUsd, owner: PurseOwner = shared(actor)) {
  const topped = await treasury.topUp(owner, { wanted: amount, needed: amount })
  if (topped.kind !== 'granted') throw new Error(`not granted: ${topped.why}`)
  return topped.holdKey
}

let requests = 0
function recordOf(actor: Actor, holdKey: string | null, cost: NanoUsd, more: Partial<InferenceRecord> = {}) {
  requests += 1
  return inferenceRecord({
    requestId: `req_${requests.toString().padStart(6, '0')}`,
    accountId: actor.accountId,
    apiKeyId: actor.keyId,
    holdKey,
    at: books.clock.now(),
    cost: cost.toString(),
    ...more,
  })
}

async function limitKey(actor: Actor, limits: { monthly?: NanoUsd; total?: NanoUsd }): Promise<void> {
  await books.database.db
    .updateTable('api_key')
    .set({ monthly_limit_nano: limits.monthly ?? null, total_limit_nano: limits.total ?? null })
    .where('public_id', '=', actor.keyId)
    .execute()
}

/** The whole of the books, recounted. */
async function findings() {
  const found = []
  for (const check of ledgerChecks) found.push(...(await runCheck(books.database.db, check, 10)).findings)
  return found
}

async function countDeadlocks(url: string): Promise<string | undefined> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const counted = await client.query<{ deadlocks: string }>(
    'select deadlocks from pg_stat_database where datname = current_database()',
  )
  await client.end()
  return counted.rows[0]?.deadlocks
}

const lastAudits = (action: string, accountId?: string) =>
  listAudit(books.database.db, { limit: 50, ...(accountId === undefined ? {} : { accountId }) }).then((rows) =>
    rows.filter((row) => row.action === action),
  )

describe('topping up', () => {
  test('grants what is wanted, less when there is less, and nothing when it would not be enough', async () => {
    const actor = await openAccount(books, 'grants', usd('1'))
    const treasury = await startGateway()
    const topUp = (wanted: string, needed: string) =>
      treasury.topUp(shared(actor), { wanted: usd(wanted), needed: usd(needed) })
    expect(await topUp('0.4', '0.1')).toEqual({
      kind: 'granted',
      holdKey: `purse:gw${gateways}:${actor.accountId}`,
      amount: usd('0.4'),
      expiresAt: books.clock.now() + 10 * MINUTE_MS,
    })
    expect(await topUp('5', '0.6')).toMatchObject({ kind: 'granted', amount: usd('0.6') })
    expect(await topUp('5', '0.000000001')).toEqual({ kind: 'insufficient', why: 'balance' })
    expect(await balances(actor)).toEqual({ available: 0n, held: usd('1'), earnings: 0n })
  })

  test('of two gateways at once over a small balance never exceeds it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.bigInt({ min: 1n, max: 2_000n }),
        fc.array(fc.record({ needed: fc.bigInt({ min: 1n, max: 300n }), more: fc.bigInt({ min: 0n, max: 300n }) }), {
          minLength: 4,
          maxLength: 16,
        }),
        async (balance, asks) => {
          requests += 1
          const actor = await openAccount(books, `small${requests}`, nanoUsdOf(balance))
          const [one, other] = [await startGateway(), await startGateway()]
          const topped = await Promise.all(
            asks.map(({ needed, more }, n) =>
              (n % 2 === 0 ? one : other).topUp(shared(actor), {
                needed: nanoUsdOf(needed),
                wanted: nanoUsdOf(needed + more),
              }),
            ),
          )
          const granted = sumUsd(topped.map(grantedBy))
          const { available, held } = await balances(actor)
          expect(held).toBe(granted)
          expect(available + held).toBe(balance)
          // Whoever was refused would not have been covered by what is left.
          const refused = asks.filter((_, n) => topped[n]?.kind === 'insufficient')
          expect(refused.filter(({ needed }) => needed <= available)).toEqual([])
        },
      ),
      { numRuns: 8 },
    )
  })

  test('keeps to the limits of a key over two gateways, with what was spent and what lies in purses', async () => {
    const actor = await openAccount(books, 'limited', usd('100'))
    const [one, other] = [await startGateway(), await startGateway()]
    await limitKey(actor, { total: usd('1') })
    const ask = (treasury: GatewayTreasury, wanted: string, needed: string) =>
      treasury.topUp(ofKey(actor), { wanted: usd(wanted), needed: usd(needed) })
    const granted = await Promise.all(
      Array.from({ length: 30 }, (_, n) => ask(n % 2 === 0 ? one : other, '0.07', '0.03')),
    )
    // 14 times 0.07, and 0.02 that is not enough for anyone.
    expect(sumUsd(granted.map(grantedBy))).toBe(usd('0.98'))
    expect(granted.filter((topped) => topped.kind === 'insufficient' && topped.why === 'key_limit')).toHaveLength(16)

    // Spent or set aside, it counts the same; given back, it can be had again.
    const holdKey = `purse:gw${gateways - 1}:${actor.accountId}:${actor.keyId}`
    await one.settle([recordOf(actor, holdKey, usd('0.05'))])
    expect(await ask(other, '1', '0.03')).toMatchObject({ kind: 'insufficient', why: 'key_limit' })
    await one.giveBack(holdKey, usd('0.1'))
    expect(await ask(other, '1', '0.03')).toMatchObject({ kind: 'granted', amount: usd('0.12') })

    // An order of the key sees the purses too, and the account's own purse is not bound by the key.
    const facts = await transact(books.database, (tx) => lockOrderFacts(tx, actor.accountId, actor.keyId))
    expect(facts.key_budget).toBe(0n)
    expect(await fill(one, actor, usd('50'))).toBe(`purse:gw${gateways - 1}:${actor.accountId}`)
  })

  test('a monthly limit begins anew with the month, less what still lies in purses', async () => {
    const actor = await openAccount(books, 'monthly', usd('100'))
    const treasury = await startGateway()
    await limitKey(actor, { monthly: usd('1'), total: usd('1.5') })
    const holdKey = await fill(treasury, actor, usd('1'), ofKey(actor))
    await treasury.settle([recordOf(actor, holdKey, usd('0.8'))])
    expect((await treasury.topUp(ofKey(actor), { wanted: usd('1'), needed: usd('0.1') })).kind).toBe('insufficient')
    books.clock.advance(31 * 24 * 60 * MINUTE_MS)
    const next = await treasury.topUp(ofKey(actor), { wanted: usd('9'), needed: usd('0.1') })
    // Of the month 1 − 0.2, of all 1.5 − 0.8 − 0.2.
    expect(grantedBy(next)).toBe(usd('0.5'))
  })
})

describe('settling', () => {
  test('writes costs and log and charges by key and model, each request once however often it is sent', async () => {
    const actor = await openAccount(books, 'once', usd('10'))
    const treasury = await startGateway()
    const holdKey = await fill(treasury, actor, usd('2'))
    const records = [
      recordOf(actor, holdKey, usd('0.25'), { model: 'large' }),
      recordOf(actor, holdKey, usd('0.5'), { model: 'large' }),
      recordOf(actor, holdKey, usd('0.125'), { model: 'small' }),
      recordOf(actor, null, zeroUsd, { outcome: 'failed', status: 503, reason: 'engine_failed' }),
    ]
    await treasury.settle([...records, ...records])
    await treasury.settle(records.slice(1))
    // Several at once, and in another order.
    await Promise.all([1, 2, 3, 4].map((n) => treasury.settle(n % 2 === 0 ? records : records.toReversed())))

    expect(await balances(actor)).toEqual({ available: usd('8'), held: usd('1.125'), earnings: 0n })
    const charges = await sql<{ model: string; memo: string; nano: bigint; api_key_id: string }>`
      select p.model, p.memo, p.api_key_id, t.amount_nano as nano from posting p join transfer t on t.posting_id = p.id
      where p.account_id = ${actor.accountId} and p.kind = 'charge' order by p.model`.execute(books.database.db)
    expect(charges.rows).toEqual([
      { model: 'large', memo: 'Inference, large, 2 requests', nano: usd('0.75'), api_key_id: actor.keyId },
      { model: 'small', memo: 'Inference, small, 1 request', nano: usd('0.125'), api_key_id: actor.keyId },
    ])
    const { rows } = await sql<{ spent: bigint; costs: bigint; logged: bigint }>`
      select (select sum(spent_nano)::bigint from key_spend where api_key_id = ${actor.keyId}) as spent,
        (select count(*) from request_cost where account_id = ${actor.accountId}) as costs,
        (select count(*) from request_log where account_id = ${actor.accountId}) as logged`.execute(books.database.db)
    expect(rows[0]).toEqual({ spent: usd('0.875'), costs: 4n, logged: 4n })
    expect(await findings()).toEqual([])
  })

  test('a purse that expired takes what is missing from the balance again, and the house bears the rest', async () => {
    const actor = await openAccount(books, 'expired', usd('1'))
    const treasury = await startGateway()
    const holdKey = await fill(treasury, actor, usd('0.6'))
    const late = [recordOf(actor, holdKey, usd('0.2')), recordOf(actor, holdKey, usd('0.25'))]
    books.clock.advance(10 * MINUTE_MS)
    await transact(books.database, (tx) => releaseExpiredHolds(tx, 100))
    expect(await balances(actor)).toMatchObject({ available: usd('1'), held: 0n })
    expect(await lastAudits('purse.expired', actor.accountId)).toMatchObject([
      { subject: holdKey, detail: { gateway: `gw${gateways}`, amountUsd: '0.600000000' } },
    ])

    await treasury.settle([late[0] ?? recordOf(actor, null, zeroUsd)])
    expect(await balances(actor)).toMatchObject({ available: usd('0.8'), held: 0n })
    // Somebody else has had most of the money since.
    await fill(await startGateway(), actor, usd('0.7'))
    await treasury.settle(late)
    expect(await balances(actor)).toMatchObject({ available: 0n, held: usd('0.7') })
    const [overdrawn, before] = await lastAudits('purse.overdrawn', actor.accountId)
    expect(before?.detail).toMatchObject({ missingUsd: '0.200000000', borneByTheHouseUsd: '0.000000000' })
    expect(overdrawn?.detail).toMatchObject({ missingUsd: '0.250000000', borneByTheHouseUsd: '0.150000000' })
    const statement = await sql<{ kind: string; reason: string | null }>`
      select kind, reason from posting where account_id = ${actor.accountId} and kind not in ('hold', 'release') order by id`.execute(
      books.database.db,
    )
    expect(statement.rows.map((line) => line.kind)).toEqual(['purchase', 'charge', 'adjustment', 'charge'])
    expect(statement.rows[2]?.reason).toMatch(/the house bears/)
    expect(await findings()).toEqual([])
  })

  test('needs neither purse nor hold any more, as after a restored backup', async () => {
    const actor = await openAccount(books, 'restored', usd('1'))
    const treasury = await startGateway()
    const holds = [`purse:lost:${actor.accountId}`, `purse:lost:${actor.accountId}:${actor.keyId}`]
    await treasury.settle(holds.map((holdKey) => recordOf(actor, holdKey, usd('0.3'))))
    expect(await balances(actor)).toMatchObject({ available: usd('0.4'), held: 0n })
    const purses = await books.database.db.selectFrom('purse').selectAll().where('hold_key', 'in', holds).execute()
    expect(new Set(purses.map((purse) => purse.api_key_id))).toEqual(new Set([actor.keyId, null]))
    expect(await findings()).toEqual([])
  })

  test('a record that the books refuse is told to the operator and stops no other', async () => {
    const actor = await openAccount(books, 'refused', usd('1'))
    const treasury = await startGateway()
    const holdKey = await fill(treasury, actor, usd('1'))
    const good = Array.from({ length: 9 }, () => recordOf(actor, holdKey, usd('0.01')))
    const stranger = recordOf({ ...actor, accountId: 'acc_gone' }, holdKey, usd('0.01'), { requestBody: 'v1.secret' })
    const thief = recordOf(await openAccount(books, 'thief', usd('1')), holdKey, usd('0.01'))
    const unpaid = recordOf(actor, null, usd('0.01'))
    const astray = recordOf(actor, 'rental:1', usd('0.01'))
    await treasury.settle([...good.slice(0, 4), stranger, thief, unpaid, astray, ...good.slice(4)])
    expect(await balances(actor)).toMatchObject({ held: usd('0.91') })
    const told = await lastAudits('request.not_settled')
    expect(new Set(told.map((row) => row.subject))).toEqual(
      new Set([stranger, thief, unpaid, astray].map((record) => record.requestId)),
    )
    expect(JSON.stringify(told.map((row) => row.detail))).not.toContain('v1.secret')
    expect(await findings()).toEqual([])
  })

  test('goes on in parallel with everything else that moves money, without a deadlock', async () => {
    const idler = await openAccount(books, 'idler')
    const names = Array.from({ length: 12 }, (_, n) => `parallel${n}`)
    const actors: Actor[] = []
    for (const name of names) actors.push(await openAccount(books, name, usd('1')))
    // Connections of its own: PostgreSQL counts deadlocks when they end.
    const url = books.database.pool.options.connectionString ?? ''
    const database = openDatabase({ url, clock: books.clock, poolSize: 16 })
    const treasuries = await Promise.all([1, 2, 3].map(() => startGateway(database)))
    const holdKeys = await Promise.all(
      treasuries.map((treasury) => Promise.all(actors.map((actor) => fill(treasury, actor, usd('0.2'))))),
    )
    const ids = actors.map((actor) => actor.accountId)
    const work: Array<Promise<unknown>> = []
    // The same requests twice at once, in another order: whoever comes second waits for the first.
    const [one, second] = [await startGateway(database), await startGateway(database)]
    for (let round = 0; round < 3; round += 1) {
      const same = Array.from({ length: 1_000 }, () => recordOf(idler, null, zeroUsd))
      await Promise.all([one.settle(same), second.settle(same.toReversed())])
    }
    for (let round = 0; round < 8; round += 1) {
      for (const [g, treasury] of treasuries.entries()) {
        const keys = holdKeys[g] ?? []
        const records = actors.map((actor, n) => recordOf(actor, keys[n] ?? null, usd('0.01')))
        work.push(treasury.settle(round % 2 === 0 ? records : records.toReversed()))
        work.push(treasury.renew(round % 2 === 0 ? keys : keys.toReversed()))
        // By their names the tenth account comes before the third.
        work.push(transact(database, (tx) => lockAvailable(tx, [ids[2] ?? '', ids[10] ?? ''])))
        const actor = actors[(round + g) % actors.length]
        const key = keys[(round + g) % actors.length]
        if (actor === undefined || key === undefined) continue
        work.push(treasury.giveBack(key, usd('0.001')))
        work.push(treasury.topUp(shared(actor), { wanted: usd('0.002'), needed: usd('0.000001') }))
      }
    }
    await Promise.all(work)
    await database.close()
    expect(await countDeadlocks(url)).toBe('0')
    for (const actor of actors) {
      const { available, held } = await balances(actor)
      expect(available + held).toBe(usd('0.76'))
    }
    expect(await findings()).toEqual([])
  })

  test('takes many in bounded transactions', async () => {
    const actor = await openAccount(books, 'many', usd('10'))
    const treasury = await startGateway()
    const holdKey = await fill(treasury, actor, usd('5'))
    const records = Array.from({ length: 4_100 }, () => recordOf(actor, holdKey, nanoUsdOf(1_000n)))
    await treasury.settle(records)
    const { rows } = await sql<{ charges: bigint }>`
      select count(*) as charges from posting where account_id = ${actor.accountId} and kind = 'charge'`.execute(
      books.database.db,
    )
    expect(rows[0]?.charges).toBe(3n)
    expect((await balances(actor)).held).toBe(nanoUsdOf(usd('5') - 4_100_000n))
  })
})

describe('purses that are not used', () => {
  test('are given back in part or whole, and never more than they hold', async () => {
    const actor = await openAccount(books, 'back', usd('1'))
    const treasury = await startGateway()
    const holdKey = await fill(treasury, actor, usd('0.5'))
    await treasury.giveBack(holdKey, usd('0.2'))
    expect((await treasury.readPurses([holdKey, 'purse:none'])).get(holdKey)).toBe(usd('0.3'))
    await treasury.giveBack(holdKey, nanoUsdOf(2n ** 70n))
    await treasury.giveBack('purse:none', usd('1'))
    expect(await balances(actor)).toMatchObject({ available: usd('1'), held: 0n })
  })

  test('of a run that ended go back together, and those of other gateways stay', async () => {
    const [one, other] = [await startGateway(), await startGateway()]
    const actors = [await openAccount(books, 'ended1', usd('1')), await openAccount(books, 'ended2', usd('1'))]
    for (const actor of actors) await fill(one, actor, usd('0.3'))
    const kept = actors[0] ?? (await openAccount(books, 'ended3', usd('1')))
    await fill(other, kept, usd('0.1'))
    await one.releaseOwnPurses()
    expect((await Promise.all(actors.map(balances))).map(({ held }) => held)).toEqual([usd('0.1'), 0n])
  })

  test('are not released when they were filled again at the last moment', async () => {
    const actor = await openAccount(books, 'lastmoment', usd('1'))
    const treasury = await startGateway()
    await fill(treasury, actor, usd('0.5'))
    books.clock.advance(10 * MINUTE_MS)
    let releasing: Promise<number> | undefined
    await transact(books.database, async (tx) => {
      await lockAvailable(tx, [actor.accountId])
      releasing = transact(books.database, (other) => releaseExpiredHolds(other, 100))
      await waitFor('the release to wait for the balances', async () => {
        const waiting = await sql`select 1 from pg_stat_activity
          where wait_event_type = 'Lock' and datname = current_database()`.execute(books.database.db)
        return waiting.rows.length > 0
      })
      const expiresAt = addMs(books.clock.now(), 10 * MINUTE_MS)
      const wish = { wanted: usd('0.1'), needed: usd('0.1'), now: books.clock.now(), expiresAt }
      await topUpPurse(tx.db, `gw${gateways}`, shared(actor), wish)
    })
    await releasing
    expect((await balances(actor)).held).toBe(usd('0.6'))
  })

  test('live on when they are renewed, and a renewed one is not released', async () => {
    const actor = await openAccount(books, 'renewed', usd('1'))
    const treasury = await startGateway()
    const holdKey = await fill(treasury, actor, usd('0.5'))
    books.clock.advance(9 * MINUTE_MS)
    expect(await treasury.renew([holdKey])).toBe(books.clock.now() + 10 * MINUTE_MS)
    books.clock.advance(9 * MINUTE_MS)
    await transact(books.database, (tx) => releaseExpiredHolds(tx, 100))
    expect((await balances(actor)).held).toBe(usd('0.5'))
    books.clock.advance(MINUTE_MS)
    await transact(books.database, (tx) => releaseExpiredHolds(tx, 100))
    expect((await balances(actor)).held).toBe(0n)
    await buy(books, actor.accountId, usd('1'))
  })
})

test('gateways that were heard of lately count as live', async () => {
  books.clock.advance(31 * SECOND_MS)
  const treasury = await startGateway()
  expect(await treasury.liveGateways()).toBe(1)
  await startGateway()
  expect(await treasury.liveGateways()).toBe(2)
  books.clock.advance(20 * SECOND_MS)
  await treasury.beat()
  books.clock.advance(20 * SECOND_MS)
  expect(await treasury.liveGateways()).toBe(1)
})
