/** Orders and volumes at Kubernetes clusters, for their driver. */
import { sql } from 'kysely'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { RentalState } from '../../contract/rental-state.ts'
import type { Db } from '../platform/database.ts'
import { assignPort, type PortRange } from '../host/host-world.ts'

export interface PodOrder {
  readonly id: number
  readonly nonce: string
  readonly accountId: string
  readonly externalId: string | null
  readonly status: RentalState
  readonly machineId: string
  readonly clusterName: string
}

/** Lists orders whose create was called and whose end was not seen yet. */
export async function listPodOrders(db: Db, driver: ProviderId): Promise<PodOrder[]> {
  const { rows } = await sql<PodOrder>`
    select id, nonce, account_id as "accountId", external_id as "externalId", status,
      coalesce(spec->'nodes'->0->>'machineId', '') as "machineId", spec->>'clusterName' as "clusterName"
    from rental
    where driver = ${driver} and released_at is null and create_asked_at is not null
    order by id`.execute(db)
  return rows
}

export interface ClaimOrder {
  readonly id: number
  readonly nonce: string
  readonly externalId: string | null
  readonly machineId: string | null
}

/** Lists volumes whose create was called and whose end was not seen yet. */
export async function listClaimOrders(db: Db, driver: ProviderId): Promise<ClaimOrder[]> {
  return db
    .selectFrom('volume')
    .select(['id', 'nonce', 'external_id as externalId', 'machine_id as machineId'])
    .where('driver', '=', driver)
    .where('create_asked_at', 'is not', null)
    .where('state', '!=', 'deleted')
    .orderBy('id')
    .execute()
}

/** Gives each of these ports of a rental a public one, and returns those by port. Idempotent. */
export async function assignRentalPorts(
  db: Db,
  rentalId: number,
  targets: readonly number[],
  range: PortRange,
): Promise<Map<number, number>> {
  const read = () => db.selectFrom('relay_port').select(['target', 'port']).where('rental_id', '=', rentalId).execute()
  const ports = await read()
  const newTargets = [...new Set(targets)].filter((target) => !ports.some((one) => one.target === target))
  for (const target of newTargets) await assignPort(db, { rental_id: rentalId }, target, range)
  return new Map((await read()).map(({ target, port }) => [target, port]))
}
