/** Requests for large reservations, which an operator handles in person. */
import type { z } from 'zod'
import type { reservationRequest } from '../../contract/reservation.ts'
import type { Tx } from '../../store/platform/database.ts'
import { recordEvent } from '../../store/notice/event.ts'
import { insertReservationRequest } from '../../store/rental/reservation.ts'
import type { Actor } from '../app.ts'

/** The details are in the event, where operators read them. */
export async function requestReservation(
  tx: Tx,
  actor: Actor,
  request: z.output<typeof reservationRequest>,
): Promise<void> {
  await insertReservationRequest(tx, actor.accountId, request.gpuCount)
  recordEvent(tx, {
    accountId: actor.accountId,
    type: 'reservation.requested',
    subject: { kind: 'account', id: actor.accountId },
    data: Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined)),
  })
}
