/** The promises while the database is away, after a crash and on a full disk: nothing is lost, and nothing billed twice. */
import * as fs from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openAccount } from '../../test/harness/books.ts'
import {
  callOf,
  costsOf,
  finish,
  forgetGateways,
  reserve,
  serve,
  startGateway,
} from '../../test/harness/metered-gateway.ts'
import { openPurseBooks, sharedPurse, type PurseBooks } from '../../test/harness/purse-books.ts'
import { waitFor } from '../../test/harness/wait.ts'
import { makeTreasury } from '../app/treasury.ts'
import { SECOND_MS } from '../base/instant.ts'
import { usd, zeroUsd } from '../base/money.ts'
import { Journal } from './journal.ts'
import { makeMeter, type MeterTreasury } from './meter.ts'

let books: PurseBooks
beforeAll(async () => {
  books = await openPurseBooks()
})
afterAll(() => books.close())

describe('without the database', () => {
  test('requests continue until the purse is empty, are then refused, and all are settled when it is back', async () => {
    const actor = await openAccount(books, 'away', usd('10'))
    const gateway = await startGateway(books)
    const { meter } = gateway
    const ids = [await serve(books, meter, actor, usd('0.02'), usd('0.01'))]
    gateway.fault = 'before'
    for (let n = 0; n < 3; n += 1) ids.push(await serve(books, meter, actor, usd('0.02'), usd('0.01')))
    await meter.pass()
    expect(meter.tryReserve(sharedPurse(actor), usd('5'))).toBeUndefined()
    expect(await meter.reserve(sharedPurse(actor), usd('5'))).toMatchObject({
      kind: 'unavailable',
      reason: 'balance_unreachable',
      retryAfterMs: 2_000,
    })
    expect(meter.figures()).toMatchObject({ unsettled: 4, settleFailures: 1 })
    expect(ids.map((id) => meter.costOf(id)?.cost)).toEqual(ids.map(() => usd('0.01')))
    expect(gateway.told).toContain('could not settle requests; they wait in the journal')

    gateway.fault = 'none'
    await meter.pass()
    expect(meter.figures().unsettled).toBe(0)
    expect(await costsOf(books, actor, ids)).toHaveLength(4)
    expect(gateway.told.at(-1)).toBe('settling works again')
    expect((await reserve(meter, sharedPurse(actor), usd('5'))).amount).toBe(usd('5'))
    expect(await books.findings()).toEqual([])
  })

  test('lost answers charge nothing twice and leave no money behind', async () => {
    const actor = await openAccount(books, 'lost', usd('10'))
    const gateway = await startGateway(books)
    const { meter } = gateway
    await serve(books, meter, actor, usd('0.02'), usd('0.01'))
    gateway.fault = 'after'
    // Granted, but nobody heard of it.
    expect(await meter.reserve(sharedPurse(actor), usd('1'))).toMatchObject({ kind: 'unavailable' })
    await serve(books, meter, actor, usd('0.02'), usd('0.01'))
    await meter.pass()
    await meter.pass()
    expect(meter.figures().unsettled).toBe(2)
    gateway.fault = 'none'
    books.clock.advance(SECOND_MS)
    await meter.pass()
    expect(meter.figures().unsettled).toBe(0)
    // The recount has found what was granted, and what nobody needs of it has gone back.
    const { available, held } = await books.balances(actor)
    expect(available + held).toBe(usd('9.98'))
    expect(held).toBeLessThan(usd('0.2'))
    books.clock.advance(31 * SECOND_MS)
    await meter.pass()
    expect(await books.balances(actor)).toMatchObject({ available: usd('9.98'), held: 0n })
    expect(await books.findings()).toEqual([])
  })

  test('accepts no more than the memory limit', async () => {
    const actor = await openAccount(books, 'flood', usd('1'))
    const gateway = await startGateway(books, { unsettledRecords: 1_500 })
    const { meter } = gateway
    gateway.fault = 'before'
    const first = await reserve(meter, sharedPurse(actor), zeroUsd)
    meter.cancel(first)
    const done: Array<Promise<string>> = []
    for (let n = 0; n < 1_500; n += 1) done.push(finish(meter, undefined, callOf(books, actor, zeroUsd)))
    await Promise.all(done)
    expect(meter.tryReserve(sharedPurse(actor), zeroUsd)).toBeUndefined()
    expect(await meter.reserve(sharedPurse(actor), zeroUsd)).toMatchObject({
      kind: 'unavailable',
      reason: 'cannot_record',
    })
    gateway.fault = 'none'
    await meter.pass()
    expect(meter.figures()).toMatchObject({ unsettled: 0, settled: 1_500 })
    expect(meter.tryReserve(sharedPurse(actor), zeroUsd)).toBeDefined()
  })
})

describe('a crash', () => {
  test('loses no acknowledged request: the next start charges each once and gives the purses back', async () => {
    const actor = await openAccount(books, 'crash', usd('10'))
    const dead = await startGateway(books)
    const ids: string[] = []
    for (let n = 0; n < 5; n += 1) ids.push(await serve(books, dead.meter, actor, usd('0.2'), usd('0.1')))
    // The books have these, but the answer never came; then some more, then the end.
    dead.fault = 'after'
    await dead.meter.pass()
    for (let n = 0; n < 3; n += 1) ids.push(await serve(books, dead.meter, actor, usd('0.02'), usd('0.01')))
    await reserve(dead.meter, sharedPurse(actor), usd('0.01'))
    forgetGateways()

    const { meter } = await startGateway(books, { after: dead })
    expect(await costsOf(books, actor, ids)).toHaveLength(8)
    expect(await books.balances(actor)).toMatchObject({ available: usd('9.47'), held: 0n })
    expect(meter.figures().unsettled).toBe(0)
    expect(await books.findings()).toEqual([])
  })

  test('of the database at startup is reported, and the journal waits', async () => {
    const actor = await openAccount(books, 'nostart', usd('10'))
    const dead = await startGateway(books)
    const id = await serve(books, dead.meter, actor, usd('0.2'), usd('0.1'))
    forgetGateways()
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
    await startGateway(books, { after: dead })
    expect(await costsOf(books, actor, [id])).toHaveLength(1)
  })
})

describe('a full disk', () => {
  test('stops new requests; finished ones are acknowledged once settled', async () => {
    const actor = await openAccount(books, 'full', usd('10'))
    let isFull = false
    const { meter } = await startGateway(books, {
      write: (file, bytes, offset) => {
        if (isFull) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
        return fs.writeSync(file, bytes, offset)
      },
    })
    const first = await reserve(meter, sharedPurse(actor), usd('0.1'))
    isFull = true
    const call = callOf(books, actor, usd('0.1'))
    let isDone = false
    meter.finish(first, call, () => {
      isDone = true
    })
    await waitFor('the refusal', () => meter.tryReserve(sharedPurse(actor), zeroUsd) === undefined)
    expect(await meter.reserve(sharedPurse(actor), usd('0.01'))).toMatchObject({ kind: 'unavailable' })
    expect(isDone).toBe(false)
    await meter.pass()
    expect(isDone).toBe(true)
    expect(await costsOf(books, actor, [call.requestId])).toHaveLength(1)
    isFull = false
    await waitFor('room', async () => (await meter.reserve(sharedPurse(actor), usd('0.01'))).ok)
  })
})
