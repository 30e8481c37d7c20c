/** Stop, start and reboot over HTTP. */
import { ok, type Result } from '../../contract/result.ts'
import type { App } from '../../app/app.ts'
import { createOnce } from '../../app/idempotency.ts'
import { rebootOwnRental, startOwnRental, stopOwnRental } from '../../app/rental/own-rental-power.ts'
import { readTerm } from '../../app/rental/rental-power.ts'
import { wireStatus } from '../../domain/rental.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { Rental } from '../../store/rental/rental.ts'
import type { Handlers } from '../http/handler.ts'
import { cpuOnlyFields, stateFields, stoppedCost } from './rental-state.ts'

export const rentalPowerHandlers = {
  stopRental: (app, { actor, params }) =>
    transact(app.database, async (tx) => showPower(app, tx, await stopOwnRental(app, tx, actor, params.id))),

  startRental: (app, { actor, params, body }) =>
    transact(app.database, async (tx) =>
      showPower(app, tx, await startOwnRental(app, tx, actor, params.id, body.ifNoGpu)),
    ),

  rebootRental: (app, { actor, params, operation, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: params }, async (tx) =>
      showPower(app, tx, await rebootOwnRental(app, tx, actor, params.id)),
    ),
} satisfies Partial<Handlers>

async function showPower(app: App, tx: Tx, result: Result<Rental>) {
  if (!result.ok) return result
  const rental = result.value
  const term = await readTerm(tx, rental.id)
  return ok({
    rentalId: rental.id,
    name: rental.name,
    status: wireStatus(rental.status),
    ...stateFields(app, rental, term),
    ...cpuOnlyFields(app, rental, term),
    startRequestedAt: rental.start_requested_at,
    movesTo: rental.spec.movesFrom === undefined ? null : (rental.spec.nodes[0]?.machineId ?? null),
    costPerHourUsd: term.costPerHour,
    stoppedCostPerHourUsd: stoppedCost(app, rental, term),
  })
}
