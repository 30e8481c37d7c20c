/** COPY … FROM STDIN inside a Kysely transaction: the cheapest way to write many rows. */
import { CompiledQuery } from 'kysely'
import type { Db } from './database.ts'

/** Writes all rows (base/copy-text.ts) or none. An error of the database has its code, as of any statement. */
export async function copyRows(
  db: Db,
  table: string,
  columns: readonly string[],
  rows: readonly string[],
): Promise<void> {
  if (rows.length === 0) return
  await db.executeQuery(CompiledQuery.raw(`copy ${table} (${columns.join(', ')}) from stdin`, [rows]))
}
