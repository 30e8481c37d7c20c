/** Files of accounts, stored in pieces. Pieces are sealed by the caller. */
import { sql, type Selectable } from 'kysely'
import { addMs, toDate, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { FilePurpose } from '../../contract/file-purpose.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type StoredFile = Selectable<Tables['file']>

export interface NewFile {
  readonly id: string
  readonly accountId: string
  readonly name: string
  readonly purpose: FilePurpose
  readonly keySealed: string
  readonly isStored: boolean
  readonly expiresAt: Instant
}

/** Concurrent changes of an account's file storage take turns here, so that together they cannot exceed a limit. */
export async function lockFileRoom(tx: Tx, accountId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtext('berth file room'), hashtext(${accountId}))`.execute(tx.db)
}

export interface FileUse {
  readonly files: number
  /** Files that are still being uploaded. */
  readonly uploads: number
  readonly bytes: bigint
}

export async function readFileUse(db: Db, accountId: string): Promise<FileUse> {
  const { rows } = await sql<{ files: string; uploads: string; bytes: string }>`
    select count(*)::text as files, count(*) filter (where state = 'writing')::text as uploads,
      coalesce(sum(size_bytes), 0)::text as bytes
    from file where account_id = ${accountId} and state <> 'deleted'`.execute(db)
  const [use] = rows
  return { files: Number(use?.files ?? 0), uploads: Number(use?.uploads ?? 0), bytes: BigInt(use?.bytes ?? 0) }
}

export async function insertFile(tx: Tx, file: NewFile): Promise<StoredFile> {
  const now = toDate(tx.clock.now())
  return tx.db
    .insertInto('file')
    .values({
      id: file.id,
      account_id: file.accountId,
      name: file.name,
      purpose: file.purpose,
      key_sealed: file.keySealed,
      is_stored: file.isStored,
      created_at: now,
      written_at: now,
      expires_at: toDate(file.expiresAt),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** False: the upload has ended. `sealed` is null for a piece that is kept in the object store. */
export async function addPiece(
  tx: Tx,
  fileId: string,
  piece: { readonly number: number; readonly bytes: number; readonly sealed: Buffer | null },
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update file set pieces = ${piece.number + 1}, size_bytes = size_bytes + ${piece.bytes},
      written_at = ${at(tx.clock.now())}
    where id = ${fileId} and state = 'writing' and pieces = ${piece.number}`.execute(tx.db)
  if (numAffectedRows !== 1n) return false
  if (piece.sealed !== null) {
    await tx.db
      .insertInto('file_piece')
      .values({ file_id: fileId, number: piece.number, sealed: piece.sealed })
      .execute()
  }
  return true
}

/** Returns undefined if the upload has ended. */
export async function finishFile(tx: Tx, fileId: string, expiresAt: Instant): Promise<StoredFile | undefined> {
  return tx.db
    .updateTable('file')
    .set({ state: 'ready', expires_at: toDate(expiresAt) })
    .where('id', '=', fileId)
    .where('state', '=', 'writing')
    .returningAll()
    .executeTakeFirst()
}

export async function findFile(db: Db, accountId: string, id: string): Promise<StoredFile | undefined> {
  return db
    .selectFrom('file')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .where('state', '=', 'ready')
    .executeTakeFirst()
}

/** A piece of a file that is being written or deleted is not found. */
export async function readPiece(db: Db, fileId: string, number: number): Promise<Buffer | undefined> {
  const piece = await db
    .selectFrom('file_piece')
    .select('sealed')
    .where('file_id', '=', fileId)
    .where('number', '=', number)
    .executeTakeFirst()
  return piece?.sealed
}

export interface FileQuery {
  readonly purpose?: FilePurpose | undefined
  readonly order: 'asc' | 'desc'
  /** The last file of the previous page. */
  readonly after?: Pick<StoredFile, 'created_at' | 'id'> | undefined
  readonly limit: number
}

export async function listFiles(db: Db, accountId: string, query: FileQuery): Promise<StoredFile[]> {
  const { after, order, purpose } = query
  let files = db.selectFrom('file').selectAll().where('account_id', '=', accountId).where('state', '=', 'ready')
  if (purpose !== undefined) files = files.where('purpose', '=', purpose)
  if (after !== undefined) {
    const isBeyond = sql<boolean>`(created_at, id) ${sql.raw(order === 'asc' ? '>' : '<')} (${at(after.created_at)}, ${after.id})`
    files = files.where(isBeyond)
  }
  return files.orderBy('created_at', order).orderBy('id', order).limit(query.limit).execute()
}

/** Hides the file from readers; `eraseFile` deletes its bytes later. False: it was deleted before. */
export async function markDeleted(db: Db, id: string): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('file')
    .set({ state: 'deleted' })
    .where('id', '=', id)
    .where('state', '<>', 'deleted')
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Deletes the row and the pieces. Objects in the object store must be deleted first. */
export async function eraseFile(db: Db, id: string): Promise<void> {
  await db.deleteFrom('file').where('id', '=', id).where('state', '=', 'deleted').execute()
}

/**
 * Marks expired files and abandoned uploads as deleted, and returns all marked files. The input file of a batch stays.
 */
export async function listUnneededFiles(db: Db, now: Instant, limit: number): Promise<StoredFile[]> {
  const { rows } = await sql<StoredFile>`
    update file set state = 'deleted' where id in (
      select f.id from file f
      where (f.state = 'deleted' or f.state = 'writing' and f.written_at < ${at(addMs(now, -limits.uploadPieceMs))}
        or f.state = 'ready' and f.expires_at <= ${at(now)} and not exists (
          select from batch b where b.input_file_id = f.id
            and b.status in ('validating', 'in_progress', 'finalizing', 'cancelling')))
      order by f.expires_at limit ${limit} for update skip locked)
    returning *`.execute(db)
  return rows
}
