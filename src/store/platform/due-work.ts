/**
 * Asks for all loops at once whether they have work. Mostly they have none, so this is what an idle server costs: one
 * statement, planned once.
 */
import { sql, type RawBuilder } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import { prepareAs, type Db } from './database.ts'

/** The values that a loop asks with, as SQL. */
export interface DueQuery {
  readonly now: RawBuilder<Instant>
  /** The drivers of this server. */
  readonly drivers: RawBuilder<ProviderId[]>
}

/** SQL that is true while there is work. */
export type DueWork = (query: DueQuery) => RawBuilder<boolean>

/** Returns the names of loops that have work. `db` is the steady connection: a plan for unknown values is as good as any here. */
export async function readDue(
  db: Db,
  query: { at: Instant; drivers: readonly ProviderId[] },
  loops: ReadonlyMap<string, DueWork>,
): Promise<string[]> {
  const values: DueQuery = { now: sql`(select now from asked)`, drivers: sql`(select drivers from asked)::text[]` }
  const names = [...loops].map(([name, hasWork]) => sql`case when ${hasWork(values)} then ${sql.lit(name)} end`)
  const { rows } = await sql<{ names: string[] }>`${prepareAs('due_work')}
    with asked as (select ${toDate(query.at)}::timestamptz as now, ${query.drivers}::text[] as drivers)
    select array_remove(array[${sql.join(names)}]::text[], null) as names`.execute(db)
  return rows[0]?.names ?? []
}
