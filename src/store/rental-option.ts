/** The price book joined with the machines that can serve each row. */
import { sql } from 'kysely'
import type { NanoUsd } from '../base/money.ts'
import type { GpuFormFactor, GpuType, NetworkType } from '../contract/shared.ts'
import type { MachineHardware } from '../domain/machine.ts'
import type { Db } from './database.ts'

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
}

/** Rows without any machine are left out: a price alone is not an offer. */
export async function listOptionRows(db: Db): Promise<OptionRow[]> {
  const rows = await sql<OptionRow>`
    select p.machine_type, p.region, p.gpu_type, p.network_type, p.gpu_count, p.nano_per_gpu_hour, p.enabled,
      m.gpu_form_factor, m.ethernet_variant, m.gpus_total, m.hardware, m.available
    from gpu_price p
    join lateral (
      select min(gpu_form_factor) as gpu_form_factor, min(ethernet_variant) as ethernet_variant,
        min(gpus_total) as gpus_total, (array_agg(hardware order by id))[1] as hardware,
        sum(case when status = 'node_ready' and listed
              then gpus_free / p.gpu_count else 0 end)::integer as available
      from machine
      where offering = p.machine_type and region = p.region and gpu_type = p.gpu_type and network_type = p.network_type
        and gpus_total >= p.gpu_count and (p.machine_type <> 'bare-metal' or gpus_total = p.gpu_count)
      having count(*) > 0
    ) m on true
    order by p.machine_type, p.region, p.gpu_type, p.network_type, p.gpu_count`.execute(db)
  return rows.rows
}
