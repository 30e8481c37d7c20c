/** The row that identifies this installation. Several servers may start at once on an empty database. */
import { toDate, type Instant } from '../../base/instant.ts'
import type { Db } from './database.ts'

export interface Installation {
  readonly id: string
  /** A known text sealed with the secret key. null: not written yet. */
  readonly keyCheck: string | null
  readonly createdAt: Instant
}

/** Returns the row that won the race, never one that was not written. */
export async function readOrCreateInstallation(db: Db, make: () => Installation): Promise<Installation> {
  const existingRow = await readInstallation(db)
  if (existingRow !== undefined) return existingRow
  const candidate = make()
  await db
    .insertInto('installation')
    .values({ id: candidate.id, key_check: candidate.keyCheck, created_at: toDate(candidate.createdAt) })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  const row = await readInstallation(db)
  if (row === undefined) throw new Error('the installation row was not written')
  return row
}

async function readInstallation(db: Db): Promise<Installation | undefined> {
  const row = await db.selectFrom('installation').selectAll().executeTakeFirst()
  return row === undefined ? undefined : { id: row.id, keyCheck: row.key_check, createdAt: row.created_at }
}

export async function readKeyCheck(db: Db): Promise<string | null> {
  return (await readInstallation(db))?.keyCheck ?? null
}

export async function writeKeyCheck(db: Db, keyCheck: string): Promise<void> {
  await db.updateTable('installation').set({ key_check: keyCheck }).execute()
}
