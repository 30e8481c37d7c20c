/** HTTP ports of rentals: where they lead, who may use them, and whether they answer. */
import { sql, type Selectable } from 'kysely'
import { formatInstant, toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { RentalState } from '../../contract/rental-state.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { WorkloadPort } from '../../domain/workload.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type PortToken = Selectable<Tables['port_token']>

/** A wake-up with this prefix makes servers forget the ports of a rental after a change. */
export const PORT_WAKE = 'ports:'

/** An HTTP port, as the proxy needs it. */
export interface PortRoute {
  readonly rentalId: number
  readonly rentalName: string
  readonly accountId: string
  readonly status: RentalState
  readonly driver: ProviderId
  /** null: the provider has not created it yet. */
  readonly workloadId: string | null
  readonly hostId: string | null
  readonly port: WorkloadPort
  readonly tokens: ReadonlyArray<{ readonly hash: Buffer; readonly expiresAt: Instant | null }>
}

/** undefined: there is no such rental, or it has no such HTTP port. */
export async function findPortRoute(db: Db, rentalName: string, port: number): Promise<PortRoute | undefined> {
  const rental = await db
    .selectFrom('rental')
    .select(['id', 'account_id', 'status', 'driver', 'external_id', 'spec'])
    .where('name', '=', rentalName)
    .executeTakeFirst()
  const httpPort = rental?.spec.workload?.ports.find((one) => one.port === port && one.protocol === 'http')
  if (rental === undefined || httpPort === undefined) return undefined
  const tokens = await listPortTokens(db, rental.id, port)
  return {
    rentalId: rental.id,
    rentalName,
    accountId: rental.account_id,
    status: rental.status,
    driver: rental.driver,
    workloadId: rental.external_id,
    hostId: rental.spec.nodes[0]?.machineId ?? null,
    port: httpPort,
    tokens: tokens.map((one) => ({ hash: one.token_hash, expiresAt: one.expires_at })),
  }
}

export interface NewToken {
  readonly id: string
  readonly rentalId: number
  readonly port: number
  readonly name: string
  readonly hash: Buffer
  readonly last4: string
  readonly personId: string
  readonly expiresAt: Instant | null
}

export async function insertPortToken(tx: Tx, token: NewToken): Promise<PortToken> {
  tx.wake.add(`${PORT_WAKE}${token.rentalId}`)
  return tx.db
    .insertInto('port_token')
    .values({
      id: token.id,
      rental_id: token.rentalId,
      port: token.port,
      name: token.name,
      token_hash: token.hash,
      last4: token.last4,
      person_id: token.personId,
      created_at: toDate(tx.clock.now()),
      expires_at: toDateOrNull(token.expiresAt),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** The oldest come first; their number is limited. */
export async function listPortTokens(db: Db, rentalId: number, port: number): Promise<PortToken[]> {
  return db
    .selectFrom('port_token')
    .selectAll()
    .where('rental_id', '=', rentalId)
    .where('port', '=', port)
    .orderBy('created_at')
    .orderBy('id')
    .execute()
}

/** undefined: there is no such token. */
export async function deletePortToken(
  tx: Tx,
  which: { rentalId: number; port: number; id: string },
): Promise<PortToken | undefined> {
  tx.wake.add(`${PORT_WAKE}${which.rentalId}`)
  return tx.db
    .deleteFrom('port_token')
    .where('id', '=', which.id)
    .where('rental_id', '=', which.rentalId)
    .where('port', '=', which.port)
    .returningAll()
    .executeTakeFirst()
}

export interface PortCode {
  readonly hash: Buffer
  readonly rentalId: number
  readonly port: number
}

/** Inserts a code, and deletes those that nobody used in time. */
export async function insertPortCode(tx: Tx, code: PortCode & { keyId: string; expiresAt: Instant }): Promise<void> {
  await tx.db.deleteFrom('port_code').where('expires_at', '<=', at(tx.clock.now())).execute()
  await tx.db
    .insertInto('port_code')
    .values({
      code_hash: code.hash,
      rental_id: code.rentalId,
      port: code.port,
      api_key_id: code.keyId,
      expires_at: toDate(code.expiresAt),
    })
    .execute()
}

/** Returns the id of the key that it was made with, once. undefined: it is unknown, used, expired, or for another port. */
export async function takePortCode(db: Db, code: PortCode, now: Instant): Promise<string | undefined> {
  const row = await db
    .deleteFrom('port_code')
    .where('code_hash', '=', code.hash)
    .where('rental_id', '=', code.rentalId)
    .where('port', '=', code.port)
    .where('expires_at', '>', at(now))
    .returning('api_key_id')
    .executeTakeFirst()
  return row?.api_key_id
}

/** A port whose health is checked. */
export interface CheckedPort {
  readonly rentalId: number
  readonly workloadId: string
  readonly hostId: string
  readonly name: string
  readonly port: number
  readonly path: string
  /** The last result since the rental runs. null: there is none. */
  readonly healthy: boolean | null
  readonly checkedAt: Instant | null
}

/** Lists the ports with a health check of running rentals on these hosts. */
export async function listCheckedPorts(db: Db, hostIds: readonly string[], limit: number): Promise<CheckedPort[]> {
  if (hostIds.length === 0) return []
  const { rows } = await sql<{
    id: number
    external_id: string
    host_id: string
    name: string
    port: number
    path: string
    healthy: boolean | null
    checked_at: Instant | null
  }>`
    select r.id, r.external_id, r.spec->'nodes'->0->>'machineId' as host_id, r.name,
      (p->>'port')::integer as port, p->>'healthPath' as path, h.healthy, h.checked_at
    from rental r
      cross join lateral jsonb_array_elements(r.spec->'workload'->'ports') p
      left join port_health h
        on h.rental_id = r.id and h.port = (p->>'port')::integer and h.checked_at >= r.status_since
    where r.status = 'Running' and r.external_id is not null and p->>'protocol' = 'http'
      and p->>'healthPath' is not null and r.spec->'nodes'->0->>'machineId' = any (${hostIds}::text[])
    order by h.checked_at nulls first, r.id limit ${limit}`.execute(db)
  return rows.map((row) => ({
    rentalId: row.id,
    workloadId: row.external_id,
    hostId: row.host_id,
    name: row.name,
    port: row.port,
    path: row.path,
    healthy: row.healthy,
    checkedAt: row.checked_at,
  }))
}

export async function savePortHealth(
  db: Db,
  health: { rentalId: number; port: number; healthy: boolean; checkedAt: Instant },
): Promise<void> {
  const { rentalId, port, healthy, checkedAt } = health
  await sql`
    insert into port_health (rental_id, port, healthy, checked_at)
    values (${rentalId}, ${port}, ${healthy}, ${formatInstant(checkedAt)}::timestamptz)
    on conflict (rental_id, port) do update set healthy = excluded.healthy, checked_at = excluded.checked_at
    where port_health.checked_at < excluded.checked_at`.execute(db)
}

/** Returns results by port, ignoring those from before the rental entered its state. */
export async function readPortHealth(
  db: Db,
  rental: { readonly id: number; readonly status_since: Instant },
): Promise<Map<number, boolean>> {
  const rows = await db
    .selectFrom('port_health')
    .select(['port', 'healthy'])
    .where('rental_id', '=', rental.id)
    .where('checked_at', '>=', at(rental.status_since))
    .execute()
  return new Map(rows.map((row) => [row.port, row.healthy]))
}
