/**
 * Places an order, in one transaction, as the last of three steps: checks its account, holds the money, claims the GPUs and
 * writes a Pending rental.
 */
import { formatUsd, nanoUsdOf, usd, type NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { Commitment } from '../../domain/commitment.ts'
import { holdOf, type Order, type OrderSpec, type OrderSummary } from '../../domain/order.ts'
import { quotaOf } from '../../domain/quota.ts'
import { insertCommitment } from '../../store/ledger/commitment.ts'
import { undoOnFailure, type Tx } from '../../store/platform/database.ts'
import { drawCredit } from '../../store/ledger/ledger.ts'
import { CAPACITY_WAKE } from '../../store/machine/machine.ts'
import { lockOrderFacts, writeOrder, type OrderFacts } from '../../store/rental/order.ts'
import { setOrderOptions, type Rental } from '../../store/rental/rental.ts'
import { insertAttachment } from '../../store/volume/volume.ts'
import type { App, Payer } from '../app.ts'
import { refuseOverBudget } from '../money/budget.ts'
import { recordRentalEvent } from '../rental/rental-event.ts'
import { checkOrder, mayFitElsewhere, type Site } from './check-order.ts'
import type { OrderDraft } from './read-order.ts'

/** A larger hold does not fit the ledger's 64 bits; no balance is ever that large. */
const MAX_HOLD = nanoUsdOf(4n * usd('999999999'))

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
    outcome = order.ok ? await undoOnFailure(tx, () => placeOrder(app, tx, payer, order.value)) : order
    if (outcome.ok || !mayFitElsewhere(outcome)) return outcome
  }
  return outcome
}

export async function placeOrder(app: App, tx: Tx, payer: Payer, order: Order): Promise<Result<Rental>> {
  const { accountId, keyId } = payer
  const facts = await lockOrderFacts(tx, accountId, keyId)
  const refused = refuseOrder(app, order, facts)
  if (refused !== undefined) return refused
  const overBudget = await refuseOverBudget(tx.db, { accountId, keyId, label: order.spec.label }, tx.clock.now())
  if (overBudget !== undefined) return overBudget
  const { commitment } = order.term
  const hold = holdOf(order.term)
  const tooLittle = fail('insufficient_balance', { amount: hold, purpose: commitment === null ? 'first_hour' : 'term' })
  if (commitment !== null) {
    if (hold > MAX_HOLD || (await drawCredit(tx, accountId, hold)) === 'insufficient') return tooLittle
  }
  const written = await writeOrder(tx, payer, order, sshKeysOf(order, facts))
  if (written.kind === 'insufficient') return tooLittle
  if (written.kind === 'no_place') return fail('no_capacity', order.summary)
  const { rental } = written
  if (commitment !== null) await insertCommitment(tx, rental.id, commitment)
  recordOrder(tx, rental, order)
  for (const { volumeId, path, readOnly } of order.mounts.toSorted((a, b) => a.volumeId - b.volumeId))
    await insertAttachment(tx, volumeId, rental.id, { path, readOnly })
  const { stopAt, idle, secretNames, metadata } = order
  if (stopAt === null && idle === null && secretNames.length === 0 && metadata === null) return ok(rental)
  return ok(
    await setOrderOptions(tx, rental.id, { stopAt, idle, secretNames, metadata: metadata ?? rental.user_metadata }),
  )
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

/** Checks against the account: its quota, keys and limits. */
function refuseOrder(app: App, order: Order, facts: OrderFacts): Failure | undefined {
  const { spec, term, guards, ssh } = order
  const overQuota = overGpuQuota(facts, spec.gpuCount)
  if (overQuota !== undefined) return overQuota
  if (ssh !== 'none' && sshKeysOf(order, facts).length === 0 && needsSshKey(app, spec)) return fail('no_ssh_key')
  return limitBelowTerm(guards.spendingLimit, term.commitment) ?? overKeyBudget(facts, holdOf(term))
}

function sshKeysOf({ ssh }: Order, facts: OrderFacts): readonly string[] {
  if (ssh === 'none') return []
  const { extraKey } = ssh
  return extraKey === undefined || facts.ssh_keys.includes(extraKey) ? facts.ssh_keys : [...facts.ssh_keys, extraKey]
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
