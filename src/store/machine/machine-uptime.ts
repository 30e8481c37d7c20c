/** The share of time that machines were online, by day. */
import { sql, type RawBuilder } from 'kysely'
import { addMs, DAY_MS, toDate, type Instant } from '../../base/instant.ts'
import type { Db } from '../platform/database.ts'
import { isPresent } from './machine.ts'

/** The share of these days is shown; older ones are deleted. */
const UPTIME_DAYS = 30

/** Looks at every machine once. A machine that drains or is cleaned is online. */
export async function lookAtMachines(db: Db, now: Instant): Promise<void> {
  await sql`
    insert into machine_uptime (machine_id, day, looks, online)
    select id, (${toDate(now)} at time zone 'UTC')::date, 1, (status <> 'node_lost')::integer::smallint
    from machine where ${isPresent}
    on conflict (machine_id, day) do update
      set looks = machine_uptime.looks + 1, online = machine_uptime.online + excluded.online`.execute(db)
  const oldest = toDate(addMs(now, -UPTIME_DAYS * DAY_MS))
  await sql`delete from machine_uptime where day < (${oldest} at time zone 'UTC')::date`.execute(db)
}

/** The result is in percent with one decimal, rounded down, so that 100 means always. null: nobody has looked at it. */
export function uptimeOf(machineId: RawBuilder<unknown>): RawBuilder<number | null> {
  return sql<number | null>`(select (floor(1000.0 * sum(online) / sum(looks)) / 10)::float8
    from machine_uptime where machine_id = ${machineId})`
}
