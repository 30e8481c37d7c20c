/** Costs and the statement by day, compared with the postings and transfers they are made of. */
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMs, DAY_MS, formatInstant, HOUR_MS, instantOf, MINUTE_MS } from '../../base/instant.ts'
import { costOfSpan, nanoUsdOf, sumUsd, usd, type NanoUsd } from '../../base/money.ts'
import type { CostGrouping } from '../../contract/cost.ts'
import type { Result } from '../../contract/result.ts'
import { readBalances } from '../../store/ledger/ledger.ts'
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
import { exportStatement, readCosts, readDailyStatement } from './cost.ts'
import { verifyLedger } from './ledger-verify.ts'

function valueOf<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(result.message)
  return result.value
}

const START = instantOf(Date.UTC(2026, 9, 30, 22))
const groupings: readonly CostGrouping[] = ['kind', 'resource', 'key', 'label', 'member']
let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger(START)
})
afterAll(() => ledger.close())

/** Charges less refunds by day, from the transfers. */
async function chargedByDay(accountId: string): Promise<Map<string, NanoUsd>> {
  const result = await sql<{ day: string; cost: NanoUsd }>`
    select to_char(p.at at time zone 'UTC', 'YYYY-MM-DD') as day,
           sum(case when f.account_id = ${accountId} then t.amount_nano else -t.amount_nano end)::bigint as cost
    from posting p join transfer t on t.posting_id = p.id
    join ledger_account f on f.id = t.from_id join ledger_account o on o.id = t.to_id
    where p.account_id = ${accountId} and p.kind in ('charge', 'refund') and ${accountId} in (f.account_id, o.account_id)
    group by 1`.execute(ledger.database.db)
  return new Map(result.rows.map(({ day, cost }) => [day, cost]))
}

async function balanceOf(accountId: string): Promise<NanoUsd> {
  const { available, held } = await readBalances(ledger.database.db, accountId)
  return nanoUsdOf(available + held)
}

/** Reads everything there is, and compares it with the ledger. */
async function expectExact(actor: Actor): Promise<void> {
  const charged = await chargedByDay(actor.accountId)
  const total = sumUsd(charged.values())
  const range = { from: '2026-10-01', to: '2027-08-01' }
  for (const groupBy of groupings) {
    for (const limit of [1, 10]) {
      const costs = valueOf(await readCosts(ledger.app, actor, { ...range, groupBy, limit }))
      expect(costs.total).toBe(total)
      expect(sumUsd(costs.groups.map(({ cost }) => cost))).toBe(total)
      expect(costs.groups.length).toBeLessThanOrEqual(limit + 1)
      for (const { day, cost, costs: parts } of costs.days) {
        expect([day, cost]).toEqual([day, charged.get(day) ?? 0n])
        expect(sumUsd(parts)).toBe(cost)
      }
    }
  }
  const statement = valueOf(await readDailyStatement(ledger.app, actor, { ...range, limit: 10_000 }))
  expect(statement.opening).toBe(0n)
  expect(statement.closing).toBe(await balanceOf(actor.accountId))
  expect(sumUsd(statement.lines.map(({ amount }) => amount))).toBe(statement.closing)
  expect(statement.lines.at(-1)?.balanceAfter ?? 0n).toBe(statement.closing)
  const keys = statement.lines.map(({ day, kind, rentalId, volumeId, model }) =>
    JSON.stringify([day, kind, rentalId, volumeId, model]),
  )
  expect(new Set(keys).size).toBe(keys.length)
}

type Step =
  | { readonly do: 'rent' | 'volume' | 'buy' | 'end' | 'refund' }
  | { readonly do: 'infer'; readonly nano: bigint }
  | { readonly do: 'wait'; readonly ms: number }

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    fc.constantFrom<Step>({ do: 'rent' }, { do: 'volume' }, { do: 'buy' }, { do: 'end' }, { do: 'refund' }),
    fc.record({ do: fc.constant('infer' as const), nano: fc.bigInt({ min: 1n, max: 10n ** 9n }) }),
    fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 40 * HOUR_MS }) }),
  ),
  { minLength: 4, maxLength: 14 },
)

let runs = 0

test('costs and statement add up to the ledger, to the nano-dollar, whatever an account does', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (script) => {
      runs += 1
      const actor = await openAccount(ledger, `prop${runs}`, usd('100000'))
      const rentals: number[] = []
      const meters: Array<Parameters<typeof settle>[1]> = []
      for (const [n, step] of script.entries()) {
        const [first] = rentals
        if (step.do === 'rent') {
          rentals.push(await startRental(ledger, actor, { pricePerHour: usd('1.337'), label: `label ${n % 2}` }))
          meters.push({ rentalId: rentals.at(-1) ?? 0, volumeId: null })
        } else if (step.do === 'volume') {
          meters.push({ rentalId: null, volumeId: await startVolume(ledger, actor, usd('0.000097'), 1_024) })
        } else if (step.do === 'buy') await buy(ledger, actor.accountId, usd('7.25'))
        else if (step.do === 'infer') {
          const key = n % 2 === 0 ? actor.keyId : null
          const [model, cost] = [`model-${runs}-${n}`, nanoUsdOf(step.nano)]
          await infer(ledger, actor, `req_${runs}_${n}`, model, cost, key)
          await chargeInference(ledger, actor, model, cost, key)
        } else if (step.do === 'wait') {
          ledger.clock.advance(step.ms)
          for (const meter of meters) await settle(ledger, meter)
        } else if (first !== undefined && step.do === 'refund') {
          await refund(ledger, actor.accountId, first, usd('0.000000001'))
          ledger.clock.advance(1)
        } else if (first !== undefined && step.do === 'end') {
          await endRental(ledger, first)
          meters.splice(
            meters.findIndex(({ rentalId }) => rentalId === first),
            1,
          )
          rentals.shift()
        }
      }
      await expectExact(actor)
    }),
    { numRuns: 8 },
  )
  expect(valueOf(await verifyLedger(ledger.app)).findings).toEqual([])
})

describe('a customer with machines, storage and models', () => {
  let actor: Actor
  let vm = 0
  let from = ''
  beforeAll(async () => {
    const { clock } = ledger
    // The first minute of a month.
    clock.advance(
      instantOf(Date.UTC(2026, 11, 1, 0, 1)) > clock.now() ? Date.UTC(2026, 11, 1, 0, 1) - clock.now() : 40 * DAY_MS,
    )
    from = formatInstant(clock.now()).slice(0, 10)
    actor = await openAccount(ledger, 'mixed', usd('1000'))
    vm = await startRental(ledger, actor, { pricePerHour: usd('6'), label: 'training' })
    const volumeId = await startVolume(ledger, actor, usd('0.0001'), 1_000)
    for (let n = 0; n < 60; n += 1) {
      clock.advance(5 * MINUTE_MS)
      await settle(ledger, { rentalId: vm, volumeId: null })
    }
    await settle(ledger, { rentalId: null, volumeId })
    await chargeInference(ledger, actor, 'mixed-model', usd('0.75'), actor.keyId)
    clock.advance(MINUTE_MS)
  })

  const read = async (groupBy: CostGrouping, limit = 10) =>
    valueOf(await readCosts(ledger.app, actor, { from, groupBy, limit }))

  test('sees costs by kind, resource, key, label and member', async () => {
    const named = async (groupBy: CostGrouping) => (await read(groupBy)).groups.map(({ name, cost }) => [name, cost])
    expect(await named('kind')).toEqual([
      ['machines', usd('30')],
      ['models', usd('0.75')],
      ['storage', usd('0.5')],
    ])
    expect(await named('resource')).toEqual([
      ['training', usd('30')],
      ['mixed-model', usd('0.75')],
      ['datasets', usd('0.5')],
    ])
    expect(await named('key')).toEqual([['mixed', usd('31.25')]])
    expect(await named('label')).toEqual([
      ['training', usd('30')],
      ['No label', usd('0.75')],
      ['datasets', usd('0.5')],
    ])
    expect((await read('member')).groups).toMatchObject([{ id: actor.personId, service: null, cost: usd('31.25') }])
  })

  test('sees the groups beyond the largest as one', async () => {
    expect((await read('kind', 1)).groups).toEqual([
      { id: 'machines', name: 'machines', service: 'machines', cost: usd('30') },
      { id: 'rest', name: 'Other', service: null, cost: usd('1.25') },
    ])
  })

  test('sees what is not charged yet, and a forecast', async () => {
    const { month } = await read('kind')
    const accrued = usd('6') / 60n + costOfSpan(usd('0.1'), MINUTE_MS)
    expect(month).toMatchObject({ spent: usd('31.25') + accrued, unbilled: accrued, hourlySpend: usd('6.1') })
    expect(month.atMonthEnd > month.spent).toBe(true)
  })

  test('has one statement line per day and resource, and never looks overdrawn (issue 31, 10 F11)', async () => {
    const { lines, opening, closing } = valueOf(await readDailyStatement(ledger.app, actor, { from, limit: 100 }))
    expect(lines.map(({ kind, amount, postings }) => [kind, amount, postings])).toEqual([
      ['purchase', usd('1000'), 1],
      ['charge', 0n - usd('30'), 60],
      ['charge', 0n - usd('0.75'), 1],
      ['charge', 0n - usd('0.5'), 1],
    ])
    expect([opening, closing]).toEqual([0n, usd('968.75')])
    expect(lines.every(({ balanceAfter }) => balanceAfter >= 0n)).toBe(true)
    expect(lines[1]).toMatchObject({
      rentalId: vm,
      service: 'machines',
      description: expect.stringContaining('“training”'),
    })
  })

  test('pages through the statement with the same balances', async () => {
    const whole = valueOf(await readDailyStatement(ledger.app, actor, { from, limit: 100 }))
    const paged = []
    for (let after; paged.length < whole.lines.length; after = paged.at(-1)?.place) {
      const page = await readDailyStatement(ledger.app, actor, {
        from,
        limit: 1,
        ...(after === undefined ? {} : { after }),
      })
      paged.push(...valueOf(page).lines)
    }
    expect(paged).toEqual(whole.lines)
    expect(valueOf(await exportStatement(ledger.app, actor, { from })).lines).toEqual(whole.lines)
  })

  test('gets a named failure for a range that is reversed, invalid or too long', async () => {
    const fault = async (range: { from?: string; to?: string }) => {
      const result = await readCosts(ledger.app, actor, { ...range, groupBy: 'kind', limit: 10 })
      return result.ok ? 'ok' : [result.reason, result.issues?.[0]?.path]
    }
    expect(await fault({ from: '2026-12-02', to: '2026-12-01' })).toEqual(['bad_range', ['from']])
    expect(await fault({ from: '2026-02-30' })).toEqual(['bad_range', ['from']])
    expect(await fault({ from: '2025-01-01', to: '2026-01-02' })).toEqual(['bad_range', ['from']])
    expect(await fault({ from: '2025-01-02', to: '2026-01-02' })).toBe('ok')
  })
})

test('sees nothing of another account', async () => {
  const stranger = await openAccount(ledger, 'stranger', usd('7'))
  const today = formatInstant(ledger.clock.now()).slice(0, 10)
  const costs = valueOf(await readCosts(ledger.app, stranger, { from: today, groupBy: 'resource', limit: 10 }))
  expect([costs.total, costs.groups]).toEqual([0n, []])
  const before = addMs(ledger.clock.now(), -400 * DAY_MS)
  const from = formatInstant(addMs(before, 100 * DAY_MS)).slice(0, 10)
  const { lines } = valueOf(await readDailyStatement(ledger.app, stranger, { from, limit: 100 }))
  expect(lines.map(({ amount }) => amount)).toEqual([usd('7')])
})
