/** Selling prices that follow from the rules of provider accounts. */
import { sql } from 'kysely'
import { toDate } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { GpuType, NetworkType } from '../../contract/shared.ts'
import type { Db, Tx } from '../platform/database.ts'
import { CAPACITY_WAKE } from '../machine/machine.ts'

interface PriceKey {
  readonly machineType: 'virtual-machine' | 'bare-metal'
  readonly region: string
  readonly gpuType: GpuType
  readonly networkType: NetworkType
  readonly gpuCount: number
  readonly accountId: string
}

export interface OfferCost extends PriceKey {
  readonly cost: NanoUsd
  readonly markupBp: number | null
  readonly floor: NanoUsd | null
  readonly fixed: NanoUsd | null
  readonly sellsBelowCost: boolean
  /** Whether some of them can be rented now. */
  readonly hasRoom: boolean
}

export interface RulePrice extends PriceKey {
  readonly price: NanoUsd
}

/** Lists the highest cost of each kind of machine that an account with a rule offers now. */
export async function listOfferCosts(db: Db): Promise<OfferCost[]> {
  const { rows } = await sql<OfferCost>`
    select m.offering as "machineType", m.region, m.gpu_type as "gpuType", m.network_type as "networkType",
      m.gpus_total as "gpuCount", a.id as "accountId", max(m.cost_nano_per_gpu_hour) as cost, a.markup_bp as "markupBp",
      a.floor_nano_per_gpu_hour as floor, a.fixed_nano_per_gpu_hour as fixed, a.sells_below_cost as "sellsBelowCost",
      bool_or(m.listed and m.gpus_free > 0) as "hasRoom"
    from provider_account a
    join machine m on m.driver = a.driver and split_part(m.offer_id, ':', 2) = a.name
    where a.removed_at is null and (a.markup_bp is not null or a.fixed_nano_per_gpu_hour is not null)
      and m.status = 'node_ready' and m.gpu_type is not null and m.cost_nano_per_gpu_hour is not null
    group by m.offering, m.region, m.gpu_type, m.network_type, m.gpus_total, a.id`.execute(db)
  return rows
}

/** Writes one price per kind of machine into the price book. Prices that the operator set stay. */
export async function saveRulePrices(tx: Tx, prices: readonly RulePrice[]): Promise<void> {
  if (prices.length === 0) return
  const updated_at = toDate(tx.clock.now())
  const rows = prices.map(({ machineType, region, gpuType, networkType, gpuCount, accountId, price }) => ({
    machine_type: machineType,
    region,
    gpu_type: gpuType,
    network_type: networkType,
    gpu_count: gpuCount,
    nano_per_gpu_hour: price,
    enabled: true,
    provider_account_id: accountId,
    updated_at,
  }))
  const result = await tx.db
    .insertInto('gpu_price')
    .values(rows)
    .onConflict((conflict) =>
      conflict
        .columns(['machine_type', 'region', 'gpu_type', 'network_type', 'gpu_count'])
        .doUpdateSet((e) => ({
          nano_per_gpu_hour: e.ref('excluded.nano_per_gpu_hour'),
          provider_account_id: e.ref('excluded.provider_account_id'),
          updated_at,
        }))
        .where('gpu_price.provider_account_id', 'is not', null)
        .whereRef('gpu_price.nano_per_gpu_hour', '!=', 'excluded.nano_per_gpu_hour' as never),
    )
    .executeTakeFirst()
  if ((result.numInsertedOrUpdatedRows ?? 0n) > 0n) tx.wake.add(CAPACITY_WAKE)
}

/**
 * Takes offers off sale if their account asks more than the price book, whose price then comes from another account,
 * and puts the others back on sale. `rulePrices` are by the rules of all accounts. undefined: only machines whose price
 * the operator has set are changed.
 */
export async function writeAskingPrices(tx: Tx, rulePrices: readonly RulePrice[] | undefined): Promise<void> {
  const rules = JSON.stringify((rulePrices ?? []).map((one) => ({ ...one, price: one.price.toString() })))
  const result = await sql`
    with wanted as (
      select m.id, case
          when p.provider_account_id is null then null
          when ${rulePrices === undefined} then m.asking_nano_per_gpu_hour
          when r.price > p.nano_per_gpu_hour then r.price
        end as asking
      from machine m
      join provider_account a on a.driver = m.driver and a.name = split_part(m.offer_id, ':', 2)
      left join gpu_price p on p.machine_type = m.offering and p.region = m.region and p.gpu_type = m.gpu_type
        and p.network_type = m.network_type and p.gpu_count = m.gpus_total
      left join jsonb_to_recordset(${rules}::jsonb) as r ("machineType" text, region text, "gpuType" text,
          "networkType" text, "gpuCount" integer, "accountId" text, price bigint)
        on r."accountId" = a.id and r."machineType" = m.offering and r.region = m.region and r."gpuType" = m.gpu_type
          and r."networkType" = m.network_type and r."gpuCount" = m.gpus_total
      where m.offer_id is not null)
    update machine m set asking_nano_per_gpu_hour = w.asking from wanted w
    where m.id = w.id and m.asking_nano_per_gpu_hour is distinct from w.asking`.execute(tx.db)
  if ((result.numAffectedRows ?? 0n) > 0n) tx.wake.add(CAPACITY_WAKE)
}
