/** While the database is down, after a crash and on a full disk, nothing is lost and nothing is billed twice. */
import * as fs from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openAccount } from '../../../test/harness/ledger.ts'
import {
  callOf,
  costsOf,
  finish,
  forgetGateways,
  reserve,
  serve,
  startGateway,
} from '../../../test/harness/metered-gateway.ts'
import { openPurseLedger, sharedPurse, type PurseLedger } from '../../../test/harness/purse-ledger.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { makeTreasury } from '../../app/money/treasury.ts'
import { SECOND_MS } from '../../base/instant.ts'
import { usd, zeroUsd } from '../../base/money.ts'
import { Journal } from '../journal/journal.ts'
import { makeMeter } from './meter.ts'
import type { MeterTreasury } from './meter-options.ts'

let ledger: PurseLedger
beforeAll(async () => {
  ledger = await openPurseLedger()
})
afterAll(() => ledger.close())

describe('without the database', () => {
  test('requests continue until the purse is empty, are then refused, and all are settled when it is back', async () => {
    const actor = await openAccount(ledger, 'away', usd('10'))
    const gateway = await startGateway(ledger)
    const { meter } = gateway
    const ids = [await serve(ledger, meter, actor, usd('0.02'), usd('0.01'))]
    gateway.fault = 'before'
    for (let n = 0; n < 3; n += 1) ids.push(await serve(ledger, meter, actor, usd('0.02'), usd('0.01')))
    await meter.pass()
    expect(meter.tryReserve(sharedPurse(actor), usd('5'))).toBeUndefined()
    expect(await meter.reserve(sharedPurse(actor), usd('5'))).toMatchObject({
      kind: 'unavailable',
      reason: 'balance_unreachable',
      retryAfterMs: 2_000,
    })
    expect(meter.figures()).toMatchObject({ unsettled: 4, settleFailures: 1 })
    expect(ids.map((id) => meter.costOf(id)?.cost)).toEqual(ids.map(() => usd('0.01')))
    expect(gateway.reported).toContain('could not settle requests; they wait in the journal')

    gateway.fault = 'none'
    await meter.pass()
    expect(meter.figures().unsettled).toBe(0)
    expect(await costsOf(ledger, actor, ids)).toHaveLength(4)
    expect(gateway.reported.at(-1)).toBe('settling works again')
    expect((await reserve(meter, sharedPurse(actor), usd('5'))).amount).toBe(usd('5'))
    expect(await ledger.findings()).toEqual([])
  })

  test('lost answers charge nothing twice and leave no money behind', async () => {
    const actor = await openAccount(ledger, 'lost', usd('10'))
    const gateway = await startGateway(ledger)
    const { meter } = gateway
    await serve(ledger, meter, actor, usd('0.02'), usd('0.01'))
    gateway.fault = 'after'
    // Granted, but the answer was lost.
    expect(await meter.reserve(sharedPurse(actor), usd('1'))).toMatchObject({ kind: 'unavailable' })
    await serve(ledger, meter, actor, usd('0.02'), usd('0.01'))
    await meter.pass()
    await meter.pass()
    expect(meter.figures().unsettled).toBe(2)
    gateway.fault = 'none'
    ledger.clock.advance(SECOND_MS)
    await meter.pass()
    expect(meter.figures().unsettled).toBe(0)
    // The recount found the granted money and returned the unused part.
    const { available, held } = await ledger.balances(actor)
    expect(available + held).toBe(usd('9.98'))
    expect(held).toBeLessThan(usd('0.2'))
    ledger.clock.advance(31 * SECOND_MS)
    await meter.pass()
    expect(await ledger.balances(actor)).toMatchObject({ available: usd('9.98'), held: 0n })
    expect(await ledger.findings()).toEqual([])
  })

  test('accepts no more than the memory limit', async () => {
    const actor = await openAccount(ledger, 'flood', usd('1'))
    const gateway = await startGateway(ledger, { unsettledRecords: 1_500 })
    const { meter } = gateway
    gateway.fault = 'before'
    const first = await reserve(meter, sharedPurse(actor), zeroUsd)
    meter.cancel(first)
    const done: Array<Promise<string>> = []
    for (let n = 0; n < 1_500; n += 1) done.push(finish(meter, undefined, callOf(ledger, actor, zeroUsd)))
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
    const actor = await openAccount(ledger, 'crash', usd('10'))
    const dead = await startGateway(ledger)
    const ids: string[] = []
    for (let n = 0; n < 5; n += 1) ids.push(await serve(ledger, dead.meter, actor, usd('0.2'), usd('0.1')))
    // The ledger has these, but the answer was lost; then more requests, then a crash.
    dead.fault = 'after'
    await dead.meter.pass()
    for (let n = 0; n < 3; n += 1) ids.push(await serve(ledger, dead.meter, actor, usd('0.02'), usd('0.01')))
    await reserve(dead.meter, sharedPurse(actor), usd('0.01'))
    forgetGateways()

    const { meter } = await startGateway(ledger, { after: dead })
    expect(await costsOf(ledger, actor, ids)).toHaveLength(8)
    expect(await ledger.balances(actor)).toMatchObject({ available: usd('9.47'), held: 0n })
    expect(meter.figures().unsettled).toBe(0)
    expect(await ledger.findings()).toEqual([])
  })

  test('of the database at startup is reported, and the journal waits', async () => {
    const actor = await openAccount(ledger, 'nostart', usd('10'))
    const dead = await startGateway(ledger)
    const id = await serve(ledger, dead.meter, actor, usd('0.2'), usd('0.1'))
    forgetGateways()
    const log = { warn: () => {}, error: () => {} }
    const journal = new Journal({ dir: dead.dir, log })
    const away = () => Promise.reject(new Error('the database is away'))
    const treasury: MeterTreasury = {
      ...makeTreasury({ database: ledger.database, clock: ledger.clock, gatewayId: dead.gatewayId }),
      settle: away,
    }
    const second = makeMeter({ treasury, journal, clock: ledger.clock, log, seal: (text) => text })
    await expect(second.start()).rejects.toThrow('the database is away')
    await journal.close()
    await startGateway(ledger, { after: dead })
    expect(await costsOf(ledger, actor, [id])).toHaveLength(1)
  })
})

describe('a full disk', () => {
  test('stops new requests; finished ones are acknowledged once settled', async () => {
    const actor = await openAccount(ledger, 'full', usd('10'))
    let isFull = false
    const { meter } = await startGateway(ledger, {
      write: (file, bytes, offset) => {
        if (isFull) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
        return fs.writeSync(file, bytes, offset)
      },
    })
    const first = await reserve(meter, sharedPurse(actor), usd('0.1'))
    isFull = true
    const call = callOf(ledger, actor, usd('0.1'))
    let isDone = false
    meter.finish(first, call, () => {
      isDone = true
    })
    await waitFor('the refusal', () => meter.tryReserve(sharedPurse(actor), zeroUsd) === undefined)
    expect(await meter.reserve(sharedPurse(actor), usd('0.01'))).toMatchObject({ kind: 'unavailable' })
    expect(isDone).toBe(false)
    await meter.pass()
    expect(isDone).toBe(true)
    expect(await costsOf(ledger, actor, [call.requestId])).toHaveLength(1)
    isFull = false
    await waitFor('free memory', async () => (await meter.reserve(sharedPurse(actor), usd('0.01'))).ok)
  })
})
