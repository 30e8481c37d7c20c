/** What can be rented, where, at which price, and how often it fits right now. */
import type { NanoUsd } from '../base/money.ts'
import type { GpuFormFactor, GpuType, NetworkType } from '../contract/shared.ts'
import { pricePerHour } from '../domain/term.ts'
import type { Db } from '../store/database.ts'
import { listOptionRows } from '../store/rental-option.ts'

export interface RentalOption {
  readonly enabled: boolean
  readonly costPerHour: NanoUsd
  readonly region: string
  readonly gpuType: GpuType
  readonly gpuCount: number
  readonly gpuFormFactor: GpuFormFactor
  readonly connectionType: NetworkType
  readonly ethernetVariant: 'normal' | 'rocev2' | null
  readonly totalAvailable: number
  readonly machineType: 'virtual-machine' | 'bare-metal'
  readonly nodes: Array<{ cpuModel: string; gpuCount: number; ramGb: number; storageGb: number; cpuCount: number }>
}

export async function listRentalOptions(db: Db): Promise<RentalOption[]> {
  const rows = await listOptionRows(db)
  return rows.map((row) => {
    const share = row.gpu_count / row.gpus_total
    return {
      enabled: row.enabled,
      costPerHour: pricePerHour(row.nano_per_gpu_hour, row.gpu_count),
      region: row.region,
      gpuType: row.gpu_type,
      gpuCount: row.gpu_count,
      gpuFormFactor: row.gpu_form_factor,
      connectionType: row.network_type,
      ethernetVariant: row.ethernet_variant,
      totalAvailable: row.available,
      machineType: row.machine_type,
      nodes: [
        {
          cpuModel: row.hardware.cpuModel,
          gpuCount: row.gpu_count,
          ramGb: Math.floor(row.hardware.ramGb * share),
          storageGb: Math.floor(row.hardware.storageGb * share),
          cpuCount: Math.max(1, Math.floor(row.hardware.virtualCores * share)),
        },
      ],
    }
  })
}
