/** Orders: the facts they are checked against, and their one writer, `place_orders` (schema/0063_place_orders.sql, 0082_payment.sql). */
import { randomInt } from 'node:crypto'
import { sql } from 'kysely'
import { randomName } from '../../base/id.ts'
import { formatInstant, formatInstantOrNull, toDate } from '../../base/instant.ts'
import { defaultQuota, type Quota } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { RentalSpec } from '../../domain/rental.ts'
import { holdOf, type Order, type Place } from '../../domain/order.ts'
import { errorCode, prepareAs, type Tx } from '../platform/database.ts'
import type { Rental } from './rental.ts'

export interface OrderFacts {
  /** It has only the values that differ from the default. */
  readonly quota: Partial<Quota>
  readonly gpus_in_use: number
  readonly ssh_keys: string[]
  /** Money left under the key's limits. null: it has none. */
  readonly key_budget: NanoUsd | null
}

/** Locks the account's balances, so that its orders take turns, and reads. */
export async function lockOrderFacts(tx: Tx, accountId: string, keyId: string): Promise<OrderFacts> {
  const { rows } = await sql<OrderFacts>`
    select * from lock_order_facts(${accountId}, ${keyId}, ${toDate(tx.clock.now())})`.execute(tx.db)
  const facts = rows[0]
  if (facts === undefined) throw new Error(`there is no account ${accountId}`)
  return facts
}

/** Claims the GPUs of the first place that has them all, and a disk on each machine. undefined: none has. */
export async function claimPlace(
  tx: Tx,
  rentalId: number,
  places: readonly Place[],
  diskGb: number,
): Promise<Pick<RentalSpec, 'clusterName' | 'nodes'> | undefined> {
  const at = toDate(tx.clock.now())
  for (const { clusterName, machines } of places) {
    const nodes: Array<RentalSpec['nodes'][number]> = []
    for (const { machineId, gpus } of machines) {
      const { rows } = await sql<{ indexes: number[] | null }>`
        select claim_share(${machineId}, ${gpus}::integer, ${diskGb}::double precision, ${rentalId}::integer, ${at})
          as indexes`.execute(tx.db)
      const gpuIndexes = rows[0]?.indexes
      if (gpuIndexes === undefined || gpuIndexes === null) break
      nodes.push({ machineId, gpuIndexes })
    }
    if (nodes.length === machines.length) return { clusterName, nodes }
    await sql`select release_gpus(${rentalId})`.execute(tx.db)
  }
  return undefined
}

export interface NewOrder {
  readonly payer: { readonly accountId: string; readonly personId: string; readonly keyId: string }
  readonly order: Order
  /** Whether its machine is of no use without an SSH key. */
  readonly needsSshKey: boolean
}

/** An order in a batch names one machine, which must still have the price that the order was checked with. */
export interface BatchedOrder extends NewOrder {
  /** The price is per GPU-hour. */
  readonly price: NanoUsd
}

export interface PlacedOrder {
  readonly id: number
  readonly name: string
}

/** The reason why an order is not placed, with the numbers that explain it. Nothing of it was written. */
export type OrderRefusal =
  | { readonly outcome: 'quota_exceeded'; readonly detail: { readonly quota: number; readonly used: number } }
  | { readonly outcome: 'key_spending_limit'; readonly detail: { readonly left: string } }
  | { readonly outcome: 'budget_exceeded'; readonly detail: { readonly name: string; readonly amount: string } }
  | { readonly outcome: 'no_ssh_key' | 'limit_below_term' | 'insufficient_balance' | 'account_in_debt' | 'no_capacity' }

export type OrderAnswer<Placed> = OrderRefusal | { readonly outcome: 'placed'; readonly rental: Placed }

/** Waits for the account and the machines. */
export async function placeAlone(tx: Tx, order: NewOrder): Promise<OrderAnswer<Rental>> {
  const row = JSON.stringify([{ ...rowOf(order), n: 0, names: candidateNames() }])
  const { rows } = await sql<OrderRow & Rental>`${prepareAs('place_order')}
    select o.outcome, o.detail, (o.rental).*
    from place_orders(${row}::jsonb, ${toDate(tx.clock.now())}, true) o`.execute(tx.db)
  const [answer] = rows
  if (answer === undefined || answer.outcome === 'again') throw new Error('the order was not answered')
  const { outcome, detail, ...rental } = answer
  return outcome === 'placed' ? { outcome, rental } : ({ outcome, detail } as OrderRefusal)
}

/**
 * Orders of one account for a machine each, in the order of their machines' ids: waits for the account and the machines.
 * If any is refused, the caller must undo the others. undefined: it fits only without those before it.
 */
export async function placeAll(
  tx: Tx,
  orders: ReadonlyArray<NewOrder & { readonly name: string }>,
): Promise<Array<OrderAnswer<Rental> | undefined>> {
  const batch = JSON.stringify(orders.map((order, n) => ({ ...rowOf(order), n, names: [order.name] })))
  const { rows } = await sql<OrderRow & Rental & { n: number }>`
    select o.n, o.outcome, o.detail, (o.rental).*
    from place_orders(${batch}::jsonb, ${toDate(tx.clock.now())}, true) o`.execute(tx.db)
  const answers = new Map(rows.map((row) => [row.n, row]))
  return orders.map((_, n) => {
    const answer = answers.get(n)
    if (answer === undefined || answer.outcome === 'again') return undefined
    const { outcome, detail, n: __, ...rental } = answer
    return outcome === 'placed' ? { outcome, rental } : ({ outcome, detail } as OrderRefusal)
  })
}

/**
 * Places orders for different machines together, and waits for nobody. undefined: an order has to be placed alone, since
 * another transaction has its account or machine, its machine has changed, or it depends on other orders of its account.
 */
export async function placeTogether(
  tx: Tx,
  orders: readonly BatchedOrder[],
): Promise<Array<OrderAnswer<PlacedOrder> | undefined>> {
  const usedNames = new Set<string>()
  const batch = orders.map((order, n) => {
    const names = candidateNames().filter((name) => !usedNames.has(name))
    for (const name of names) usedNames.add(name)
    return { ...rowOf(order), n, names, price_nano: order.price.toString() }
  })
  const { rows } = await sql<OrderRow & { n: number; id: number; name: string }>`${prepareAs('place_orders')}
    select o.n, o.outcome, o.detail, (o.rental).id, (o.rental).name
    from place_orders(${JSON.stringify(batch)}::jsonb, ${toDate(tx.clock.now())}, false) o`.execute(tx.db)
  const answers = new Map(rows.map((row) => [row.n, row]))
  return orders.map((_, n) => {
    const { outcome, detail, id = 0, name = '' } = answers.get(n) ?? { outcome: 'again' }
    if (outcome === 'again') return undefined
    return outcome === 'placed' ? { outcome, rental: { id, name } } : ({ outcome, detail } as OrderRefusal)
  })
}

interface OrderRow {
  readonly outcome: OrderAnswer<unknown>['outcome'] | 'again'
  readonly detail: unknown
}

/** Names are never reused; once many are taken, a number keeps them unique. */
function candidateNames(): string[] {
  const number = (digits: number): string => String(randomInt(10 ** digits)).padStart(digits, '0')
  return [randomName(), randomName(), `${randomName()}-${number(4)}`, `${randomName()}-${number(9)}`]
}

/** The fields of `new_order`. Those without a value are left out. */
function rowOf({ payer, order, needsSshKey }: NewOrder): object {
  const { driver, monitoringEnabled, ...spec } = order.spec
  const { term, guards, ssh, mounts } = order
  const { reservation, commitment } = term
  return {
    account_id: payer.accountId,
    person_id: payer.personId,
    api_key_id: payer.keyId,
    kind: spec.kind,
    driver,
    region: spec.region,
    gpu_type: spec.gpuType,
    gpu_count: spec.gpuCount,
    network_type: spec.networkType,
    label: spec.label,
    spec: { ...spec, monitoringEnabled: monitoringEnabled ?? false },
    places: order.places,
    hold_nano: holdOf(term).toString(),
    term_type: term.termType,
    effective_at: formatInstant(term.effectiveAt),
    cost_nano_per_hour: term.costPerHour.toString(),
    reservation_ends_at: formatInstantOrNull(reservation?.endsAt ?? null),
    term_period_days: reservation?.periodDays,
    discount_percentage: reservation?.discountPercentage,
    original_cost_nano: reservation?.originalCostPerHour.toString(),
    commitment_nano: commitment?.total.toString(),
    commitment_rates: commitment?.rates.map(({ days, perHour }) => ({ days, nanoPerHour: perHour.toString() })),
    default_gpu_quota: defaultQuota.gpus,
    ssh: ssh === 'none' ? ssh : needsSshKey ? 'required' : 'optional',
    ssh_key: ssh === 'none' ? undefined : ssh.extraKey,
    convert_on_expiry: term.convertOnExpiry,
    monitoring_enabled: monitoringEnabled,
    auto_terminate_at: formatInstantOrNull(guards.autoTerminateAt),
    spending_limit_nano: guards.spendingLimit?.toString(),
    stop_at: formatInstantOrNull(order.stopAt),
    idle: order.idle ?? undefined,
    secret_names: order.secretNames.length === 0 ? undefined : order.secretNames,
    user_metadata: order.metadata ?? undefined,
    mounts: mounts.length === 0 ? undefined : mounts,
  }
}

const RAISED = 'P0001'
const INTEGRITY = '23'

/** Whether a batch failed because of its rows: nothing of it was committed, and each order may be placed alone. */
export function isBadBatch(error: unknown): boolean {
  const code = errorCode(error)
  return code !== undefined && (code === RAISED || (code.startsWith(INTEGRITY) && code.length === 5))
}
