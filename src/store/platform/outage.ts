/** Tells a database that cannot be reached from a bug. */
import { sql } from 'kysely'
import type { Db } from './database.ts'
import { DatabaseSilent } from './silence-watch.ts'

const outages = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'ETIMEDOUT',
  'EPIPE',
  '57P01',
  '57P02',
  '57P03',
  '08006',
  '53300',
])

/** Throws if the database does not answer. */
export async function probeDatabase(db: Db): Promise<void> {
  await sql`select 1`.execute(db)
}

export function isOutage(error: unknown): boolean {
  if (error instanceof DatabaseSilent) return true
  const { code = '', message = '' } = (error ?? {}) as { readonly code?: string; readonly message?: string }
  return outages.has(code) || /timeout exceeded when trying to connect|Connection terminated/.test(message)
}
