/**
 * The marketplace for browsing: filtered, sorted and counted here, so that a page of the console reads the rows that it
 * shows and not the whole listing. Rows are found by their place in the order, so that a reader can jump anywhere.
 */
import { sql, type RawBuilder } from 'kysely'
import { usdFromNumber } from '../base/money.ts'
import type { MarketplaceSort } from '../contract/marketplace-search.ts'
import type { Db } from './database.ts'
import { isPresent, type ListedMachine } from './machine.ts'

export interface MachineSearch {
  readonly gpu?: string | undefined
  readonly free?: number | undefined
  readonly price?: number | undefined
  readonly region?: string | undefined
  readonly text?: string | undefined
}

const MAX_WORDS = 20

/** As `gpuLabel` of view/gpu.ts. */
const gpuName = sql<string>`regexp_replace(replace(gpu_model, '-', ' '), '^(NVIDIA )?(GeForce )?', '', 'i')`
const free = sql<number>`(case when status = 'node_ready' then gpus_free else 0 end)`
const supplier = sql<string>`coalesce(supplier_id, 'house')`
const hardware = (name: string): RawBuilder<number> => sql`(hardware ->> ${sql.lit(name)})::numeric`
const searched = sql<string>`lower(concat_ws(' ', ${gpuName}, hardware ->> 'cpuModel', id, cluster_name, region, ${supplier}))`

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

function matching({ gpu, free: atLeast, price, region, text = '' }: MachineSearch): RawBuilder<boolean> {
  const most = price === undefined ? undefined : usdFromNumber(price)
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).slice(0, MAX_WORDS)
  const conditions = [
    onSale,
    ...(gpu === undefined
      ? []
      : [sql`position(${withoutGaps(gpu)} in regexp_replace(lower(${gpuName}), '[\\s_-]', '', 'g')) > 0`]),
    ...(atLeast === undefined ? [] : [sql`${free} >= ${atLeast}`]),
    ...(most === undefined ? [] : [sql`price_nano_per_gpu_hour <= ${most}`]),
    ...(region === undefined ? [] : [sql`region = ${region}`]),
    ...words.map((word) => sql`position(${word} in ${searched}) > 0`),
  ]
  return sql<boolean>`${sql.join(conditions, sql` and `)}`
}

export type FoundMachine = Pick<
  ListedMachine,
  | 'id'
  | 'cluster_name'
  | 'region'
  | 'supplier_id'
  | 'gpu_model'
  | 'gpu_ram_mib'
  | 'gpus_total'
  | 'price_nano_per_gpu_hour'
  | 'has_persistent_storage'
  | 'hardware'
  | 'simulation'
> & { readonly free: number }

export async function searchMarketplace(
  db: Db,
  search: MachineSearch,
  page: { sort: MarketplaceSort; down: boolean; offset: number; limit: number },
): Promise<{ machines: FoundMachine[]; matches: number }> {
  const where = matching(search)
  const direction = page.down ? sql`desc` : sql`asc`
  const [machines, counted] = await Promise.all([
    sql<FoundMachine>`
      select id, cluster_name, region, supplier_id, gpu_model, gpu_ram_mib, gpus_total, ${free} as free,
        price_nano_per_gpu_hour, has_persistent_storage, hardware, simulation
      from machine where ${where}
      order by ${sorts[page.sort]} ${direction}, id collate "C"
      offset ${page.offset} limit ${page.limit}`.execute(db),
    sql<{ matches: number }>`select count(*)::integer as matches from machine where ${where}`.execute(db),
  ])
  return { machines: machines.rows, matches: counted.rows[0]?.matches ?? 0 }
}

export interface MarketplaceCounts {
  readonly machines: number
  readonly gpuModels: Array<{ name: string; machines: number }>
  readonly regions: Array<{ name: string; machines: number }>
}

/** How many machines there are, and of what. */
export async function countMarketplace(db: Db, limit: number): Promise<MarketplaceCounts> {
  const by = (column: RawBuilder<unknown>) =>
    sql<{ name: string; machines: number }>`
      select ${column} as name, count(*)::integer as machines from machine where ${onSale}
      group by 1 order by 1 limit ${limit}`.execute(db)
  const [all, gpuModels, regions] = await Promise.all([
    sql<{ machines: number }>`select count(*)::integer as machines from machine where ${onSale}`.execute(db),
    by(sql`gpu_model`),
    by(sql`region`),
  ])
  return { machines: all.rows[0]?.machines ?? 0, gpuModels: gpuModels.rows, regions: regions.rows }
}
