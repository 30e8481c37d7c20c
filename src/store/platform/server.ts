/** The servers that take connections from each other, and the hosts connected to each. */
import { sql } from 'kysely'
import type { Db } from './database.ts'

export interface PeerServer {
  readonly id: string
  readonly address: string
}

/**
 * Says that a server is there. Those that have not said so for some seconds are forgotten. It uses the clock of the database,
 * because those of servers may differ.
 */
export async function announceServer(db: Db, { id, address }: PeerServer, forgetAfterSeconds: number): Promise<void> {
  await sql`
    insert into server (id, address, seen_at) values (${id}, ${address}, now())
    on conflict (id) do update set address = excluded.address, seen_at = excluded.seen_at`.execute(db)
  await sql`delete from server where seen_at < now() - make_interval(secs => ${forgetAfterSeconds})`.execute(db)
}

export async function forgetServer(db: Db, id: string): Promise<void> {
  await db.deleteFrom('server').where('id', '=', id).execute()
}

export interface HostPlace {
  readonly hostId: string
  readonly server: PeerServer
}

/** Lists the hosts whose server takes connections from others, with that server. `hostId`: only this one. */
export async function listHostPlaces(db: Db, hostId?: string): Promise<HostPlace[]> {
  const rows = await db
    .selectFrom('host')
    .innerJoin('server', 'server.id', 'host.server_id')
    .select(['host.id as host_id', 'server.id', 'server.address'])
    .$if(hostId !== undefined, (query) => query.where('host.id', '=', hostId ?? ''))
    .execute()
  return rows.map((row) => ({ hostId: row.host_id, server: { id: row.id, address: row.address } }))
}
