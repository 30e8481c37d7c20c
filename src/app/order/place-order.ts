/**
 * Places an order, in one transaction, as the last of three steps: checks its account, holds the money, claims the GPUs and
 * writes a Pending rental.
 */
import { formatUsd, nanoUsdOf, sumUsd, type NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { Commitment } from '../../domain/commitment.ts'
import { holdOf, type Order, type OrderSummary } from '../../domain/order.ts'
import { quotaOf } from '../../domain/quota.ts'
import type { Tx } from '../../store/platform/database.ts'
import { CAPACITY_WAKE } from '../../store/machine/machine.ts'
import {
  lockOrderFacts,
  placeAll,
  placeAlone,
  placeTogether,
  type BatchedOrder,
  type OrderFacts,
  type OrderRefusal,
  type PlacedOrder,
} from '../../store/rental/order.ts'
import { makeInterruptible } from '../../store/rental/interruption.ts'
import type { Rental } from '../../store/rental/rental.ts'
import type { App, Payer } from '../app.ts'
import { budgetFailure } from '../money/budget.ts'
import { interruptFor } from '../rental/interruption.ts'
import { recordRentalEvent } from '../rental/rental-event.ts'
import { checkOrder, mayFitElsewhere, type Site } from './check-order.ts'
import type { OrderDraft } from './read-order.ts'

/** Places an order at the first site with room, or returns the failure of the last one. Without any site that is `none`. */
export async function placeAtFirst(
  app: App,
  tx: Tx,
  payer: Payer,
  draft: OrderDraft,
  sites: ReadonlyArray<Result<Site>>,
  none: OrderSummary,
): Promise<Result<Rental>> {
  let outcome: Result<Rental> = fail('no_capacity', none)
  for (const site of sites) {
    const order = site.ok ? checkOrder(app, draft, site.value, tx.clock.now()) : site
    outcome = order.ok ? await placeOrder(app, tx, payer, order.value) : order
    if (outcome.ok || !mayFitElsewhere(outcome)) return outcome
  }
  return outcome
}

export async function placeOrder(app: App, tx: Tx, payer: Payer, order: Order): Promise<Result<Rental>> {
  const answer = await placeAlone(tx, { payer, order, needsSshKey: needsSshKey(app, order) })
  if (answer.outcome !== 'placed') return failureOf(order, answer)
  const { interruptible, interruption } = order
  if (interruptible !== null) await makeInterruptible(tx, answer.rental, interruptible)
  recordOrder(tx, payer, answer.rental, order)
  return ok(interruption === null ? answer.rental : await interruptFor(tx, answer.rental, interruption))
}

/** Orders of the marketplace, each for a machine of its own. undefined: it has to be placed alone. */
export async function placeOrders(
  app: App,
  tx: Tx,
  orders: ReadonlyArray<Omit<BatchedOrder, 'needsSshKey'>>,
): Promise<Array<Result<PlacedOrder> | undefined>> {
  const answers = await placeTogether(
    tx,
    orders.map((one) => ({ ...one, needsSshKey: needsSshKey(app, one.order) })),
  )
  return orders.map(({ payer, order }, n) => {
    const answer = answers[n]
    if (answer?.outcome !== 'placed') return answer && failureOf(order, answer)
    recordOrder(tx, payer, answer.rental, order)
    return ok(answer.rental)
  })
}

/** Which of several orders could not be placed. null: they are too many for the account together. */
export interface PlaceFailure {
  readonly failure: Failure
  readonly index: number | null
}

/**
 * Places all orders of a group or fails, in which case the caller undoes what was written. They name one machine each, in
 * the order of ids. `names`: of their rentals.
 */
export async function placeEveryOrder(
  app: App,
  tx: Tx,
  payer: Payer,
  orders: readonly Order[],
  names: readonly string[],
): Promise<{ readonly rentals: Rental[] } | PlaceFailure> {
  const facts = await lockOrderFacts(tx, payer.accountId, payer.keyId)
  const hold = sumUsd(orders.map(({ term }) => holdOf(term)))
  const gpus = orders.reduce((sum, { spec }) => sum + spec.gpuCount, 0)
  const refused = overGpuQuota(facts, gpus) ?? overKeyBudget(facts, hold)
  if (refused !== undefined) return { failure: refused, index: null }
  const answers = await placeAll(
    tx,
    orders.map((order, n) => ({ payer, order, needsSshKey: needsSshKey(app, order), name: names[n] ?? '' })),
  )
  const rentals: Rental[] = []
  const tooLittle = fail('insufficient_balance', { amount: hold, purpose: 'first_hour' as const })
  for (const [index, order] of orders.entries()) {
    const answer = answers[index]
    // Quota and key are checked for all: what is left is the balance.
    if (answer === undefined || answer.outcome === 'insufficient_balance') return { failure: tooLittle, index: null }
    if (answer.outcome !== 'placed') return { failure: failureOf(order, answer), index }
    rentals.push(answer.rental)
  }
  for (const [index, rental] of rentals.entries()) {
    const order = orders[index]
    if (order !== undefined) recordOrder(tx, payer, rental, order)
  }
  return { rentals }
}

/** Records the event of a placed order, and wakes who works on it next. */
function recordOrder(tx: Tx, { accountId }: Payer, { id, name }: PlacedOrder, order: Order): void {
  const { spec, term, interruption } = order
  const { kind, label, gpuCount, region } = spec
  const rental = { id, name, account_id: accountId, kind, label }
  recordRentalEvent(tx, rental, 'rental.created', {
    gpuCount,
    region,
    costPerHourUsd: formatUsd(term.costPerHour),
    ...(interruption === null ? {} : { waitSeconds: interruption.waitSeconds }),
  })
  tx.wake.add('provision').add(CAPACITY_WAKE)
}

/** Whether its machine is of no use without an SSH key. */
function needsSshKey({ drivers }: App, { spec }: Order): boolean {
  return drivers.get(spec.driver)?.traits.ssh === true
}

function failureOf({ term, summary }: Order, answer: OrderRefusal): Failure {
  const amount = holdOf(term)
  switch (answer.outcome) {
    case 'quota_exceeded':
      return gpuQuotaFailure(answer.detail.quota, answer.detail.used)
    case 'no_ssh_key':
      return fail('no_ssh_key')
    case 'limit_below_term':
      return termLimitFailure(amount)
    case 'key_spending_limit':
      return keyLimitFailure(amount, nanoUsdOf(BigInt(answer.detail.left)))
    case 'budget_exceeded':
      return budgetFailure(answer.detail.name, nanoUsdOf(BigInt(answer.detail.amount)))
    case 'insufficient_balance':
      return fail('insufficient_balance', { amount, purpose: term.commitment === null ? 'first_hour' : 'term' })
    case 'account_in_debt':
      return fail('account_in_debt')
    case 'no_capacity':
      return fail('no_capacity', summary)
  }
}

export function overGpuQuota(facts: OrderFacts, gpuCount: number): Failure | undefined {
  const quota = quotaOf(facts.quota)
  return facts.gpus_in_use + gpuCount <= quota.gpus ? undefined : gpuQuotaFailure(quota.gpus, facts.gpus_in_use)
}

function gpuQuotaFailure(quota: number, used: number): Failure {
  return fail('quota_exceeded', { quota: `${quota} GPUs`, used: String(used) })
}

export function overKeyBudget(facts: OrderFacts, hold: NanoUsd): Failure | undefined {
  return facts.key_budget === null || facts.key_budget >= hold ? undefined : keyLimitFailure(hold, facts.key_budget)
}

function keyLimitFailure(amount: NanoUsd, available: NanoUsd): Failure {
  return fail('key_spending_limit', { amount, left: available, failureKind: 'forbidden' })
}

/** A limit below the price of the term would contradict the commitment. */
export function limitBelowTerm(
  limit: NanoUsd | null | undefined,
  commitment: Pick<Commitment, 'total'> | null | undefined,
): Failure | undefined {
  if (!commitment || limit === null || limit === undefined || limit >= commitment.total) return undefined
  return termLimitFailure(commitment.total)
}

function termLimitFailure(total: NanoUsd): Failure {
  return failField(['spendingLimitUsd'], 'limit_below_term', { total })
}
