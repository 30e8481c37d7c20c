/** Operations for suppliers over HTTP. */
import { ok } from '../../contract/result.ts'
import { readEarnings } from '../../app/money/earning.ts'
import { changeSuppliedMachine } from '../../app/supply/supply.ts'
import { supplierOf } from '../../app/supply/host.ts'
import { transact } from '../../store/platform/database.ts'
import { listFleet, type Machine } from '../../store/machine/machine.ts'
import { listSupply, sumSupply } from '../../store/machine/supply.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'
import { suppliedHost } from './host.ts'

export const supplyHandlers = {
  listSupply: async (app, { actor, query }) => {
    const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && after === undefined) return badCursor()
    const { db } = app.database
    const now = app.clock.now()
    const supplierId = supplierOf(actor)
    const [rows, totals] = await Promise.all([
      listSupply(db, supplierId, { ...query, after, limit: rowsToAsk(query.limit) }),
      sumSupply(db, supplierId, now),
    ])
    const page = pageOf(rows, query.limit, ({ id }) => id)
    return ok({
      supplied: page.rows.map(({ id, host, machine }) => ({
        id,
        host: host === undefined ? null : suppliedHost(host, now),
        machine: machine === undefined ? null : suppliedMachine(machine),
      })),
      totals,
      nextCursor: page.nextCursor,
    })
  },

  listSuppliedMachines: async (app, { actor, query }) => {
    const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && after === undefined) return badCursor()
    const machines = await listFleet(app.database.db, {
      supplierId: supplierOf(actor),
      ...(after === undefined ? {} : { after }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(machines, query.limit, (machine) => machine.id)
    return ok({ machines: page.rows.map(suppliedMachine), nextCursor: page.nextCursor })
  },

  changeSuppliedMachine: async (app, { actor, params, body }) => {
    const { pricePerGpuHourUsd: price, interruptiblePricePerGpuHourUsd: interruptiblePrice, listed } = body
    const change = { price, interruptiblePrice, noticeSeconds: body.interruptionNoticeSeconds, listed }
    const changed = await transact(app.database, (tx) => changeSuppliedMachine(app, tx, actor, params.id, change))
    return changed.ok ? ok(suppliedMachine(changed.value)) : changed
  },

  getEarnings: async (app, { actor, query }) => {
    const earnings = await readEarnings(app, actor, query.days)
    return ok({
      unpaidUsd: earnings.unpaid,
      paidOutUsd: earnings.paidOut,
      platformFeePercentage: earnings.feeBp / 100,
      machines: earnings.machines.map(({ machineId, earned }) => ({ id: machineId, earnedUsd: earned })),
      from: earnings.from,
      to: earnings.to,
      earnedUsd: earnings.earned,
      byDay: earnings.byDay.map(({ day, earned, gpuHoursSold }) => ({
        day,
        earnedUsd: earned,
        gpuHoursSold,
      })),
      byMachine: earnings.byMachine.map(({ machineId, earned, ...sale }) => ({
        id: machineId,
        earnedUsd: earned,
        ...sale,
        occupancyPercentage: sale.gpuHours ? Math.round((sale.gpuHoursSold / sale.gpuHours) * 10_000) / 100 : null,
      })),
    })
  },
} satisfies Partial<Handlers>

export function suppliedMachine(machine: Machine) {
  return {
    id: machine.id,
    clusterName: machine.cluster_name,
    region: machine.region,
    offering: machine.offering,
    status: machine.status,
    listed: machine.listed,
    gpuModel: machine.gpu_model,
    gpusTotal: machine.gpus_total,
    gpusInUse: machine.gpus_claimed,
    gpusSick: [...new Set([...machine.gpus_sick, ...machine.gpus_withdrawn])].sort((a, b) => a - b),
    gpusWithdrawn: machine.gpus_withdrawn,
    pricePerGpuHourUsd: machine.price_nano_per_gpu_hour,
    interruptiblePricePerGpuHourUsd: machine.interruptible_nano_per_gpu_hour,
    interruptionNoticeSeconds: machine.interruption_notice_s,
    seenAt: machine.seen_at,
  }
}
