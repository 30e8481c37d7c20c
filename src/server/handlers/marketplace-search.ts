/** Browsing the marketplace over HTTP. */
import { limits } from '../../base/limits.ts'
import { addMs } from '../../base/instant.ts'
import { zeroUsd } from '../../base/money.ts'
import { ok } from '../../contract/result.ts'
import { INTERRUPTIONS_MS, waitSeconds } from '../../domain/interruption.ts'
import { offerOfUnit } from '../../domain/unit.ts'
import { canStop } from '../../drivers/driver.ts'
import { countMarketplace, searchMarketplace, type MatchingMachine } from '../../store/machine/marketplace.ts'
import { readInterruptionRecords, type InterruptionRecord } from '../../store/rental/interruption.ts'
import type { Handlers } from '../http/handler.ts'
import { shownSupplier } from './listed-machine.ts'

function interruptionFields(machine: Omit<MatchingMachine, 'hardware'>, record: InterruptionRecord | undefined) {
  const { interruptible_nano_per_gpu_hour: price, interruption_notice_s: noticeSeconds } = machine
  const interruptible =
    price === null
      ? null
      : { pricePerGpuHourUsd: price, noticeSeconds, interruptionsLast7Days: record?.interruptions ?? 0 }
  const notice = record?.noticeSeconds ?? null
  const gpusAfterWait =
    record === undefined || notice === null
      ? null
      : { gpus: record.gpus, waitSeconds: waitSeconds([{ noticeSeconds: notice }]) }
  return { interruptible, gpusAfterWait }
}

export const marketplaceSearchHandlers = {
  searchMachines: async (app, { query: { sort, down, offset, limit, grouped, ...search } }) => {
    const { machines, matches } = await searchMarketplace(app.database.db, search, {
      sort,
      down,
      offset,
      limit,
      grouped,
    })
    const ids = machines.map(({ id }) => id)
    const since = addMs(app.clock.now(), -INTERRUPTIONS_MS)
    const records = await readInterruptionRecords(app.database.db, ids, since)
    return ok({
      matches,
      machines: machines.map(({ hardware, ...machine }) => ({
        id: machine.id,
        providerId: machine.driver,
        clusterName: machine.cluster_name,
        region: machine.region,
        supplierId: shownSupplier(machine),
        gpuModel: machine.gpu_model,
        gpuRamMib: machine.gpu_ram_mib,
        gpusFree: machine.free,
        gpusTotal: machine.gpus_total,
        cpuModel: hardware.cpuModel,
        cpuCores: hardware.cpuCores,
        virtualCores: hardware.virtualCores,
        ramGb: hardware.ramGb,
        storageGb: hardware.storageGb,
        hasPersistentStorage: machine.has_persistent_storage,
        pricePerGpuHourUsd: machine.price_nano_per_gpu_hour ?? zeroUsd,
        ...interruptionFields(machine, records.get(machine.id)),
        gpuDriver: hardware.gpuDriver ?? null,
        cudaVersion: hardware.cudaVersion ?? null,
        uptimePercent: machine.uptime_percent,
        identicalMachines: machine.alike,
        identicalGpusFree: machine.alike_free,
        simulated: machine.simulation,
        stoppedDiskUsdPerGbMonth:
          offerOfUnit(machine.id) === undefined && canStop(app.drivers.get(machine.driver), 'container')
            ? app.stoppedDiskPerGbMonth
            : null,
      })),
    })
  },

  countMachines: async (app) => {
    const { gpuModels, ...counts } = await countMarketplace(app.database.db, limits.pageRows)
    return ok({
      ...counts,
      gpuModels: gpuModels.map((model) => ({
        name: model.name,
        machines: model.machines,
        gpuRamMib: model.gpu_ram_mib,
        gpusFree: model.gpus_free,
        gpusTotal: model.gpus_total,
        regions: model.regions,
        fromPricePerGpuHourUsd: model.from_price,
      })),
    })
  },
} satisfies Partial<Handlers>
