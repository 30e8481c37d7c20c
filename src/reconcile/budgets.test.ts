/** Budgets over time: alerts once, across restarts and several servers, and the hard stop. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, instantOf, MINUTE_MS } from '../base/instant.ts'
import { usd } from '../base/money.ts'
import type { BudgetAction } from '../contract/budget.ts'
import type { Result } from '../contract/result.ts'
import type { Actor } from '../app/app.ts'
import {
  changeBudget,
  createBudget,
  deleteBudget,
  listBudgets,
  refuseOverBudget,
  type BudgetInput,
} from '../app/money/budget.ts'
import { makeTreasury } from '../app/money/treasury.ts'
import { transact } from '../store/platform/database.ts'
import { listEvents } from '../store/notice/event.ts'
import { listNotifications } from '../store/notice/notification.ts'
import { findRental } from '../store/rental/rental.ts'
import {
  chargeInference,
  openAccount,
  openTestLedger,
  refund,
  settle,
  startRental,
  type TestLedger,
} from '../../test/harness/ledger.ts'
import { watchBudgets } from './budgets.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger(instantOf(Date.UTC(2026, 10, 2)))
})
afterAll(() => ledger.close())

function valueOf<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(result.message)
  return result.value
}

const pass = () => watchBudgets(ledger.app).run(new AbortController().signal)

async function budgetFor(actor: Actor, monthlyUsd: string, more: Partial<BudgetInput> = {}): Promise<string> {
  const input: BudgetInput = { name: 'Research', scope: 'account', amount: usd(monthlyUsd), action: 'alert', ...more }
  return valueOf(await transact(ledger.database, (tx) => createBudget(tx, actor, input))).budget.id
}

/** Oldest first. */
async function announced(actor: Actor): Promise<string[]> {
  const events = await listEvents(ledger.database.db, actor.accountId, { limit: 50 })
  return events
    .filter(({ subject }) => subject.kind === 'budget')
    .map(({ type, data }) => `${type} ${String(data['percent'])}`)
    .toReversed()
}

const statusOf = async (id: number) => {
  const rental = await findRental(ledger.database.db, id)
  return [rental?.status, rental?.status_reason]
}

const isRefused = async (actor: Actor, label: string | null = null, keyId = actor.keyId) =>
  (await refuseOverBudget(ledger.database.db, { accountId: actor.accountId, keyId, label }, ledger.clock.now()))?.reason

test('alerts once per percentage, from costs that are not charged yet, and not again after a restart', async () => {
  const actor = await openAccount(ledger, 'alerted', usd('500'))
  await budgetFor(actor, '60')
  await startRental(ledger, actor, { pricePerHour: usd('6') })
  await pass()
  expect(await announced(actor)).toEqual([])
  ledger.clock.advance(5 * HOUR_MS)
  // Two servers at once, and again.
  await Promise.all([pass(), pass()])
  await pass()
  expect(await announced(actor)).toEqual(['budget.alert 50'])
  ledger.clock.advance(3 * HOUR_MS)
  await pass()
  ledger.clock.advance(2 * HOUR_MS)
  await Promise.all([pass(), pass()])
  expect(await announced(actor)).toEqual(['budget.alert 50', 'budget.alert 80', 'budget.exceeded 100'])
  expect(await isRefused(actor)).toBeUndefined()
  const reader = { accountId: actor.accountId, personId: actor.personId, isOperator: false }
  const notices = await listNotifications(ledger.database.db, reader, { unread: false, limit: 10 })
  expect(notices.map(({ kind }) => kind)).toEqual(['budget', 'budget', 'budget'])
})

test('counts a refund, and starts again with the next month', async () => {
  const actor = await openAccount(ledger, 'months', usd('10000'))
  await budgetFor(actor, '10', { alerts: [50] })
  const rentalId = await startRental(ledger, actor, { pricePerHour: usd('6') })
  ledger.clock.advance(HOUR_MS)
  await settle(ledger, { rentalId, volumeId: null })
  await refund(ledger, actor.accountId, rentalId, usd('2'))
  await pass()
  expect(await announced(actor)).toEqual([])
  const [before] = await listBudgets(ledger.app, actor)
  expect(before?.spent).toBe(usd('4'))
  ledger.clock.advance(instantOf(Date.UTC(2026, 11, 1)) - ledger.clock.now() - 1)
  await settle(ledger, { rentalId, volumeId: null })
  await pass()
  // December: only its own hours count.
  ledger.clock.advance(HOUR_MS / 2 + 1)
  await pass()
  expect(await announced(actor)).toEqual(['budget.exceeded 100'])
  ledger.clock.advance(HOUR_MS / 2)
  await pass()
  expect(await announced(actor)).toEqual(['budget.exceeded 100', 'budget.alert 50'])
})

describe('at 100%', () => {
  const exceed = async (name: string, action: BudgetAction, more: Partial<BudgetInput> = {}) => {
    const actor = await openAccount(ledger, name, usd('500'))
    const id = await budgetFor(actor, '3', { action, ...more })
    const onDemand = await startRental(ledger, actor, { pricePerHour: usd('6'), label: 'training' })
    ledger.clock.advance(30 * MINUTE_MS)
    await pass()
    return { actor, id, onDemand }
  }

  test('alert changes nothing else', async () => {
    const { actor, onDemand } = await exceed('only-alert', 'alert')
    expect([await isRefused(actor), (await statusOf(onDemand))[0]]).toEqual([undefined, 'Running'])
  })

  test('block rejects orders and leaves rentals alone, until the budget is raised or deleted', async () => {
    const { actor, id, onDemand } = await exceed('blocked', 'block')
    expect([await isRefused(actor), (await statusOf(onDemand))[0]]).toEqual(['budget_exceeded', 'Running'])
    const raised = await transact(ledger.database, (tx) => changeBudget(tx, actor, id, { amount: usd('30') }))
    expect(valueOf(raised).budget.marks.exceededAt).toBeNull()
    expect(await isRefused(actor)).toBeUndefined()
    await transact(ledger.database, (tx) => changeBudget(tx, actor, id, { amount: usd('2') }))
    await pass()
    expect(await isRefused(actor)).toBe('budget_exceeded')
    await transact(ledger.database, (tx) => deleteBudget(tx, actor, id))
    expect(await isRefused(actor)).toBeUndefined()
  })

  test('terminate ends on-demand rentals with their reason, and never a reserved term', async () => {
    const actor = await openAccount(ledger, 'ended', usd('5000'))
    await budgetFor(actor, '3', { action: 'terminate' })
    const onDemand = await startRental(ledger, actor, { pricePerHour: usd('6') })
    const reserved = await startRental(ledger, actor, {
      pricePerHour: usd('1'),
      reserved: [{ termPeriodDays: 3, discountPercentage: 10 }],
    })
    ledger.clock.advance(30 * MINUTE_MS)
    await pass()
    expect(await statusOf(onDemand)).toEqual(['Terminated', 'budget_exceeded'])
    expect(await statusOf(reserved)).toEqual(['Running', null])
    // Level, not edge: what is started later under the same budget ends too.
    const late = await startRental(ledger, actor, { pricePerHour: usd('6') })
    await pass()
    expect(await statusOf(late)).toEqual(['Terminated', 'budget_exceeded'])
  })

  test('a budget of a label or key reaches only what has it', async () => {
    const actor = await openAccount(ledger, 'scoped', usd('500'))
    await budgetFor(actor, '3', { scope: 'label', scopeValue: 'training', action: 'terminate' })
    await budgetFor(actor, '1000', { scope: 'key', scopeValue: actor.keyId, action: 'block' })
    const training = await startRental(ledger, actor, { pricePerHour: usd('6'), label: 'training' })
    const other = await startRental(ledger, actor, { pricePerHour: usd('60'), label: 'other' })
    ledger.clock.advance(30 * MINUTE_MS)
    await settle(ledger, { rentalId: training, volumeId: null })
    await pass()
    expect([(await statusOf(training))[0], (await statusOf(other))[0]]).toEqual(['Terminated', 'Running'])
    expect([await isRefused(actor, 'training'), await isRefused(actor, 'other')]).toEqual([
      'budget_exceeded',
      undefined,
    ])
    const spent = (await listBudgets(ledger.app, actor)).map(({ budget, spent }) => [budget.scope, spent])
    expect(new Map(spent as Array<[string, bigint]>)).toEqual(
      new Map([
        ['label', usd('3')],
        ['key', usd('33')],
      ]),
    )
  })

  test('a gateway gets no more money for inference than the budget leaves', async () => {
    const actor = await openAccount(ledger, 'talker', usd('500'))
    const id = await budgetFor(actor, '1', { action: 'block' })
    await chargeInference(ledger, actor, 'talk', usd('0.6'), actor.keyId)
    const treasury = makeTreasury({ database: ledger.database, clock: ledger.clock, gatewayId: 'budget-gw' })
    const owner = { accountId: actor.accountId, apiKeyId: null }
    const ask = (needed: string) => treasury.topUp(owner, { maximum: usd('50'), minimum: usd(needed) })
    expect(await ask('0.5')).toEqual({ kind: 'insufficient', why: 'budget' })
    expect(await ask('0.1')).toMatchObject({ kind: 'granted', amount: usd('0.4') })
    // What is in the purse counts as spent.
    expect(await ask('0.000000001')).toEqual({ kind: 'insufficient', why: 'budget' })
    await transact(ledger.database, (tx) => changeBudget(tx, actor, id, { action: 'alert' }))
    expect(await ask('0.5')).toMatchObject({ kind: 'granted' })
  })
})

test('refuses a second budget for the same thing, an unknown key, and a scope without its value', async () => {
  const actor = await openAccount(ledger, 'strict', usd('1'))
  const make = async (more: Partial<BudgetInput>) => {
    const input: BudgetInput = { name: 'x', scope: 'account', amount: usd('1'), action: 'alert', ...more }
    const budget = await transact(ledger.database, (tx) => createBudget(tx, actor, input))
    return budget.ok ? 'ok' : budget.reason
  }
  expect([
    await make({}),
    await make({ name: 'again' }),
    await make({ scope: 'key', scopeValue: 'no-such-key' }),
    await make({ scope: 'label' }),
    await make({ scopeValue: 'stray' }),
  ]).toEqual(['ok', 'budget_exists', 'key_not_found', 'budget_scope_value', 'budget_scope_value'])
  const stranger = await openAccount(ledger, 'nosy')
  const [own] = await listBudgets(ledger.app, actor)
  const changed = await transact(ledger.database, (tx) =>
    changeBudget(tx, stranger, own?.budget.id ?? '', { name: 'mine' }),
  )
  expect(changed).toMatchObject({ reason: 'budget_not_found' })
  ledger.clock.advance(DAY_MS)
})
