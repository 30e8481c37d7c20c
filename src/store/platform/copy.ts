/** COPY … FROM STDIN inside a Kysely transaction: the cheapest way to write many rows. */
import { CompiledQuery } from 'kysely'
import type { Db } from './database.ts'

/**
 * Writes all rows (base/copy-text.ts), or none. Each piece has whole rows and is sent in a turn of its own of the event
 * loop. An error of the database has its code, as that of any statement.
 */
export async function copyRows(
  db: Db,
  table: string,
  columns: readonly string[],
  pieces: readonly Buffer[],
): Promise<void> {
  if (pieces.length === 0) return
  await db.executeQuery(CompiledQuery.raw(`copy ${table} (${columns.join(', ')}) from stdin`, [pieces]))
}
