/** The price book joined with the machines that can serve each row. */
import { sql } from 'kysely'
import type { NanoUsd } from '../../base/money.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { GpuFormFactor, GpuType, NetworkType, Simulation } from '../../contract/shared.ts'
import { MIN_DISK_GB, type MachineHardware } from '../../domain/machine.ts'
import type { Db } from '../platform/database.ts'

export interface OptionRow {
  readonly machine_type: 'virtual-machine' | 'bare-metal'
  readonly region: string
  readonly gpu_type: GpuType
  readonly network_type: NetworkType
  readonly gpu_count: number
  readonly nano_per_gpu_hour: NanoUsd
  readonly enabled: boolean
  readonly gpu_form_factor: GpuFormFactor
  readonly ethernet_variant: 'normal' | 'rocev2' | null
  readonly gpus_total: number
  readonly hardware: MachineHardware
  readonly available: number
  /** null: some of its machines are real. */
  readonly simulated: Simulation | null
  /** Whether all of its machines are of drivers that can stop them. */
  readonly can_stop: boolean
}

const fullDisk = sql`(hardware ->> 'storageGb')::double precision / gpus_total`

/**
 * Prices without a machine are left out: a price alone is not an offer. Machines are counted by shape and free GPUs in
 * one pass over the table; joining them to the price book one by one took 47 s for 100,000 machines, this takes 0.1 s.
 * `stoppable`: providers that can stop virtual machines.
 */
export async function listOptionRows(db: Db, stoppable: readonly ProviderId[] = []): Promise<OptionRow[]> {
  const rows = await sql<OptionRow>`
    with shape as materialized (
      select offering, region, gpu_type, network_type, gpus_total,
        case when status = 'node_ready' and listed and asking_nano_per_gpu_hour is null then gpus_free else 0 end as free,
        sold_whole or offering = 'bare-metal' as is_whole, cost_nano_per_gpu_hour as cost, sells_below_cost,
        -- Both only where stopped rentals have some of the disk.
        case when disk_gb_per_gpu < ${fullDisk} then disk_gb_per_gpu end as disk_left,
        case when disk_gb_per_gpu < ${fullDisk} then ${fullDisk} end as disk_full,
        count(*) as machines, min(id) as first_id,
        min(gpu_form_factor) as gpu_form_factor, min(ethernet_variant) as ethernet_variant,
        bool_and(coalesce(simulation = 'machine', false)) as is_simulated_machine,
        bool_and(simulation is not null) as is_simulated,
        bool_and(offering = 'virtual-machine' and offer_id is null and driver = any (${stoppable}::text[])) as can_stop
      from machine where offering <> 'marketplace'
      group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    select o.*, m.hardware
    from (
      select p.machine_type, p.region, p.gpu_type, p.network_type, p.gpu_count, p.nano_per_gpu_hour, p.enabled,
        min(s.gpu_form_factor) as gpu_form_factor, min(s.ethernet_variant) as ethernet_variant,
        min(s.gpus_total) as gpus_total, min(s.first_id) as first_id,
        coalesce(sum(s.machines * (s.free / p.gpu_count)) filter (where s.disk_left is null
          or floor(s.disk_left * p.gpu_count) >= least(${sql.lit(MIN_DISK_GB)}, floor(s.disk_full * p.gpu_count / 2))), 0)::integer
          as available,
        case when bool_and(s.is_simulated_machine) then 'machine' when bool_and(s.is_simulated) then 'gpus' end as simulated,
        bool_and(s.can_stop) as can_stop
      from gpu_price p
      join shape s on s.offering = p.machine_type and s.region = p.region and s.gpu_type = p.gpu_type
        and s.network_type = p.network_type and s.gpus_total >= p.gpu_count
        and (not s.is_whole or s.gpus_total = p.gpu_count)
        -- Units that cost more than their price are not on sale.
        and (s.cost is null or s.cost <= p.nano_per_gpu_hour or s.sells_below_cost)
      group by p.machine_type, p.region, p.gpu_type, p.network_type, p.gpu_count
    ) o join machine m on m.id = o.first_id
    order by o.machine_type, o.region, o.gpu_type, o.network_type, o.gpu_count`.execute(db)
  return rows.rows
}
