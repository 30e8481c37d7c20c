/** The result of fetching one source of a model file: the whole file, or a piece of it. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { Room } from './disk-budget.ts'

const READ_BYTES = 1_048_576

export interface PieceRequest {
  readonly source: string
  /** null: not known before. */
  readonly bytes: number | null
  /** Whether the digest of the final file is known. */
  readonly isChecked: boolean
  /** The file of an unfinished download. */
  readonly partPath: string
  readonly room: Room
  readonly signal: AbortSignal
  readonly onBytes: (doneBytes: number, totalBytes: number | null) => void
}

export interface Piece {
  /** A file with exactly this content that we may move. null: it must be read. */
  readonly ownPath: string | null
  /** Whether it was resumed, so that a wrong digest may not be the source's fault. */
  readonly isContinued: boolean
  /** Throws a PieceError if the content is unusable. */
  read(): AsyncIterable<Uint8Array>
  /** Frees its disk space. */
  discard(): Promise<void>
}

export class PieceError extends Error {}

export function readChunks(path: string, signal?: AbortSignal): AsyncIterable<Buffer> {
  return createReadStream(path, { highWaterMark: READ_BYTES, ...(signal === undefined ? {} : { signal }) })
}

export async function hashFile(path: string, algorithm: string, signal: AbortSignal): Promise<Buffer> {
  const hash = createHash(algorithm)
  for await (const chunk of readChunks(path, signal)) hash.update(chunk)
  return hash.digest()
}
