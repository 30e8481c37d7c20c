/** Requests for large reservations, which an operator handles in person. */
import { toDate } from '../../base/instant.ts'
import type { Tx } from '../platform/database.ts'

export async function insertReservationRequest(tx: Tx, accountId: string, gpuCount: number): Promise<void> {
  await tx.db
    .insertInto('reservation_request')
    .values({ account_id: accountId, gpu_count: gpuCount, created_at: toDate(tx.clock.now()) })
    .execute()
}
