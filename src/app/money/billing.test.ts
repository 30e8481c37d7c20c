import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMs, DAY_MS, HOUR_MS, instantOf, MINUTE_MS, type Instant } from '../../base/instant.ts'
import { costOfSpan, sumUsd, usd, zeroUsd } from '../../base/money.ts'
import type { Result } from '../../contract/result.ts'
import { transact } from '../../store/platform/database.ts'
import { readBalances } from '../../store/ledger/ledger.ts'
import { findRental, moveRental } from '../../store/rental/rental.ts'
import {
  buy,
  chargeInference,
  endRental,
  infer,
  openAccount,
  openTestLedger,
  refund,
  settle,
  startRental,
  startVolume,
  type TestLedger,
} from '../../../test/harness/ledger.ts'
import type { Actor } from '../app.ts'
import { readBalance, readCostsOfRequests, readPurchases, readStatement, readUsage } from './billing.ts'
import { listInvoices, readInvoice } from './invoice.ts'

function valueOf<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(result.message)
  return result.value
}

let ledger: TestLedger
let actor: Actor
let stranger: Actor
const START = instantOf(Date.UTC(2026, 9, 30, 22))
const ids = { vm: 0, metal: 0, volume: 0 }
const vm = { pricePerHour: usd('23.92'), label: 'llama-train' }
const metal = { pricePerHour: usd('3.337'), kind: 'bare-metal' as const }

/** Two months of a customer: payments, two machines, a volume, requests, a refund. */
beforeAll(async () => {
  ledger = await openTestLedger(START)
  actor = await openAccount(ledger, 'northwind')
  stranger = await openAccount(ledger, 'stranger', usd('7'))
  const { clock } = ledger
  await buy(ledger, actor.accountId, usd('2000'), 'wire transfer 88120')
  ids.vm = await startRental(ledger, actor, vm)
  ids.volume = await startVolume(ledger, actor, usd('0.000097'), 1_024)
  const every = async (ms: number, times: number, ...things: Array<Parameters<typeof settle>[1]>) => {
    for (let n = 0; n < times; n += 1) {
      clock.advance(ms)
      for (const thing of things) await settle(ledger, thing)
    }
  }
  const vmMeter = { rentalId: ids.vm, volumeId: null }
  const volumeMeter = { rentalId: null, volumeId: ids.volume }
  // Past midnight of the month: one charge covers the last of October and the first of November.
  await every(17 * MINUTE_MS + 1, 110, vmMeter, volumeMeter)
  await infer(ledger, actor, 'req_1', 'llama-70b', usd('0.012345678'), actor.keyId)
  await infer(ledger, actor, 'req_2', 'llama-70b', usd('0.2'), actor.keyId)
  await infer(ledger, actor, 'req_3', 'flux', usd('0.003'), null)
  await chargeInference(ledger, actor, 'llama-70b', usd('0.212345678'), actor.keyId)
  await chargeInference(ledger, actor, 'flux', usd('0.003'), null)
  clock.advance(HOUR_MS)
  await endRental(ledger, ids.vm)
  await refund(ledger, actor.accountId, ids.vm, usd('12.5'))
  ids.metal = await startRental(ledger, actor, metal)
  await every(5 * MINUTE_MS, 10, { rentalId: ids.metal, volumeId: null })
  clock.advance(90_001)
})
afterAll(() => ledger.close())

const vmSpan = 110 * (17 * MINUTE_MS + 1) + HOUR_MS
const vmCost = costOfSpan(vm.pricePerHour, vmSpan)
const metalCost = (until: Instant) => costOfSpan(metal.pricePerHour, until - addMs(START, vmSpan))
const volumePrice = usd('0.099328')

describe('balance', () => {
  test('is the customer’s money less the cost since the last charge', async () => {
    const { clock, database } = ledger
    const balance = valueOf(await readBalance(ledger.app, actor))
    const spent = [vmCost, metalCost(clock.now()), costOfSpan(volumePrice, clock.now() - START), usd('0.215345678')]
    expect(balance.balance).toBe(usd('2012.5') - sumUsd(spent))
    // Unsettled cost is paid from the holds first: the volume has exceeded its own, the machine has not.
    const balances = await readBalances(database.db, actor.accountId)
    expect(balance.available < balances.available && balance.held < balances.held).toBe(true)
    expect(balance.available + balance.held).toBe(balance.balance)
    expect(balance.hourlySpend).toBe(metal.pricePerHour + volumePrice)
    const left = costOfSpan(balance.hourlySpend, (balance.emptyAt ?? 0) - clock.now())
    expect(left <= balance.balance && left > balance.balance - 1_000n).toBe(true)
  })

  test('has no runway limit without running resources', async () => {
    expect(valueOf(await readBalance(ledger.app, stranger))).toMatchObject({
      balance: usd('7'),
      available: usd('7'),
      held: zeroUsd,
      earnings: zeroUsd,
      hourlySpend: zeroUsd,
      emptyAt: null,
    })
  })

  test('does not change while the machine is Unknown, and never goes below zero', async () => {
    const lost = await openAccount(ledger, 'lost', usd('3'))
    const rentalId = await startRental(ledger, lost, { pricePerHour: usd('2') })
    const seen = ledger.clock.now()
    const read = async () => valueOf(await readBalance(ledger.app, lost)).balance
    ledger.clock.advance(HOUR_MS)
    expect(await read()).toBe(usd('1'))
    await transact(ledger.database, (tx) => moveRental(tx, rentalId, 'Unknown', { seen_at: addMs(seen, HOUR_MS / 2) }))
    expect(await read()).toBe(usd('2'))
    ledger.clock.advance(HOUR_MS)
    expect(await read()).toBe(usd('2'))
    await transact(ledger.database, (tx) => moveRental(tx, rentalId, 'Running', {}))
    expect(await read()).toBe(usd('0'))
    await endRental(ledger, rentalId)
    expect(await read()).toBe(usd('0'))
  })
})

describe('statement', () => {
  test('balances are continuous, and the newest is the current one', async () => {
    const lines = valueOf(await readStatement(ledger.app, actor, { limit: 1_000 }))
    const { available, held } = await readBalances(ledger.database.db, actor.accountId)
    expect(lines[0]?.balanceAfter).toBe(available + held)
    for (const [n, line] of lines.entries()) {
      const before = lines[n + 1]?.balanceAfter ?? zeroUsd
      expect(line.balanceAfter).toBe(before + line.amount)
    }
    expect(lines.at(-1)).toMatchObject({ kind: 'purchase', amount: usd('2000'), memo: 'wire transfer 88120' })
    expect(lines.some((line) => ['hold', 'release'].includes(line.kind))).toBe(false)
    expect(lines.find((line) => line.kind === 'refund')).toMatchObject({
      amount: usd('12.5'),
      rentalId: ids.vm,
      reason: 'host rebooted',
    })
  })

  test.each([1, 7, 100])('pages of %s contain every line once', async (limit) => {
    const whole = valueOf(await readStatement(ledger.app, actor, { limit: 1_000 }))
    const pieces: typeof whole = []
    for (;;) {
      const last = pieces.at(-1)
      const before = last === undefined ? {} : { before: { at: last.at, id: last.id } }
      const page = valueOf(await readStatement(ledger.app, actor, { limit, ...before }))
      pieces.push(...page)
      if (page.length < limit) break
    }
    expect(pieces).toEqual(whole)
  })

  test('contains only the lines of the account', async () => {
    const lines = valueOf(await readStatement(ledger.app, stranger, { limit: 10 }))
    expect(lines.map((line) => [line.amount, line.balanceAfter])).toEqual([[usd('7'), usd('7')]])
  })
})

describe('invoices', () => {
  const invoice = async (month: string) => valueOf(await readInvoice(ledger.app, actor, { month }))

  test('exist for each month with a change, newest first; the current month is open', async () => {
    const invoices = valueOf(await listInvoices(ledger.app, actor))
    expect(invoices.map(({ number, month, status }) => ({ number, month, status }))).toEqual([
      { number: 'B-orthwind-2026-11', month: '2026-11', status: 'open' },
      { number: 'B-orthwind-2026-10', month: '2026-10', status: 'final' },
    ])
    for (const { month, charges } of invoices) expect((await invoice(month)).charges).toBe(charges)
  })

  test('opening plus payments less charges is closing, which opens the next month', async () => {
    const [october, november] = [await invoice('2026-10'), await invoice('2026-11')]
    for (const one of [october, november]) {
      expect(one.opening + one.paid - one.charges).toBe(one.closing)
      expect(sumUsd(one.lines.map((line) => line.amount))).toBe(one.charges)
      expect(sumUsd(one.payments.map((line) => line.amount))).toBe(one.paid)
    }
    expect(october).toMatchObject({ opening: 0n, paid: usd('2000'), issuedAt: Date.UTC(2026, 10, 1) })
    expect(november.opening).toBe(october.closing)
    const { available, held } = await readBalances(ledger.database.db, actor.accountId)
    expect(november.closing).toBe(available + held)
    expect(november).toMatchObject({ issuedAt: ledger.clock.now(), account: { name: 'northwind Ltd' } })
  })

  test('a line has item, duration and price; months divide the time without a gap', async () => {
    const [october, november] = [await invoice('2026-10'), await invoice('2026-11')]
    const name = (await findRental(ledger.database.db, ids.vm))?.name
    const what = `Virtual machine ${name} “llama-train” (rental ${ids.vm}), 8 × H100, mock-region`
    const machine = [october, november].map((one) => one.lines.find((line) => line.description === what))
    expect(machine.map((line) => line?.unitPrice)).toEqual([vm.pricePerHour, vm.pricePerHour])
    expect(machine.reduce((sum, line) => sum + (line?.amount ?? 0n), 0n)).toBe(vmCost)
    const hours = machine.map((line) => Number.parseFloat(line?.quantity ?? ''))
    expect((hours[0] ?? 0) + (hours[1] ?? 0)).toBeCloseTo(vmSpan / HOUR_MS, 3)
    expect(machine[0]?.quantity).toBe('25.7834 hours')

    expect(november.lines.slice(1).map(({ quantity, unitPrice }) => [quantity, unitPrice])).toEqual([
      ['0.8333 hours', metal.pricePerHour],
      [expect.stringMatching(/^5,\d{3}\.\d{4} GB-hours$/), usd('0.000097')],
      ['1 request', null],
      ['2 requests', null],
    ])
    expect(november.lines.slice(3).map(({ description, amount }) => [description, amount])).toEqual([
      ['Inference, flux', usd('0.003')],
      ['Inference, llama-70b', usd('0.212345678')],
    ])
    expect(november.payments).toEqual([
      {
        description: `Refund of rental ${ids.vm} – host rebooted`,
        quantity: '2026-11-01',
        unitPrice: null,
        amount: usd('12.5'),
      },
    ])
    expect(october.payments.map((line) => line.description)).toEqual([
      'Payment: wire transfer 88120 – a test needs money',
    ])
  })

  test.each(['2026-09', '2027-01', '0001-01', '9999-12'])('do not exist for %s', async (month) => {
    expect(await readInvoice(ledger.app, actor, { month })).toMatchObject({ ok: false, kind: 'not_found' })
  })
})

describe('usage', () => {
  const usage = async (by: 'day' | 'model' | 'key' | 'rental', more: { from?: string; to?: string } = {}) =>
    valueOf(await readUsage(ledger.app, actor, { by, ...more }))

  test('adds up to the invoices in every grouping', async () => {
    const invoices = valueOf(await listInvoices(ledger.app, actor))
    const charged = sumUsd(invoices.map((one) => one.charges)) - usd('12.5')
    for (const by of ['day', 'model', 'key', 'rental'] as const) {
      const { total, groups } = await usage(by)
      expect(total).toBe(charged)
      expect(sumUsd(groups.map((group) => group.cost))).toBe(total)
      expect(groups.reduce((sum, group) => sum + group.requests, 0)).toBe(3)
    }
  })

  test('by rental: subtracts a refund from its rental', async () => {
    const groups = new Map((await usage('rental')).groups.map((group) => [group.group, group]))
    expect(groups.get(String(ids.vm))?.cost).toBe(vmCost - usd('12.5'))
    expect(groups.get('inference')).toMatchObject({ cost: usd('0.215345678'), requests: 3 })
    expect([...groups.keys()].sort()).toEqual([String(ids.vm), String(ids.metal), 'inference', 'storage'].sort())
  })

  test('by model and by key', async () => {
    const models = (await usage('model')).groups.map(({ group, requests }) => [group, requests])
    expect(models).toEqual([
      ['machines', 0],
      ['storage', 0],
      ['llama-70b', 2],
      ['flux', 1],
    ])
    const keys = (await usage('key')).groups.map(({ group, requests }) => [group, requests])
    expect(keys).toEqual([
      [actor.keyId, 2],
      ['no key', 1],
    ])
  })

  test('by day: includes both ends', async () => {
    const days = await usage('day', { from: '2026-10-30', to: '2026-10-31' })
    expect(days).toMatchObject({ from: '2026-10-30', to: '2026-10-31' })
    expect(days.groups.map((group) => group.group)).toEqual(['2026-10-30', '2026-10-31'])
    expect(days.total).toBe((await readInvoice(ledger.app, actor, { month: '2026-10' }).then(valueOf)).charges)
    expect((await usage('day', { from: '9999-12-31', to: '9999-12-31' })).groups).toEqual([])
    expect((await usage('day', { from: '0001-01-01', to: '0001-12-31' })).groups).toEqual([])
  })

  test('daily: the days of each group add up to the group, for up to 31 days', async () => {
    const daily = (by: 'model' | 'key' | 'rental', from: string) =>
      readUsage(ledger.app, actor, { by, from, to: '2026-11-01', daily: true })
    for (const by of ['model', 'key', 'rental'] as const) {
      const { groups, days = [] } = valueOf(await daily(by, '2026-10-02'))
      expect(groups.length).toBeGreaterThan(1)
      for (const { group, cost } of groups) {
        expect(sumUsd(days.filter((one) => one.group === group).map((one) => one.cost))).toBe(cost)
      }
      expect(days.map(({ day }) => day)).toEqual(days.map(({ day }) => day).toSorted())
    }
    expect(await daily('model', '2026-10-01')).toMatchObject({ ok: false, reason: 'bad_range' })
    expect((await usage('model')).days).toBeUndefined()
  })

  test('covers the last thirty days by default, as costs do (issue 31, 10 F9)', async () => {
    const today = Math.floor(ledger.clock.now() / DAY_MS) * DAY_MS
    const day = (ms: number) => new Date(ms).toISOString().slice(0, 10)
    expect(await usage('day')).toMatchObject({ from: day(today - 29 * DAY_MS), to: day(today) })
    expect(await usage('day', { to: '2026-11-01' })).toMatchObject({ from: '2026-10-03', to: '2026-11-01' })
  })

  test.each([
    ['2026-11-02', '2026-11-01'],
    ['2025-01-01', '2026-01-02'],
  ])('from %s to %s is refused', async (from, to) => {
    const refused = await readUsage(ledger.app, actor, { by: 'day', from, to })
    expect(refused).toMatchObject({ ok: false, kind: 'invalid', reason: 'bad_range', issues: [{ path: ['from'] }] })
    expect((await readUsage(ledger.app, actor, { by: 'day', from: '2024-01-01', to: '2024-12-31' })).ok).toBe(true)
  })
})

describe('costs and purchases', () => {
  test('returns own requests once each, and skips unknown ids', async () => {
    const requestIds = ['req_2', 'req_none', 'req_1', 'req_2']
    const costs = valueOf(await readCostsOfRequests(ledger.app, actor, { requestIds }))
    expect(costs.toSorted((a, b) => a.requestId.localeCompare(b.requestId))).toEqual([
      { requestId: 'req_1', cost: usd('0.012345678') },
      { requestId: 'req_2', cost: usd('0.2') },
    ])
    expect(valueOf(await readCostsOfRequests(ledger.app, stranger, { requestIds }))).toEqual([])
    expect(valueOf(await readCostsOfRequests(ledger.app, actor, { requestIds: [] }))).toEqual([])
  })

  test('purchases list all received money with its source, newest first', async () => {
    expect(valueOf(await readPurchases(ledger.app, actor))).toEqual([
      { at: addMs(START, vmSpan), amount: usd('12.5'), source: 'refund', memo: `Refund of rental ${ids.vm}` },
      { at: START, amount: usd('2000'), source: 'stripe_purchase', memo: 'wire transfer 88120' },
    ])
  })
})
