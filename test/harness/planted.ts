/** Looks for a text that must not be stored. */
import { sql, type Kysely } from 'kysely'
import type { Tables } from '../../src/store/platform/tables.ts'

/** The tables with a row that contains it. */
export async function tablesWith(db: Kysely<Tables>, text: string): Promise<string[]> {
  const tables = await sql<{ name: string }>`
    select quote_ident(table_name) as name from information_schema.tables
    where table_schema = 'public' and table_type = 'BASE TABLE'`.execute(db)
  const found: string[] = []
  for (const { name } of tables.rows) {
    const rows = await sql`select 1 from ${sql.raw(name)} t where t::text like ${`%${text}%`} limit 1`.execute(db)
    if (rows.rows.length > 0) found.push(name)
  }
  return found
}
