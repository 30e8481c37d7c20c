/** The promises, over a real database and disk: hard limits, each request billed once, nothing lost while either fails. */
import * as fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openAccount, openBooks, type Books } from '../../test/harness/books.ts'
import { inferenceRecord } from '../../test/harness/ended-request.ts'
import { waitFor } from '../../test/harness/wait.ts'
import type { Actor } from '../app/app.ts'
import { listRequests, readRequest } from '../app/request-log.ts'
import { makeTreasury } from '../app/treasury.ts'
import { MINUTE_MS, SECOND_MS } from '../base/instant.ts'
import { usd, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { PurseOwner } from '../domain/purse.ts'
import { listAudit } from '../store/audit.ts'
import { readRequestCosts } from '../store/billing.ts'
import { transact } from '../store/database.ts'
import { readBalances, releaseExpiredHolds } from '../store/ledger.ts'
import { ledgerChecks, runCheck } from '../store/ledger-verify.ts'
import { Journal, type JournalOptions } from './journal.ts'
import { makeMeter, type EndedCall, type Meter, type MeterTreasury, type Reservation } from './meter.ts'

let books: Books
beforeAll(async () => {
  books = await openBooks()
})
afterAll(() => books.close())

const started: Array<{ meter: Meter; journal: Journal }> = []
const folders: string[] = []
afterEach(async () => {
  for (const { meter, journal } of started.splice(0)) {
    await meter.close()
    await journal.close()
  }
  for (const folder of folders.splice(0)) fs.rmSync(folder, { recursive: true, force: true })
})

type Fault = 'none' | 'before' | 'after'

interface Gateway {
  readonly meter: Meter
  readonly dir: string
  readonly gatewayId: string
  readonly told: string[]
  /** When the books are away: before a call has done anything, or when its answer is on the way. */
  fault: Fault
}

let gateways = 0
const AN_HOUR_MS = 3_600_000

/** On a journal that is there already: the same gateway after a crash. */
async function startGateway(
  more: { after?: Gateway; settleEveryMs?: number; unsettledRecords?: number; write?: JournalOptions['write'] } = {},
): Promise<Gateway> {
  gateways += 1
  const dir = more.after?.dir ?? fs.mkdtempSync(path.join(os.tmpdir(), 'berth-meter-'))
  folders.push(dir)
  const gatewayId = more.after?.gatewayId ?? `gate${gateways}`
  const told: string[] = []
  const log = {
    warn: (_: unknown, message: string) => void told.push(message),
    error: (_: unknown, message: string) => void told.push(message),
  }
  const journal = new Journal({ dir, log, ...(more.write === undefined ? {} : { write: more.write }) })
  const treasuryOfBooks = makeTreasury({ database: books.database, clock: books.clock, gatewayId })
  const faulty = async <T>(work: () => Promise<T>): Promise<T> => {
    if (gateway.fault === 'before') throw new Error('the database is away')
    const answer = await work()
    if (gateway.fault === 'after') throw new Error('the connection broke')
    return answer
  }
  const treasury: MeterTreasury = {
    topUp: (owner, amounts) => faulty(() => treasuryOfBooks.topUp(owner, amounts)),
    settle: (records) => faulty(() => treasuryOfBooks.settle(records)),
    giveBack: (holdKey, amount) => faulty(() => treasuryOfBooks.giveBack(holdKey, amount)),
    renew: (holdKeys) => faulty(() => treasuryOfBooks.renew(holdKeys)),
    readPurses: (holdKeys) => faulty(() => treasuryOfBooks.readPurses(holdKeys)),
    registerGateway: () => faulty(() => treasuryOfBooks.registerGateway()),
    beat: () => faulty(() => treasuryOfBooks.beat()),
    releaseOwnPurses: () => faulty(() => treasuryOfBooks.releaseOwnPurses()),
  }
  const meter = makeMeter({
    treasury,
    journal,
    clock: books.clock,
    log,
    seal: (text) => books.app.vault.seal(text),
    settleEveryMs: more.settleEveryMs ?? AN_HOUR_MS,
    unsettledRecords: more.unsettledRecords ?? 50_000,
  })
  const gateway: Gateway = { meter, dir, gatewayId, told, fault: 'none' }
  await meter.start()
  started.push({ meter, journal })
  return gateway
}

const shared = (actor: Actor): PurseOwner => ({ accountId: actor.accountId, apiKeyId: null })
const balances = (actor: Actor) => readBalances(books.database.db, actor.accountId)

async function reserve(meter: Meter, owner: PurseOwner, worst: NanoUsd): Promise<Reservation> {
  const got = meter.tryReserve(owner, worst)
  if (got !== undefined) return got
  const topped = await meter.reserve(owner, worst)
  if (!topped.ok) throw new Error(topped.message)
  return topped.value
}

let requests = 0
function callOf(actor: Actor, cost: NanoUsd, more: Partial<EndedCall> = {}): EndedCall {
  requests += 1
  return {
    ...inferenceRecord({ requestId: `req_${requests.toString().padStart(6, '0')}` }),
    accountId: actor.accountId,
    apiKeyId: actor.keyId,
    at: books.clock.now(),
    cost,
    ...more,
  }
}

function finish(meter: Meter, reservation: Reservation | undefined, call: EndedCall): Promise<string> {
  return new Promise((resolve) => meter.finish(reservation, call, () => resolve(call.requestId)))
}

/** A request from beginning to end. */
async function serve(meter: Meter, actor: Actor, worst: NanoUsd, cost: NanoUsd): Promise<string> {
  return finish(meter, await reserve(meter, shared(actor), worst), callOf(actor, cost))
}

const costsOf = (actor: Actor, ids: readonly string[]) => readRequestCosts(books.database.db, actor.accountId, ids)

async function findings() {
  const found = []
  for (const check of ledgerChecks) found.push(...(await runCheck(books.database.db, check, 10)).findings)
  return found
}

describe('a request', () => {
  test('reserves, is recorded, is known here at once and in the books after a pass; the rest goes back when idle', async () => {
    const actor = await openAccount(books, 'whole', usd('1'))
    const { meter } = await startGateway()
    const id = await serve(meter, actor, usd('0.1'), usd('0.03'))
    expect(meter.costOf(id)).toEqual({ accountId: actor.accountId, cost: usd('0.03') })
    expect(await costsOf(actor, [id])).toEqual([])
    expect(meter.figures()).toMatchObject({ unsettled: 1, purses: 1, settled: 0 })

    await meter.pass()
    expect(await costsOf(actor, [id])).toEqual([{ requestId: id, cost: usd('0.03') }])
    expect(meter.costOf(id)).toEqual({ accountId: actor.accountId, cost: usd('0.03') })
    expect(meter.figures()).toMatchObject({ unsettled: 0, unsettledBytes: 0, settled: 1 })
    const { available, held } = await balances(actor)
    expect(available + held).toBe(usd('0.97'))
    expect(held).toBeGreaterThan(0n)

    books.clock.advance(31 * SECOND_MS)
    await meter.pass()
    expect(await balances(actor)).toMatchObject({ available: usd('0.97'), held: 0n })
    expect(meter.figures().purses).toBe(0)
    expect(await findings()).toEqual([])
  })

  test('never costs more than was reserved for it, and that is counted', async () => {
    const actor = await openAccount(books, 'capped', usd('1'))
    const { meter } = await startGateway()
    const id = await serve(meter, actor, usd('0.1'), usd('0.3'))
    expect(meter.costOf(id)?.cost).toBe(usd('0.1'))
    const free = await finish(meter, undefined, callOf(actor, usd('0.3'), { outcome: 'failed' }))
    expect(meter.costOf(free)?.cost).toBe(0n)
    expect(meter.figures().cappedCosts).toBe(2)
    await meter.pass()
    expect(await costsOf(actor, [id, free])).toHaveLength(2)
    const { available, held } = await balances(actor)
    expect(available + held).toBe(usd('0.9'))
  })

  test('that is cancelled leaves nothing behind', async () => {
    const actor = await openAccount(books, 'cancelled', usd('1'))
    const { meter, dir } = await startGateway()
    meter.cancel(await reserve(meter, shared(actor), usd('0.9')))
    await reserve(meter, shared(actor), usd('0.9'))
    expect(meter.figures().unsettled).toBe(0)
    expect(fs.readdirSync(dir)).toEqual([])
  })

  test('that the balance or the limit of its key does not cover is refused, with the reason', async () => {
    const actor = await openAccount(books, 'poor', usd('0.5'))
    const { meter } = await startGateway()
    expect(await meter.reserve(shared(actor), usd('0.6'))).toMatchObject({
      kind: 'insufficient_balance',
      reason: 'insufficient_balance',
    })
    await books.database.db
      .updateTable('api_key')
      .set({ total_limit_nano: usd('0.2') })
      .where('public_id', '=', actor.keyId)
      .execute()
    expect(await meter.reserve({ accountId: actor.accountId, apiKeyId: actor.keyId }, usd('0.3'))).toMatchObject({
      kind: 'insufficient_balance',
      reason: 'key_spending_limit',
      message: expect.stringContaining('$0.30'),
    })
  })

  test('keeps its texts sealed, on the disk as in the books, and its owner can read them', async () => {
    const actor = await openAccount(books, 'bodies', usd('1'))
    const stranger = await openAccount(books, 'stranger')
    const { meter, dir } = await startGateway()
    const call = callOf(actor, usd('0.01'), { requestBody: 'my secret question', responseBody: 'its answer' })
    await finish(meter, await reserve(meter, shared(actor), usd('0.02')), call)
    await finish(meter, undefined, callOf(actor, zeroUsd, { outcome: 'failed', status: 503, reason: 'overloaded' }))
    const written = fs.readdirSync(dir).map((name) => fs.readFileSync(path.join(dir, name), 'utf8'))
    expect(written.join('')).toContain(call.requestId)
    expect(written.join('')).not.toContain('secret question')
    await meter.pass()
    const row = await books.database.db
      .selectFrom('request_log')
      .selectAll()
      .where('request_id', '=', call.requestId)
      .executeTakeFirstOrThrow()
    expect(row.request_body).not.toContain('secret question')
    expect(await readRequest(books.app, actor, call)).toMatchObject({
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
    expect(await readRequest(books.app, stranger, call)).toMatchObject({ ok: false, kind: 'not_found' })
    expect(await listRequests(books.app, actor, { filter: {}, limit: 10 })).toMatchObject({ value: { length: 2 } })
  })
})

describe('while the database is away', () => {
  test('requests go on as far as the purse reaches, then they are refused, and all are settled when it is back', async () => {
    const actor = await openAccount(books, 'away', usd('10'))
    const gateway = await startGateway()
    const { meter } = gateway
    const ids = [await serve(meter, actor, usd('0.02'), usd('0.01'))]
    gateway.fault = 'before'
    for (let n = 0; n < 3; n += 1) ids.push(await serve(meter, actor, usd('0.02'), usd('0.01')))
    await meter.pass()
    expect(meter.tryReserve(shared(actor), usd('5'))).toBeUndefined()
    expect(await meter.reserve(shared(actor), usd('5'))).toMatchObject({
      kind: 'unavailable',
      reason: 'balance_unreachable',
      retryAfterMs: 2_000,
    })
    expect(meter.figures()).toMatchObject({ unsettled: 4, settleFailures: 1 })
    expect(ids.map((id) => meter.costOf(id)?.cost)).toEqual(ids.map(() => usd('0.01')))
    expect(gateway.told).toContain('requests cannot be settled; they wait in the journal')

    gateway.fault = 'none'
    await meter.pass()
    expect(meter.figures().unsettled).toBe(0)
    expect(await costsOf(actor, ids)).toHaveLength(4)
    expect(gateway.told.at(-1)).toBe('requests are settled again')
    expect((await reserve(meter, shared(actor), usd('5'))).amount).toBe(usd('5'))
    expect(await findings()).toEqual([])
  })

  test('answers that were lost are no harm: nothing is billed twice, and no money stays behind', async () => {
    const actor = await openAccount(books, 'lost', usd('10'))
    const gateway = await startGateway()
    const { meter } = gateway
    await serve(meter, actor, usd('0.02'), usd('0.01'))
    gateway.fault = 'after'
    // Granted, but nobody heard of it.
    expect(await meter.reserve(shared(actor), usd('1'))).toMatchObject({ kind: 'unavailable' })
    await serve(meter, actor, usd('0.02'), usd('0.01'))
    await meter.pass()
    await meter.pass()
    expect(meter.figures().unsettled).toBe(2)
    gateway.fault = 'none'
    books.clock.advance(SECOND_MS)
    await meter.pass()
    expect(meter.figures().unsettled).toBe(0)
    // The recount has found what was granted, and what nobody needs of it has gone back.
    const { available, held } = await balances(actor)
    expect(available + held).toBe(usd('9.98'))
    expect(held).toBeLessThan(usd('0.2'))
    books.clock.advance(31 * SECOND_MS)
    await meter.pass()
    expect(await balances(actor)).toMatchObject({ available: usd('9.98'), held: 0n })
    expect(await findings()).toEqual([])
  })

  test('not more is taken on than memory allows', async () => {
    const actor = await openAccount(books, 'flood', usd('1'))
    const gateway = await startGateway({ unsettledRecords: 1_500 })
    const { meter } = gateway
    gateway.fault = 'before'
    const first = await reserve(meter, shared(actor), zeroUsd)
    meter.cancel(first)
    const done: Array<Promise<string>> = []
    for (let n = 0; n < 1_500; n += 1) done.push(finish(meter, undefined, callOf(actor, zeroUsd)))
    await Promise.all(done)
    expect(meter.tryReserve(shared(actor), zeroUsd)).toBeUndefined()
    expect(await meter.reserve(shared(actor), zeroUsd)).toMatchObject({ kind: 'unavailable', reason: 'cannot_record' })
    gateway.fault = 'none'
    await meter.pass()
    expect(meter.figures()).toMatchObject({ unsettled: 0, settled: 1_500 })
    expect(meter.tryReserve(shared(actor), zeroUsd)).toBeDefined()
  })
})

describe('a purse', () => {
  test('of a long request is renewed until it ends', async () => {
    const actor = await openAccount(books, 'long', usd('1'))
    const { meter } = await startGateway()
    const reservation = await reserve(meter, shared(actor), usd('0.5'))
    for (let n = 0; n < 10; n += 1) {
      books.clock.advance(4 * MINUTE_MS)
      await meter.pass()
      await transact(books.database, (tx) => releaseExpiredHolds(tx, 100))
    }
    await finish(meter, reservation, callOf(actor, usd('0.5')))
    await meter.pass()
    const audits = await listAudit(books.database.db, { accountId: actor.accountId, limit: 10 })
    expect(audits).toEqual([])
    const { available, held } = await balances(actor)
    expect(available + held).toBe(usd('0.5'))
  })

  test('that expired while the gateway slept is not spent from, and what was under way is billed all the same', async () => {
    const actor = await openAccount(books, 'slept', usd('1'))
    const { meter } = await startGateway()
    const reservation = await reserve(meter, shared(actor), usd('0.3'))
    books.clock.advance(20 * MINUTE_MS)
    await transact(books.database, (tx) => releaseExpiredHolds(tx, 100))
    expect(meter.tryReserve(shared(actor), usd('0.01'))).toBeUndefined()
    await reserve(meter, shared(actor), usd('0.7'))
    await finish(meter, reservation, callOf(actor, usd('0.2')))
    await meter.pass()
    const audits = await listAudit(books.database.db, { accountId: actor.accountId, limit: 10 })
    expect(audits.map((row) => row.action)).toContain('purse.expired')
    const { available, held } = await balances(actor)
    expect(available + held).toBe(usd('0.8'))
    expect(await findings()).toEqual([])
  })
})

describe('a crash', () => {
  test('loses no request that was acknowledged: the next start bills each once and gives the purses back', async () => {
    const actor = await openAccount(books, 'crash', usd('10'))
    const dead = await startGateway()
    const ids: string[] = []
    for (let n = 0; n < 5; n += 1) ids.push(await serve(dead.meter, actor, usd('0.2'), usd('0.1')))
    // The books have these, but the answer never came; then some more, then the end.
    dead.fault = 'after'
    await dead.meter.pass()
    for (let n = 0; n < 3; n += 1) ids.push(await serve(dead.meter, actor, usd('0.02'), usd('0.01')))
    await reserve(dead.meter, shared(actor), usd('0.01'))
    started.length = 0

    const { meter } = await startGateway({ after: dead })
    expect(await costsOf(actor, ids)).toHaveLength(8)
    expect(await balances(actor)).toMatchObject({ available: usd('9.47'), held: 0n })
    expect(meter.figures().unsettled).toBe(0)
    expect(await findings()).toEqual([])
  })

  test('of the books at the start is told, and the journal waits', async () => {
    const actor = await openAccount(books, 'nostart', usd('10'))
    const dead = await startGateway()
    const id = await serve(dead.meter, actor, usd('0.2'), usd('0.1'))
    started.length = 0
    const log = { warn: () => {}, error: () => {} }
    const journal = new Journal({ dir: dead.dir, log })
    const away = () => Promise.reject(new Error('the database is away'))
    const treasury: MeterTreasury = {
      ...makeTreasury({ database: books.database, clock: books.clock, gatewayId: dead.gatewayId }),
      settle: away,
    }
    const second = makeMeter({ treasury, journal, clock: books.clock, log, seal: (text) => text })
    await expect(second.start()).rejects.toThrow('the database is away')
    await journal.close()
    await startGateway({ after: dead })
    expect(await costsOf(actor, [id])).toHaveLength(1)
  })
})

describe('a disk that is full', () => {
  test('lets nothing new begin, and what has ended is acknowledged once the books have it', async () => {
    const actor = await openAccount(books, 'full', usd('10'))
    let isFull = false
    const { meter } = await startGateway({
      write: (file, bytes, offset) => {
        if (isFull) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
        return fs.writeSync(file, bytes, offset)
      },
    })
    const first = await reserve(meter, shared(actor), usd('0.1'))
    isFull = true
    const call = callOf(actor, usd('0.1'))
    let isDone = false
    meter.finish(first, call, () => {
      isDone = true
    })
    await waitFor('the refusal', () => meter.tryReserve(shared(actor), zeroUsd) === undefined)
    expect(await meter.reserve(shared(actor), usd('0.01'))).toMatchObject({ kind: 'unavailable' })
    expect(isDone).toBe(false)
    await meter.pass()
    expect(isDone).toBe(true)
    expect(await costsOf(actor, [call.requestId])).toHaveLength(1)
    isFull = false
    await waitFor('room', async () => (await meter.reserve(shared(actor), usd('0.01'))).ok)
  })
})

describe('running and closing', () => {
  test('settles by itself, soon, and at once when many wait', async () => {
    const actor = await openAccount(books, 'running', usd('10'))
    const { meter } = await startGateway({ settleEveryMs: 20 })
    const ids: string[] = []
    for (let n = 0; n < 20; n += 1) ids.push(await serve(meter, actor, usd('0.02'), usd('0.01')))
    await waitFor('all settled', async () => (await costsOf(actor, ids)).length === 20)
    const { meter: slow } = await startGateway()
    for (let n = 0; n < 500; n += 1) void finish(slow, undefined, callOf(actor, zeroUsd))
    await waitFor('many settled', () => slow.figures().settled === 500)
    expect(slow.figures().unsettled).toBe(0)
  })

  test('close settles what is left and gives everything back', async () => {
    const actor = await openAccount(books, 'closing', usd('10'))
    const { meter } = await startGateway()
    const id = await serve(meter, actor, usd('3'), usd('0.5'))
    const open = await reserve(meter, shared(actor), usd('2'))
    await meter.close()
    expect(await costsOf(actor, [id])).toHaveLength(1)
    // What a request under way may still need stays until it ends, or until the purse does.
    expect(await balances(actor)).toMatchObject({ available: usd('7.5'), held: usd('2') })
    meter.cancel(open)
    await meter.close()
    expect(await balances(actor)).toMatchObject({ available: usd('9.5'), held: 0n })
  })
})
