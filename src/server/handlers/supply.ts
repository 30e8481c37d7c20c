/** What suppliers see and do, on the wire. */
import { formatInstant } from '../../base/instant.ts'
import { formatUsd, parseUsd } from '../../base/money.ts'
import { ok } from '../../base/result.ts'
import { changeSuppliedMachine, readEarnings } from '../../app/supply.ts'
import { transact } from '../../store/database.ts'
import { listFleet, type Machine } from '../../store/machine.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../cursor.ts'
import type { Handlers } from '../handler.ts'

export const supplyHandlers = {
  listSuppliedMachines: async (app, { actor, query }) => {
    const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && after === undefined) return badCursor()
    const found = await listFleet(app.database.db, {
      supplierId: actor.accountId,
      ...(after === undefined ? {} : { after }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(found, query.limit, (machine) => machine.id)
    return ok({ machines: page.rows.map(suppliedMachine), nextCursor: page.nextCursor })
  },

  changeSuppliedMachine: async (app, { actor, params, body }) => {
    const price = body.pricePerGpuHourUsd === undefined ? undefined : parseUsd(body.pricePerGpuHourUsd)
    const changed = await transact(app.database, (tx) =>
      changeSuppliedMachine(tx, actor, params.id, { price, listed: body.listed }),
    )
    return changed.ok ? ok(suppliedMachine(changed.value)) : changed
  },

  getEarnings: async (app, { actor }) => {
    const earnings = await readEarnings(app.database.db, actor.accountId)
    return ok({
      unpaidUsd: formatUsd(earnings.unpaid),
      paidOutUsd: formatUsd(earnings.paidOut),
      platformFeePercentage: earnings.feeBp / 100,
      machines: earnings.machines.map((machine) => ({ id: machine.machineId, earnedUsd: formatUsd(machine.earned) })),
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
    pricePerGpuHourUsd: machine.price_nano_per_gpu_hour === null ? null : formatUsd(machine.price_nano_per_gpu_hour),
    seenAt: formatInstant(machine.seen_at),
  }
}
