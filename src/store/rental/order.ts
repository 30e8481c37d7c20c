/** Orders: the facts they are checked against, and how they are written. */
import { randomInt } from 'node:crypto'
import { sql } from 'kysely'
import { randomName } from '../../base/id.ts'
import { formatInstant, formatInstantOrNull, toDate } from '../../base/instant.ts'
import type { Quota } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { EngineSpec } from '../../domain/rental.ts'
import { holdOf, type Order, type Place } from '../../domain/order.ts'
import type { Tx } from '../platform/database.ts'
import type { Rental } from './rental.ts'

export interface OrderFacts {
  /** Only the values that differ from the default. */
  readonly quota: Partial<Quota>
  readonly gpus_in_use: number
  readonly ssh_keys: string[]
  /** Money left under the key's limits. null: it has none. */
  readonly key_budget: NanoUsd | null
}

/** Locks the account's balances, so that its orders take turns, and reads. */
export async function lockOrderFacts(tx: Tx, accountId: string, keyId: string): Promise<OrderFacts> {
  const found = await sql<OrderFacts>`
    select * from lock_order_facts(${accountId}, ${keyId}, ${toDate(tx.clock.now())})`.execute(tx.db)
  const facts = found.rows[0]
  if (facts === undefined) throw new Error(`there is no account ${accountId}`)
  return facts
}

/** Claims the GPUs of the first place that has them all, and a disk on each machine. undefined: none has. */
export async function claimPlace(
  tx: Tx,
  rentalId: number,
  places: readonly Place[],
  diskGb: number,
): Promise<Pick<EngineSpec, 'clusterName' | 'nodes'> | undefined> {
  const at = toDate(tx.clock.now())
  for (const { clusterName, machines } of places) {
    const nodes: Array<EngineSpec['nodes'][number]> = []
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

export type OrderOutcome =
  | { readonly kind: 'written'; readonly rental: Rental }
  | { readonly kind: 'insufficient' }
  | { readonly kind: 'no_place' }

/** Names are never reused; once many are taken, a number keeps them unique. */
function candidateNames(): string[] {
  const number = (digits: number): string => String(randomInt(10 ** digits)).padStart(digits, '0')
  return [randomName(), randomName(), `${randomName()}-${number(4)}`, `${randomName()}-${number(9)}`]
}

/** After any outcome but `written` the transaction must be rolled back, at least to before this call. */
export async function writeOrder(
  tx: Tx,
  actor: { readonly accountId: string; readonly personId: string; readonly keyId: string },
  order: Order,
  sshKeys: readonly string[],
): Promise<OrderOutcome> {
  const { term: ordered, guards, places } = order
  const { driver, monitoringEnabled, ...spec } = order.spec
  const { reservation } = ordered
  const rental = {
    account_id: actor.accountId,
    person_id: actor.personId,
    api_key_id: actor.keyId,
    kind: spec.kind,
    label: spec.label,
    region: spec.region,
    gpu_type: spec.gpuType,
    gpu_count: spec.gpuCount,
    network_type: spec.networkType,
    driver,
    spec: { ...spec, sshKeys, monitoringEnabled: monitoringEnabled ?? false },
    convert_on_expiry: ordered.convertOnExpiry,
    monitoring_enabled: monitoringEnabled,
    auto_terminate_at: formatInstantOrNull(guards.autoTerminateAt),
    spending_limit_nano: guards.spendingLimit?.toString() ?? null,
  }
  const term = {
    term_type: ordered.termType,
    effective_at: formatInstant(ordered.effectiveAt),
    cost_nano_per_hour: ordered.costPerHour.toString(),
    reservation_ends_at: formatInstantOrNull(reservation?.endsAt ?? null),
    term_period_days: reservation?.periodDays ?? null,
    discount_percentage: reservation?.discountPercentage ?? null,
    original_cost_nano: reservation?.originalCostPerHour.toString() ?? null,
  }
  const answered = await sql<Rental & { outcome: OrderOutcome['kind'] }>`
    select o.outcome, (o.rental).* from write_order(${JSON.stringify(rental)}::jsonb, ${candidateNames()}::text[],
      ${JSON.stringify(term)}::jsonb, ${holdOf(ordered).toString()}::bigint, ${JSON.stringify(places)}::jsonb,
      ${toDate(tx.clock.now())}) o`.execute(tx.db)
  const row = answered.rows[0]
  if (row === undefined) throw new Error('the order was not answered')
  const { outcome, ...written } = row
  return outcome === 'written' ? { kind: outcome, rental: written } : { kind: outcome }
}
