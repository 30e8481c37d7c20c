/** Stop, start and reboot over HTTP. */
import { ok } from '../../contract/result.ts'
import { createOnce } from '../../app/idempotency.ts'
import { rebootOwnRental, startOwnRental, stopOwnRental } from '../../app/rental/own-rental-power.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'
import { answerRental } from './rental.ts'

export const rentalPowerHandlers = {
  stopRental: async (app, { actor, params }) =>
    answerRental(app, await transact(app.database, (tx) => stopOwnRental(app, tx, actor, params.id))),

  startRental: async (app, { actor, params, body }) =>
    answerRental(app, await transact(app.database, (tx) => startOwnRental(app, tx, actor, params.id, body.ifNoGpu))),

  rebootRental: async (app, { actor, params, operation, idempotencyKey }) => {
    const idempotency = { key: idempotencyKey, operation, request: params }
    const result = await createOnce(app, actor, idempotency, async (tx) => {
      const rental = await rebootOwnRental(app, tx, actor, params.id)
      return rental.ok ? ok({ id: rental.value.id }) : rental
    })
    return answerRental(app, result)
  },
} satisfies Partial<Handlers>
