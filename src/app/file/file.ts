/**
 * Files of an account. A file is written and read piece by piece, so its size costs no memory. Each piece is sealed
 * under the key of its file, whether it becomes a row of the database or an object in the operator's store. Readers see
 * a file once its last piece is written; a write that fails removes its pieces, and the loop `files` removes those of a
 * write that was killed.
 */
import { callBucket } from '../../base/net/object-store.ts'
import { randomId } from '../../base/id.ts'
import { addMs, DAY_MS, type Instant } from '../../base/instant.ts'
import { limits, type Quota } from '../../base/limits.ts'
import { newContentKey, openPiece, sealPiece } from '../../base/sealed-bytes.ts'
import type { FilePurpose } from '../../contract/file-purpose.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { quotaExceeded, quotaOf } from '../../domain/quota.ts'
import { findAccount } from '../../store/account/account.ts'
import {
  addPiece,
  eraseFile,
  insertFile,
  lockFileRoom,
  markDeleted,
  readFileUse,
  readPiece,
  type StoredFile,
} from '../../store/file/file.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { App } from '../app.ts'

export type FileApp = Pick<App, 'database' | 'clock' | 'vault' | 'bucket' | 'warn'>

export interface FileInput {
  readonly accountId: string
  readonly name: string
  readonly purpose: FilePurpose
  /** Absent: the default lifetime. */
  readonly expiresAt?: Instant
  /**
   * The account's quota limits the file. Results that a customer has paid for are written without the limit, and count
   * afterwards.
   */
  readonly isLimited: boolean
}

const BYTES_PER_GB = 1_000_000_000n

/**
 * Writes a file whose name, purpose and expiry may still change. The caller makes it visible with `finishFile`, in a
 * separate transaction, or removes it with `discardFile`. If `source` fails, nothing is left.
 */
export async function writeFile(
  app: FileApp,
  input: FileInput,
  source: AsyncIterable<Uint8Array>,
): Promise<Result<StoredFile>> {
  const key = newContentKey()
  const insertion = await transact(app.database, (tx) => beginFile(app, tx, input, app.vault.seal(key)))
  if (!insertion.ok) return insertion
  const file = insertion.value
  let pieces = 0
  let refusal: Failure | undefined
  try {
    for await (const bytes of inPieces(source)) {
      refusal = await writePiece(app, file, { key, number: pieces, bytes, isLimited: input.isLimited })
      if (refusal !== undefined) break
      pieces += 1
    }
  } catch (error) {
    await discardFile(app, { ...file, pieces: pieces + 1 })
    throw error
  }
  if (refusal === undefined) return ok({ ...file, pieces })
  await discardFile(app, { ...file, pieces: pieces + 1 })
  return refusal
}

async function beginFile(app: FileApp, tx: Tx, input: FileInput, keySealed: string): Promise<Result<StoredFile>> {
  const { accountId, name, purpose, isLimited } = input
  if (isLimited) {
    await lockFileRoom(tx, accountId)
    const use = await readFileUse(tx.db, accountId)
    if (use.files >= limits.filesPerAccount) {
      return fail('quota_exceeded', { quota: `${limits.filesPerAccount} files` })
    }
    if (use.uploads >= limits.uploadsPerAccount) return fail('too_many_uploads', { max: limits.uploadsPerAccount })
  }
  return ok(
    await insertFile(tx, {
      id: randomId('file'),
      accountId,
      name,
      purpose,
      keySealed,
      isStored: app.bucket !== undefined,
      expiresAt: input.expiresAt ?? addMs(tx.clock.now(), limits.fileDays * DAY_MS),
    }),
  )
}

interface Piece {
  readonly key: string
  readonly number: number
  readonly bytes: Buffer
  readonly isLimited: boolean
}

async function writePiece(app: FileApp, file: StoredFile, piece: Piece): Promise<Failure | undefined> {
  const { number, bytes } = piece
  const sealed = sealPiece(piece.key, number, bytes)
  const isObject = file.is_stored
  const addition = await transact(app.database, async (tx): Promise<Result<void>> => {
    if (piece.isLimited) {
      const refused = await refuseSize(tx, file.account_id, bytes.length)
      if (refused !== undefined) return refused
    }
    const isAdded = await addPiece(tx, file.id, { number, bytes: bytes.length, sealed: isObject ? null : sealed })
    return isAdded ? ok(undefined) : fail('stored_file_not_found')
  })
  if (!addition.ok) return addition
  if (isObject) await callStore(app, 'PUT', file.id, number, sealed)
  return undefined
}

async function refuseSize(tx: Tx, accountId: string, bytes: number): Promise<Failure | undefined> {
  await lockFileRoom(tx, accountId)
  const account = await findAccount(tx.db, accountId)
  const quota: Quota = quotaOf(account?.quota ?? {})
  const use = await readFileUse(tx.db, accountId)
  return use.bytes + BigInt(bytes) > BigInt(quota.fileGb) * BYTES_PER_GB ? quotaExceeded('fileGb', quota) : undefined
}

/** All pieces but the last have the same size. */
async function* inPieces(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let gathered: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of source) {
    let from = 0
    while (from < chunk.length) {
      const part = chunk.subarray(from, from + limits.filePieceBytes - bytes)
      gathered.push(part)
      bytes += part.length
      from += part.length
      if (bytes < limits.filePieceBytes) continue
      yield Buffer.concat(gathered)
      gathered = []
      bytes = 0
    }
  }
  if (bytes > 0) yield Buffer.concat(gathered)
}

/** Throws if a piece is missing, which happens when a file is deleted while it is read. */
export async function* readFile(app: FileApp, file: StoredFile): AsyncGenerator<Buffer> {
  for (let number = 0; number < file.pieces; number += 1) yield await readFilePiece(app, file, number)
}

/** All pieces but the last have `limits.filePieceBytes`. Throws if it is missing. */
export async function readFilePiece(app: FileApp, file: StoredFile, number: number): Promise<Buffer> {
  const sealed = file.is_stored
    ? await callStore(app, 'GET', file.id, number)
    : await readPiece(app.database.db, file.id, number)
  if (sealed === undefined) throw new Error(`piece ${number} of ${file.id} is missing`)
  return openPiece(app.vault.open(file.key_sealed), number, sealed)
}

/** Deletes a file with its bytes. If the store does not answer, the loop `files` tries again. */
export async function discardFile(app: FileApp, file: StoredFile): Promise<void> {
  await markDeleted(app.database.db, file.id)
  try {
    await eraseBytes(app, file)
  } catch (error) {
    app.warn?.(error, `could not delete the objects of ${file.id}; it will be tried again`)
  }
}

/** Erases the bytes of a file that is marked as deleted. */
export async function eraseBytes(app: FileApp, file: StoredFile): Promise<void> {
  if (file.is_stored) {
    for (let number = 0; number < file.pieces; number += 1) await callStore(app, 'DELETE', file.id, number)
  }
  await eraseFile(app.database.db, file.id)
}

async function callStore(
  { bucket, clock }: FileApp,
  method: 'GET' | 'PUT' | 'DELETE',
  fileId: string,
  number: number,
  body?: Buffer,
): Promise<Buffer> {
  if (bucket === undefined) throw new Error('this file is in an object store, and none is configured')
  const bytes = body === undefined ? {} : { body: new Uint8Array(body) }
  return callBucket(bucket, method, `files/${fileId}/${number}`, { now: clock.now(), ...bytes })
}
