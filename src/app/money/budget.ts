/** Budgets of an account, and the check that an order passes. */
import type { Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { BudgetAction, BudgetScope } from '../../contract/budget.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { defaultAlerts, marksAfterChange, monthDay } from '../../domain/budget.ts'
import { lockAccount } from '../../store/account/account.ts'
import { findApiKey } from '../../store/account/api-key.ts'
import { readSnapshot } from '../../store/ledger/billing.ts'
import { lockAvailable } from '../../store/ledger/ledger.ts'
import * as store from '../../store/ledger/budget.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { readBudgetSpend } from './budget-spend.ts'

export interface BudgetWithSpend {
  readonly budget: store.StoredBudget
  readonly spent: NanoUsd
}

export async function listBudgets(app: App, actor: Actor): Promise<BudgetWithSpend[]> {
  return readSnapshot(app.database, async (db) => {
    const budgets = await store.listBudgets(db, actor.accountId)
    const spentById = await readBudgetSpend(db, budgets, app.clock.now())
    return budgets.map((budget) => ({ budget, spent: spentById.get(budget.id) ?? zeroUsd }))
  })
}

export interface BudgetInput {
  readonly name: string
  readonly scope: BudgetScope
  readonly scopeValue?: string | undefined
  readonly amount: NanoUsd
  readonly alerts?: readonly number[] | undefined
  readonly action: BudgetAction
}

export async function createBudget(tx: Tx, actor: Actor, input: BudgetInput): Promise<Result<BudgetWithSpend>> {
  const account = await lockAccount(tx, actor.accountId)
  if (account === undefined) return fail('account_not_found')
  await lockAvailable(tx, [actor.accountId])
  const { scope, scopeValue } = input
  if ((scope === 'account') !== (scopeValue === undefined))
    return failField(['scopeValue'], 'budget_scope_value', { scope })
  if (scope === 'key' && (await findApiKey(tx.db, actor.accountId, scopeValue ?? '')) === undefined) {
    return failField(['scopeValue'], 'key_not_found')
  }
  if ((await store.listBudgets(tx.db, actor.accountId)).length >= limits.budgets) {
    return fail('quota_exceeded', { quota: `${limits.budgets} budgets` })
  }
  const budget = await store.insertBudget(tx, {
    accountId: actor.accountId,
    name: input.name,
    scope,
    scopeValue: scopeValue ?? '',
    amount: input.amount,
    alerts: ascending(input.alerts ?? defaultAlerts),
    action: input.action,
  })
  if (budget === undefined) return fail('budget_exists')
  tx.wake.add('budgets')
  return ok({ budget, spent: await spentOf(tx.db, budget, tx.clock.now()) })
}

/**
 * Enforces a committed budget. Gateways get money under the same locks under which a budget is written: either they
 * have it by now and return it, or they are given no more than the budget leaves.
 */
export async function enforceBudget(app: App, budget: store.StoredBudget): Promise<void> {
  if (budget.scope === 'account' && budget.action !== 'alert') await app.recallMoney?.(budget.accountId)
}

export interface BudgetChange {
  readonly name?: string | undefined
  readonly amount?: NanoUsd | undefined
  readonly alerts?: readonly number[] | undefined
  readonly action?: BudgetAction | undefined
}

export async function changeBudget(
  tx: Tx,
  actor: Actor,
  id: string,
  change: BudgetChange,
): Promise<Result<BudgetWithSpend>> {
  await lockAvailable(tx, [actor.accountId])
  const previous = await store.lockBudget(tx, actor.accountId, id)
  if (previous === undefined) return noSuchBudget()
  const now = tx.clock.now()
  const amountSpent = await spentOf(tx.db, previous, now)
  const next = {
    ...previous,
    name: change.name ?? previous.name,
    amount: change.amount ?? previous.amount,
    alerts: change.alerts === undefined ? previous.alerts : ascending(change.alerts),
    action: change.action ?? previous.action,
  }
  const budget = await store.changeBudget(tx, id, { ...next, marks: marksAfterChange(next, amountSpent, now) })
  tx.wake.add('budgets')
  return ok({ budget, spent: amountSpent })
}

export async function deleteBudget(tx: Tx, actor: Actor, id: string): Promise<Result<string>> {
  return (await store.deleteBudget(tx, actor.accountId, id)) ? ok(id) : noSuchBudget()
}

/** Refuses actions that would spend more under an exceeded budget: new orders, and starting a stopped rental. */
export async function refuseOverBudget(
  db: Db,
  order: { readonly accountId: string; readonly keyId: string | null; readonly label: string | null },
  now: Instant,
): Promise<Failure | undefined> {
  const [budget] = await store.listBlockingBudgets(db, order, monthDay(now))
  return budget && budgetFailure(budget.name, budget.amount)
}

export function budgetFailure(name: string, amount: NanoUsd): Failure {
  return fail('budget_exceeded', { name, amount, failureKind: 'forbidden' })
}

function ascending(alerts: readonly number[]): number[] {
  return [...new Set(alerts)].toSorted((one, other) => one - other)
}

async function spentOf(db: Db, budget: store.StoredBudget, now: Instant): Promise<NanoUsd> {
  return (await readBudgetSpend(db, [budget], now)).get(budget.id) ?? zeroUsd
}

function noSuchBudget(): Failure {
  return fail('budget_not_found')
}
