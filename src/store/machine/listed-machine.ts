/** The marketplace listing: machines in the order of ids, with what occupies them, or the cheapest. */
import { sql, type RawBuilder } from 'kysely'
import { usdFromNumber, type NanoUsd } from '../../base/money.ts'
import type { MarketplaceFilters } from '../../contract/marketplace.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import { MIN_DISK_GB } from '../../domain/machine.ts'
import { prepareAs, type Db } from '../platform/database.ts'
import { isPresent, type Machine } from './machine.ts'

/** The rule is that of `hasDisk` of domain/machine.ts, for all free GPUs together: stopped rentals may have the disk. */
export const hasDisk = sql<boolean>`(floor(disk_gb_per_gpu * gpus_free)
  >= least(${sql.lit(MIN_DISK_GB)}, floor((hardware ->> 'storageGb')::double precision * gpus_free / gpus_total / 2)))`

/** The columns of the listing. Pages are read often, so the rest of a row is not read. */
const rowColumns = [
  'id',
  'cluster_name',
  'region',
  'supplier_id',
  'status',
  'gpu_model',
  'gpu_ram_mib',
  'network_type',
  'gpus_total',
  'gpus_claimed',
  'gpus_free',
  'price_nano_per_gpu_hour',
  'has_persistent_storage',
  'simulation',
] as const
const listedColumns = [...rowColumns, 'driver', 'hardware'] as const
export type ListedMachine = Pick<Machine, (typeof listedColumns)[number]>

/** The hardware is JSON text: few different texts describe many machines, so they are parsed once each. */
export type ListedRow = Pick<ListedMachine, (typeof rowColumns)[number]> & {
  readonly hardware_text: string
  /** null: the machine has no rentals. */
  readonly occupants: readonly Occupant[] | null
}

/** A workload on a machine: the listing shows usage, never the customer. */
export interface Occupant {
  readonly name: string
  readonly gpus: number
}

const occupants = sql`case when gpus_claimed > 0 then (
  select json_agg(json_build_object('name', name, 'gpus', gpus) order by name) from (
    select r.name, count(*) as gpus from gpu_claim c join rental r on r.id = c.rental_id
    where c.machine_id = machine.id group by r.name) o) end`

/** The marketplace, in the order of ids. Filters are part of one query; bench/listing.ts measures it. */
export async function listMarketplace(
  db: Db,
  filters: MarketplaceFilters,
  page: { after?: string; limit: number },
): Promise<ListedRow[]> {
  const conditions = conditionsOf(filters)
  const columns = rowColumns.map((name) => sql.ref(name))
  const { rows } = await sql<ListedRow>`${prepareShape(conditions)}
    select ${sql.join(columns)}, hardware::text as hardware_text, ${occupants} as occupants from machine
    where ${allOf(conditions)} and id > ${page.after ?? ''} order by id limit ${page.limit}`.execute(db)
  return rows
}

type Conditions = ReadonlyMap<string, RawBuilder<boolean>>

function allOf(conditions: Conditions): RawBuilder<boolean> {
  return sql<boolean>`${sql.join([...conditions.values()], sql` and `)}`
}

/** The keys are names of conditions: two requests with the same names differ in values only. */
function conditionsOf(filters: MarketplaceFilters): Conditions {
  // PostgreSQL checks these in this order, for up to all machines: plain columns first, texts and JSON last.
  const conditions = new Map([['listed', sql<boolean>`offering = 'marketplace' and listed`]])
  const { region, cluster_name: cluster, supplier_id: supplier, min_gpus_available: free } = filters
  const { available_only: isFree, max_price: price, has_persistent_storage: keeps, min_gpu_ram: ram } = filters
  if (region !== undefined) conditions.set('region', sql`region = ${region}`)
  if (cluster !== undefined) conditions.set('cluster', sql`cluster_name = ${cluster}`)
  if (supplier !== undefined) conditions.set('supplier', sql`supplier_id = ${supplier}`)
  if (free !== undefined) conditions.set('free', sql`gpus_free >= ${free}`)
  if (isFree === true) conditions.set('ready', sql`gpus_free > 0 and status = 'node_ready'`)
  if (price !== undefined)
    conditions.set('price', sql`price_nano_per_gpu_hour <= ${usdFromNumber(price) ?? 10n ** 18n}`)
  if (keeps !== undefined) conditions.set('keeps', sql`has_persistent_storage = ${keeps}`)
  // The requested number may be larger than the column's type.
  if (ram !== undefined) conditions.set('ram', sql`gpu_ram_mib >= ${ram}::bigint`)
  if (filters.gpu_model !== undefined)
    conditions.set('model', sql`position(lower(${filters.gpu_model}) in lower(gpu_model)) > 0`)
  conditions.set('present', isPresent)
  if (isFree === true) conditions.set('disk', hasDisk)
  return conditions
}

/** Each plan takes some 50 kB on every connection, and anyone can ask for hundreds of combinations of filters. */
const MAX_SHAPES = 64
const shapes = new Map<string, string>()

/** The first combinations of filters that are asked for are planned once per connection: planning is a fifth of a request. */
function prepareShape(conditions: Conditions): RawBuilder<unknown> {
  const shape = [...conditions.keys()].join(' ')
  const preparedName = shapes.get(shape)
  if (preparedName !== undefined) return prepareAs(preparedName)
  if (shapes.size >= MAX_SHAPES) return sql``
  const name = `listing_${shapes.size}`
  shapes.set(shape, name)
  return prepareAs(name)
}

/** Whether the GPU of a machine has this part in its name, whatever separates its words. A part without letters matches none. */
export function isLike(gpu: string): RawBuilder<boolean> {
  const letters = gpu.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
  if (letters === '') return sql<boolean>`false`
  return sql<boolean>`position(${letters} in regexp_replace(lower(gpu_model), '[^a-z0-9]', '', 'g')) > 0`
}

/** Machines on sale with enough free GPUs, cheapest first, and at equal price the preferred ones. */
export async function listCheapest(
  db: Db,
  query: {
    gpuModel?: string
    /** A part of the model's name, whatever separates its words: `RTX 4090` or `rtx4090`. */
    gpuLike?: string
    gpuCount: number
    limit: number
    minRamMib?: number
    /** The price is per GPU-hour. */
    maxPrice?: NanoUsd
    driver?: ProviderId
    /** Only machines of these. */
    drivers?: readonly ProviderId[]
    region?: string | undefined
    host?: string | undefined
    cluster?: string | undefined
    /** `false` excludes simulated machines, which run nothing. Real machines with simulated GPUs remain. */
    isSimulated?: boolean
    /** `true` excludes MIG instances, which one program cannot use together. */
    isWhole?: boolean
    /** Whether to compare prices for interruptible rentals, on machines that have one. */
    isInterruptible?: boolean
    preferred?: readonly string[]
    /** Machines whose price is multiplied by the factor in the order of results. */
    avoided?: { readonly ids: readonly string[]; readonly factor: number }
  },
): Promise<ListedMachine[]> {
  const { avoided = { ids: [], factor: 1 } } = query
  const { gpuModel, gpuLike, gpuCount, driver, drivers, region, host, cluster, minRamMib, maxPrice } = query
  const price = sql<NanoUsd>`${sql.ref(query.isInterruptible === true ? 'interruptible_nano_per_gpu_hour' : 'price_nano_per_gpu_hour')}`
  const conditions = conditionsOf({ gpu_model: gpuModel, min_gpus_available: gpuCount, available_only: true })
  let select = db.selectFrom('machine').select(listedColumns).where(allOf(conditions))
  if (gpuLike !== undefined) select = select.where(isLike(gpuLike))
  if (minRamMib !== undefined) select = select.where('gpu_ram_mib', '>=', minRamMib)
  if (maxPrice !== undefined) select = select.where(price, '<=', maxPrice)
  if (driver !== undefined) select = select.where('driver', '=', driver)
  if (drivers !== undefined) select = select.where(sql<boolean>`driver = any (${drivers}::text[])`)
  if (region !== undefined) select = select.where('region', '=', region)
  if (host !== undefined) select = select.where('id', '=', host)
  if (cluster !== undefined) select = select.where('cluster_name', '=', cluster)
  if (query.isWhole === true) select = select.where(isWholeGpu)
  if (query.isSimulated !== undefined) {
    select = select.where(sql<boolean>`(simulation is not distinct from 'machine') = ${query.isSimulated}`)
  }
  return select
    .where(sql<boolean>`${price} is not null`)
    .orderBy(sql`${price} * case when id = any (${avoided.ids}::text[]) then ${avoided.factor}::float8 else 1 end`)
    .orderBy(sql`id = any (${query.preferred ?? []}::text[])`, 'desc')
    .orderBy('id')
    .limit(query.limit)
    .execute()
}

const isWholeGpu = sql<boolean>`gpu_model not like '%-MIG-%'`

/** Free GPUs of the cheapest machine for each count, GPU model, CUDA version and vendor; simulated ones apart from real ones. */
export async function listCheapestOfEach(
  db: Db,
  counts: readonly number[],
  { region, gpuLike, maxPrice }: { region?: string | undefined; gpuLike?: string | undefined; maxPrice?: NanoUsd },
): Promise<Array<ListedMachine & { readonly gpu_count: number }>> {
  const conditions = conditionsOf({ available_only: true, ...(region === undefined ? {} : { region }) })
  const columns = listedColumns.map((name) => sql.ref(name))
  const { rows } = await sql<ListedMachine & { gpu_count: number }>`
    select distinct on (wanted.gpu_count, gpu_model, gpu_ram_mib, hardware ->> 'cudaVersion',
      hardware ->> 'gpuVendor', simulation)
      wanted.gpu_count, ${sql.join(columns)}
    from unnest(${counts}::int[]) wanted (gpu_count) join machine on gpus_free >= wanted.gpu_count
    where ${allOf(conditions)} and price_nano_per_gpu_hour is not null
      and ${maxPrice === undefined ? sql`true` : sql`price_nano_per_gpu_hour <= ${maxPrice}`}
      and ${gpuLike === undefined ? sql`true` : isLike(gpuLike)}
      and (wanted.gpu_count = 1 or ${isWholeGpu})
    order by wanted.gpu_count, gpu_model, gpu_ram_mib, hardware ->> 'cudaVersion', hardware ->> 'gpuVendor', simulation,
      price_nano_per_gpu_hour, id`.execute(db)
  return rows
}
