/**
 * Watches budgets: announces each percentage once per month, and enforces what the customer chose for 100 %. The marks
 * are in the database and change together with the event, so an alert is neither lost nor repeated by a restart or a
 * second server. Enforcing is a comparison: as long as a budget is exceeded, every pass stops what runs under it.
 */
import { SECOND_MS } from '../base/instant.ts'
import { formatUsd, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { App } from '../app/app.ts'
import { enforceBudget } from '../app/money/budget.ts'
import { readBudgetSpend } from '../app/money/budget-spend.ts'
import { beginStop, powersOf, readTerm } from '../app/rental/rental-power.ts'
import { terminateRental } from '../app/rental/rental.ts'
import { budgetStep, isBlocking, percentSpent } from '../domain/budget.ts'
import { rentalStateTable } from '../contract/rental-state.ts'
import { isLiving } from '../domain/rental.ts'
import { readSnapshot } from '../store/ledger/billing.ts'
import {
  listBudgetsAfter,
  listStoppable,
  lockBudget,
  saveBudgetMarks,
  type StoredBudget,
} from '../store/ledger/budget.ts'
import { transact, type Tx } from '../store/platform/database.ts'
import { recordEvent } from '../store/notice/event.ts'
import { lockRental } from '../store/rental/rental.ts'
import { eachOf, type Reconciler } from './loop.ts'

const BATCH = 200
const RENTALS = 100
const WIDTH = 4

export function watchBudgets(app: App): Reconciler {
  return {
    name: 'budgets',
    everyMs: 30 * SECOND_MS,
    run: async () => {
      for (let after = ''; ;) {
        const { budgets, spent } = await readSnapshot(app.database, async (db) => {
          const budgets = await listBudgetsAfter(db, after, BATCH)
          return { budgets, spent: await readBudgetSpend(db, budgets, app.clock.now()) }
        })
        await eachOf(budgets, WIDTH, (budget) => watchOne(app, budget, spent.get(budget.id) ?? zeroUsd))
        const last = budgets.at(-1)
        if (last === undefined || budgets.length < BATCH) return false
        after = last.id
      }
    },
  }
}

async function watchOne(app: App, snapshot: StoredBudget, spent: NanoUsd): Promise<void> {
  const now = app.clock.now()
  let budget = snapshot
  if (budgetStep(snapshot, spent, now) !== undefined) {
    budget = await transact(app.database, async (tx) => {
      const locked = await lockBudget(tx, snapshot.accountId, snapshot.id)
      return locked === undefined ? snapshot : announce(tx, locked, spent)
    })
    if (isBlocking(budget, now)) await enforceBudget(app, budget)
  }
  if (!isBlocking(budget, now) || budget.action === 'block') return
  for (let after = 0; ;) {
    const ids = await listStoppable(app.database.db, budget, { after, limit: RENTALS })
    await eachOf(ids, WIDTH, (id) => transact(app.database, (tx) => stopOne(app, tx, budget, id)))
    const last = ids.at(-1)
    if (last === undefined || ids.length < RENTALS) return
    after = last
  }
}

/** Decides again under the lock: another server may have been faster, or the budget may have changed. */
async function announce(tx: Tx, budget: StoredBudget, spent: NanoUsd): Promise<StoredBudget> {
  const step = budgetStep(budget, spent, tx.clock.now())
  if (step === undefined) return budget
  await saveBudgetMarks(tx, budget.id, step.marks)
  recordEvent(tx, {
    accountId: budget.accountId,
    type: step.kind === 'exceeded' ? 'budget.exceeded' : 'budget.alert',
    subject: { kind: 'budget', id: budget.id },
    data: {
      budgetId: budget.id,
      name: budget.name,
      scope: budget.scope,
      scopeValue: budget.scope === 'account' ? null : budget.scopeValue,
      percent: step.percent,
      spentPercent: percentSpent(spent, budget.amount),
      spentUsd: formatUsd(spent),
      monthlyUsd: formatUsd(budget.amount),
      month: step.marks.month?.slice(0, 7),
      exceeded: step.kind === 'exceeded',
      action: budget.action,
    },
  })
  return { ...budget, marks: step.marks }
}

/**
 * Stops a rental and keeps its disk, where the provider can. A rental that is not running yet, or not reachable, costs
 * nothing and is stopped once it runs. A rental that cannot be stopped is terminated only if the customer chose so.
 */
async function stopOne(app: App, tx: Tx, budget: StoredBudget, id: number): Promise<void> {
  const rental = await lockRental(tx, id)
  if (rental === undefined || !isLiving(rental.status)) return
  if (powersOf(app, rental, await readTerm(tx, id)).stop) {
    if (rentalStateTable[rental.status].actions.includes('stop'))
      await beginStop(app, tx, rental, { reason: 'budget_exceeded' })
    return
  }
  if (budget.action === 'terminate') await terminateRental(tx, rental, 'budget_exceeded', tx.clock.now())
}
