/**
 * The marketplace for browsing: filtered, sorted and counted here, so that a page of the console reads the rows that it
 * shows and not the whole listing. Rows are found by their place in the order, so that a reader can jump anywhere.
 */
import { sql, type RawBuilder } from 'kysely'
import { usdFromNumber, type NanoUsd } from '../../base/money.ts'
import type { MarketplaceSort } from '../../contract/choices.ts'
import type { Db } from '../platform/database.ts'
import { hasDisk } from './listed-machine.ts'
import { isPresent, type Machine } from './machine.ts'
import { uptimeOf } from './machine-uptime.ts'

export interface MachineSearch {
  readonly gpu?: string | undefined
  readonly free?: number | undefined
  readonly price?: number | undefined
  readonly region?: string | undefined
  readonly text?: string | undefined
}

const MAX_WORDS = 20

/** The label is that of `gpuLabel` of view/gpu.ts. */
const gpuName = sql<string>`regexp_replace(replace(gpu_model, '-', ' '), '^(NVIDIA )?(GeForce )?', '', 'i')`
const free = sql<number>`(case when status = 'node_ready' and ${hasDisk} then gpus_free else 0 end)`
const supplier = sql<string>`coalesce(supplier_id, 'house')`
const hardware = (name: string): RawBuilder<number> => sql`(hardware ->> ${sql.lit(name)})::numeric`
const searchText = sql<string>`lower(concat_ws(' ', ${gpuName}, hardware ->> 'cpuModel', id, cluster_name, region, ${supplier}))`

const sorts: Readonly<Record<MarketplaceSort, RawBuilder<unknown>>> = {
  gpu: sql`${gpuName} collate "C"`,
  free,
  vram: sql`gpu_ram_mib`,
  cpu: hardware('cpuCores'),
  ram: hardware('ramGb'),
  disk: hardware('storageGb'),
  region: sql`region collate "C"`,
  price: sql`price_nano_per_gpu_hour`,
  supplier: sql`${supplier} collate "C"`,
}

/** `rtx4090` and `RTX-4090` both find `RTX 4090`. */
function withoutGaps(text: string): string {
  return text.toLowerCase().replaceAll(/[\s_-]/g, '')
}

const onSale = sql<boolean>`offering = 'marketplace' and listed and ${isPresent}`

function matches({ gpu, free: atLeast, price, region, text = '' }: MachineSearch): RawBuilder<boolean> {
  const maxPrice = price === undefined ? undefined : usdFromNumber(price)
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).slice(0, MAX_WORDS)
  const conditions = [
    onSale,
    ...(gpu === undefined
      ? []
      : [sql`position(${withoutGaps(gpu)} in regexp_replace(lower(${gpuName}), '[\\s_-]', '', 'g')) > 0`]),
    ...(atLeast === undefined ? [] : [sql`${free} >= ${atLeast}`]),
    ...(maxPrice === undefined ? [] : [sql`price_nano_per_gpu_hour <= ${maxPrice}`]),
    ...(region === undefined ? [] : [sql`region = ${region}`]),
    ...words.map((word) => sql`position(${word} in ${searchText}) > 0`),
  ]
  return sql<boolean>`${sql.join(conditions, sql` and `)}`
}

export type MatchingMachine = Pick<
  Machine,
  | 'id'
  | 'driver'
  | 'cluster_name'
  | 'region'
  | 'supplier_id'
  | 'gpu_model'
  | 'gpu_ram_mib'
  | 'gpus_total'
  | 'price_nano_per_gpu_hour'
  | 'interruptible_nano_per_gpu_hour'
  | 'interruption_notice_s'
  | 'has_persistent_storage'
  | 'hardware'
  | 'simulation'
> & {
  readonly free: number
  readonly uptime_percent: number | null
  readonly alike: number
  readonly alike_free: number
}

/** Machines that differ in none of these are the same offer. */
const offer = sql`gpu_model, gpu_ram_mib, gpus_total, price_nano_per_gpu_hour,
  interruptible_nano_per_gpu_hour, interruption_notice_s, region, supplier_id, hardware,
  has_persistent_storage, simulation`

export async function searchMarketplace(
  db: Db,
  search: MachineSearch,
  page: { sort: MarketplaceSort; down: boolean; offset: number; limit: number; grouped: boolean },
): Promise<{ machines: MatchingMachine[]; matches: number }> {
  const where = matches(search)
  const direction = page.down ? sql`desc` : sql`asc`
  const candidates = page.grouped
    ? sql`select *, ${free} as free, count(*) over offer as alike, sum(${free}) over offer as alike_free,
        row_number() over (offer order by ${free} desc, id collate "C") as place
      from machine where ${where} window offer as (partition by ${offer})`
    : sql`select *, ${free} as free, 1 as alike, ${free} as alike_free, 1 as place from machine where ${where}`
  const rows = page.grouped
    ? sql`(select 1 from machine where ${where} group by ${offer}) as offers`
    : sql`machine where ${where}`
  const [machines, counts] = await Promise.all([
    sql<MatchingMachine>`
      select shown.*, ${uptimeOf(sql`shown.id`)} as uptime_percent from (
        select id, driver, cluster_name, region, supplier_id, gpu_model, gpu_ram_mib, gpus_total, free,
          price_nano_per_gpu_hour, interruptible_nano_per_gpu_hour, interruption_notice_s, has_persistent_storage, hardware,
          simulation, alike::integer, alike_free::integer, row_number() over (order by ${sorts[page.sort]} ${direction}, id collate "C") as nth
        from (${candidates}) as machine where place = 1
        order by nth offset ${page.offset} limit ${page.limit}
      ) as shown order by nth`.execute(db),
    sql<{ matches: number }>`select count(*)::integer as matches from ${rows}`.execute(db),
  ])
  return { machines: machines.rows, matches: counts.rows[0]?.matches ?? 0 }
}

export interface GpuModelCount {
  readonly name: string
  readonly machines: number
  readonly gpu_ram_mib: number
  readonly gpus_free: number
  readonly gpus_total: number
  readonly regions: number
  readonly from_price: NanoUsd | null
}

export interface MarketplaceCounts {
  readonly machines: number
  readonly gpuModels: GpuModelCount[]
  readonly regions: Array<{ name: string; machines: number }>
}

/** Counts machines on sale: all of them, by GPU model, and by region. */
export async function countMarketplace(db: Db, limit: number): Promise<MarketplaceCounts> {
  const [all, gpuModels, regions] = await Promise.all([
    sql<{ machines: number }>`select count(*)::integer as machines from machine where ${onSale}`.execute(db),
    sql<GpuModelCount>`
      select gpu_model as name, count(*)::integer as machines, max(gpu_ram_mib) as gpu_ram_mib,
        sum(${free})::integer as gpus_free, sum(gpus_total)::integer as gpus_total,
        count(distinct region)::integer as regions,
        coalesce(min(price_nano_per_gpu_hour) filter (where ${free} > 0), min(price_nano_per_gpu_hour)) as from_price
      from machine where ${onSale} group by 1 order by 1 limit ${limit}`.execute(db),
    sql<{ name: string; machines: number }>`
      select region as name, count(*)::integer as machines from machine where ${onSale}
      group by 1 order by 1 limit ${limit}`.execute(db),
  ])
  return { machines: all.rows[0]?.machines ?? 0, gpuModels: gpuModels.rows, regions: regions.rows }
}
