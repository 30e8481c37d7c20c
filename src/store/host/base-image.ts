/** Images that virtual machines boot from. One per architecture can be the default. */
import { sql, type Selectable } from 'kysely'
import { toDate } from '../../base/instant.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type BaseImage = Selectable<Tables['base_image']>

export async function listBaseImages(db: Db, limit: number): Promise<BaseImage[]> {
  return db.selectFrom('base_image').selectAll().orderBy('name').limit(limit).execute()
}

export async function countBaseImages(tx: Tx): Promise<number> {
  const { count } = await tx.db
    .selectFrom('base_image')
    .select((e) => e.fn.countAll<bigint>().as('count'))
    .executeTakeFirstOrThrow()
  return Number.parseInt(count.toString(), 10)
}

/** A new default replaces the earlier one. undefined: the name is taken. */
export async function insertBaseImage(tx: Tx, image: Omit<BaseImage, 'created_at'>): Promise<BaseImage | undefined> {
  if (image.is_default) {
    // Two inserts of a default image take turns.
    await sql`lock table base_image in share row exclusive mode`.execute(tx.db)
    await tx.db
      .updateTable('base_image')
      .set({ is_default: false })
      .where('arch', '=', image.arch)
      .where('is_default', '=', true)
      .execute()
  }
  return tx.db
    .insertInto('base_image')
    .values({ ...image, created_at: toDate(tx.clock.now()) })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .returningAll()
    .executeTakeFirst()
}

/** False: there is no such image. */
export async function deleteBaseImage(tx: Tx, name: string): Promise<boolean> {
  const row = await tx.db.deleteFrom('base_image').where('name', '=', name).returning('name').executeTakeFirst()
  return row !== undefined
}
