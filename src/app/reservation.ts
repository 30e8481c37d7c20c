/** Requests for large reservations, which an operator handles in person. */
import type { Tx } from '../store/database.ts'
import { recordEvent } from '../store/event.ts'
import { insertReservationRequest } from '../store/reservation.ts'
import type { Actor } from './app.ts'

export async function requestReservation(tx: Tx, actor: Actor, gpuCount: number): Promise<void> {
  await insertReservationRequest(tx, actor.accountId, gpuCount)
  recordEvent(tx, {
    accountId: actor.accountId,
    type: 'reservation.requested',
    subject: { kind: 'account', id: actor.accountId },
    data: { gpuCount },
  })
}
