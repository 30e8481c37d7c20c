/** COPY … FROM STDIN inside a Kysely transaction: the cheapest way to write many rows. */
import { CompiledQuery } from 'kysely'
import type { Db } from './database.ts'

/** null: SQL null. */
export type CopyValue = string | number | bigint | boolean | null

/** Writes all rows or none. An error of the database has its code, as of any statement. */
export async function copyRows(
  db: Db,
  table: string,
  columns: readonly string[],
  rows: readonly string[],
): Promise<void> {
  if (rows.length === 0) return
  await db.executeQuery(CompiledQuery.raw(`copy ${table} (${columns.join(', ')}) from stdin`, [rows]))
}

/** A row in the text format. */
export function copyRow(values: readonly CopyValue[]): string {
  let row = ''
  for (const value of values) {
    if (row !== '') row += '\t'
    if (value === null) row += String.raw`\N`
    else row += typeof value === 'string' ? escaped(value) : value.toString()
  }
  return `${row}\n`
}

const special = /[\\\t\n\r]/
const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

function escaped(text: string): string {
  return special.test(text) ? text.replaceAll(/[\\\t\n\r]/g, (char) => escapes[char] ?? char) : text
}
