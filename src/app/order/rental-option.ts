/** Rental options: hardware, region, price and current availability. */
import type { NanoUsd } from '../../base/money.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { GpuFormFactor, GpuType, NetworkType, Simulation } from '../../contract/shared.ts'
import { shareOfMachine } from '../../domain/machine.ts'
import { pricePerHour } from '../../domain/term.ts'
import { makeSharedRead, type SharedRead } from '../../base/shared-read.ts'
import { canStop, type Driver } from '../../drivers/driver.ts'
import type { Database } from '../../store/platform/database.ts'
import { listOptionRows } from '../../store/machine/rental-option.ts'

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
  readonly simulated: Simulation | null
  /** null: not every machine can be stopped. */
  readonly stoppedDiskPerGbMonth: NanoUsd | null
  readonly nodes: Array<{ cpuModel: string; gpuCount: number; ramGb: number; storageGb: number; cpuCount: number }>
}

/** The list is public and limited only per address, so responses may be this old. */
const MAX_AGE_MS = 1_000
const REFRESH_AFTER_MS = 400

export type RentalOptions = SharedRead<readonly RentalOption[]>

export function shareRentalOptions(app: Shop): RentalOptions {
  return makeSharedRead(() => listRentalOptions(app), { maxAgeMs: MAX_AGE_MS, refreshAfterMs: REFRESH_AFTER_MS })
}

/** The fields of an `App` that the options need. */
interface Shop {
  readonly database: Database
  readonly drivers: ReadonlyMap<ProviderId, Driver>
  readonly stoppedDiskPerGbMonth: NanoUsd
}

export async function listRentalOptions(app: Shop): Promise<RentalOption[]> {
  const stoppable = [...app.drivers].flatMap(([name, driver]) => (canStop(driver, 'virtual-machine') ? [name] : []))
  const rows = await listOptionRows(app.database.db, stoppable)
  return rows.map((row) => ({
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
    simulated: row.simulated,
    stoppedDiskPerGbMonth: row.can_stop ? app.stoppedDiskPerGbMonth : null,
    nodes: [{ ...shareOfMachine(row.hardware, row.gpu_count, row.gpus_total), gpuCount: row.gpu_count }],
  }))
}
