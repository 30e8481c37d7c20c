/** Machines on sale over HTTP, for operators. */
import { ok } from '../../contract/result.ts'
import { changeFleetMachine } from '../../app/supply/supply.ts'
import { transact } from '../../store/platform/database.ts'
import { readAccountNames } from '../../store/account/account.ts'
import { listFleet, type Machine } from '../../store/machine/machine.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'
import { suppliedMachine } from './supply.ts'

export const operatorFleetHandlers = {
  listFleet: async (app, { query }) => {
    const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && after === undefined) return badCursor()
    const { q, offering, status } = query
    const machines = await listFleet(app.database.db, {
      q,
      offering,
      status,
      ...(after === undefined ? {} : { after }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(machines, query.limit, (machine) => machine.id)
    const nameOf = await readAccountNames(
      app.database.db,
      page.rows.map((machine) => machine.supplier_id),
    )
    return ok({
      machines: page.rows.map((machine) => fleetMachine(machine, nameOf)),
      nextCursor: page.nextCursor,
    })
  },

  changeMachine: async (app, { actor, params, body }) => {
    const { pricePerGpuHourUsd: price, ...settings } = body
    const changed = await transact(app.database, (tx) =>
      changeFleetMachine(tx, actor, params.id, { ...settings, price }),
    )
    if (!changed.ok) return changed
    return ok(fleetMachine(changed.value, await readAccountNames(app.database.db, [changed.value.supplier_id])))
  },
} satisfies Partial<Handlers>

function fleetMachine(machine: Machine, nameOf: (accountId: string) => string) {
  const { driver, supplier_id: supplierId } = machine
  const supplierName = supplierId === null ? null : nameOf(supplierId)
  return { ...suppliedMachine(machine), driver, supplierId, supplierName }
}
