/** What one source of a model's file yields: the file itself, or a piece of it. The same for all kinds of sources. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { Room } from './disk-budget.ts'

const READ_BYTES = 1_048_576

export interface PieceRequest {
  readonly source: string
  /** null: not known before. */
  readonly bytes: number | null
  /** Whether the digest of the file that it becomes part of is known. */
  readonly isChecked: boolean
  /** Where a download may lie until it is whole. */
  readonly partPath: string
  readonly room: Room
  readonly signal: AbortSignal
  readonly onBytes: (doneBytes: number, totalBytes: number | null) => void
}

export interface Piece {
  /** The file in which it lies as it is, and which is ours to move. null: it has to be read. */
  readonly ownPath: string | null
  /** Whether some of it came at an earlier time, so that a wrong digest may be no fault of the source. */
  readonly isContinued: boolean
  /** Throws a PieceError where the content turns out to be unusable. */
  read(): AsyncIterable<Uint8Array>
  /** Frees what it takes on the disk. */
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
