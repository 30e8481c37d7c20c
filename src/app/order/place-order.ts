/** Places an order: checks it, holds the money, claims the GPUs and writes a Pending rental, in one transaction. */
import type { Instant } from '../../base/instant.ts'
import { formatUsd, nanoUsdOf, usd, type NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { Commitment } from '../../domain/commitment.ts'
import { holdOf, type Order, type OrderSpec } from '../../domain/order.ts'
import { quotaOf } from '../../domain/quota.ts'
import { insertCommitment } from '../../store/ledger/commitment.ts'
import type { Tx } from '../../store/platform/database.ts'
import { drawCredit } from '../../store/ledger/ledger.ts'
import { CAPACITY_WAKE } from '../../store/machine/machine.ts'
import { lockOrderFacts, writeOrder, type OrderFacts } from '../../store/rental/order.ts'
import type { Rental } from '../../store/rental/rental.ts'
import type { Actor, App } from '../app.ts'
import { refuseOverBudget } from '../money/budget.ts'
import { recordRentalEvent } from '../rental/rental-event.ts'

/** A larger hold does not fit the ledger's 64 bits; no balance is ever that large. */
const MAX_HOLD = nanoUsdOf(4n * usd('999999999'))

/** `wanted` describes the order in the failure when no place has room. */
export async function placeOrder(
  app: App,
  tx: Tx,
  actor: Actor,
  order: Order,
  wanted: { readonly gpus: string; readonly where: string },
): Promise<Result<Rental>> {
  const facts = await lockOrderFacts(tx, actor.accountId, actor.keyId)
  const refused = refuseOrder(app, order, facts, tx.clock.now())
  if (refused !== undefined) return refused
  const payer = { accountId: actor.accountId, keyId: actor.keyId, label: order.spec.label }
  const overBudget = await refuseOverBudget(tx.db, payer, tx.clock.now())
  if (overBudget !== undefined) return overBudget
  const { commitment } = order.term
  const hold = holdOf(order.term)
  const tooLittle = fail('insufficient_balance', { amount: hold, purpose: commitment === null ? 'first_hour' : 'term' })
  if (commitment !== null) {
    if (hold > MAX_HOLD || (await drawCredit(tx, actor.accountId, hold)) === 'insufficient') return tooLittle
  }
  const written = await writeOrder(tx, actor, order, sshKeysOf(order, facts))
  if (written.kind === 'insufficient') return tooLittle
  if (written.kind === 'no_place') return fail('no_capacity', wanted)
  const { rental } = written
  if (commitment !== null) await insertCommitment(tx, rental.id, commitment)
  recordOrder(tx, rental, order)
  return ok(rental)
}

/** The event of a placed order, and who works on it next. */
export function recordOrder(
  tx: Tx,
  rental: Pick<Rental, 'id' | 'account_id' | 'name'>,
  { spec, term }: Pick<Order, 'spec' | 'term'>,
): void {
  const { kind, label, gpuCount, region } = spec
  const costPerHourUsd = formatUsd(term.costPerHour)
  recordRentalEvent(tx, { ...rental, kind, label }, 'rental.created', { gpuCount, region, costPerHourUsd })
  tx.wake.add('provision').add(CAPACITY_WAKE)
}

/** Checks that need no machine: dates, price cap, quota, keys, limits. */
function refuseOrder(app: App, order: Order, facts: OrderFacts, now: Instant): Failure | undefined {
  const { spec, term, guards, isManaged } = order
  const against = refuseGuards({ term, guards }, now)
  if (against !== undefined) return against
  const { commitment } = term
  const overQuota = overGpuQuota(facts, spec.gpuCount)
  if (overQuota !== undefined) return overQuota
  if (isManaged !== true && sshKeysOf(order, facts).length === 0 && needsSshKey(app, spec)) {
    return fail('no_ssh_key')
  }
  return limitBelowTerm(guards.spendingLimit, commitment) ?? overKeyBudget(facts, holdOf(term))
}

function sshKeysOf({ isManaged, sshKey }: Order, facts: OrderFacts): readonly string[] {
  if (isManaged === true) return []
  return sshKey === undefined || facts.ssh_keys.includes(sshKey) ? facts.ssh_keys : [...facts.ssh_keys, sshKey]
}

export function refuseGuards({ term, guards }: Pick<Order, 'term' | 'guards'>, now: Instant): Failure | undefined {
  const { autoTerminateAt, maxCostPerHour: max } = guards
  if (autoTerminateAt !== null && autoTerminateAt <= now) return failField(['autoTerminateAt'], 'time_in_past')
  const { costPerHour: perHour } = term
  if (max !== null && perHour > max) return failField(['maxCostPerHourUsd'], 'price_changed', { perHour, max })
  return undefined
}

/** Its machine is of no use without one. */
export function needsSshKey(app: Pick<App, 'drivers'>, { driver }: Pick<OrderSpec, 'driver'>): boolean {
  return app.drivers.get(driver)?.traits.ssh === true
}

export function overGpuQuota(facts: OrderFacts, gpuCount: number): Failure | undefined {
  const quota = quotaOf(facts.quota)
  if (facts.gpus_in_use + gpuCount <= quota.gpus) return undefined
  return fail('quota_exceeded', { quota: `${quota.gpus} GPUs`, used: String(facts.gpus_in_use) })
}

export function overKeyBudget(facts: OrderFacts, hold: NanoUsd): Failure | undefined {
  if (facts.key_budget === null || facts.key_budget >= hold) return undefined
  return fail('key_spending_limit', { amount: hold, left: facts.key_budget, failureKind: 'forbidden' })
}

/** A limit below the price of the term would contradict the commitment. */
export function limitBelowTerm(
  limit: NanoUsd | null | undefined,
  commitment: Pick<Commitment, 'total'> | null | undefined,
): Failure | undefined {
  if (!commitment || limit === null || limit === undefined || limit >= commitment.total) return undefined
  return failField(['spendingLimitUsd'], 'limit_below_term', { total: commitment.total })
}
