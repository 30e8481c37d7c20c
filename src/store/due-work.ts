/**
 * Asks for all loops at once whether they have work. Most seconds have none, so this is what an idle server costs: one
 * statement, planned once per connection.
 */
import { sql, type RawBuilder } from 'kysely'
import { prepareAs, type Db } from './database.ts'

/** SQL that is true while there is work. */
export type DueWork = RawBuilder<boolean>

/** The names of those that have work. */
export async function readDue(db: Db, loops: ReadonlyMap<string, DueWork>): Promise<string[]> {
  const names = [...loops].map(([name, due]) => sql`case when ${due} then ${sql.lit(name)} end`)
  const { rows } = await sql<{ names: string[] }>`${prepareAs('due_work')}
    select array_remove(array[${sql.join(names)}]::text[], null) as names`.execute(db)
  return rows[0]?.names ?? []
}
