/** The result of fetching one source of a model file: the whole file, or a piece of it. */
import type { Room } from '../download/disk-budget.ts'

export interface PieceRequest {
  readonly source: string
  /** null: not known beforehand. */
  readonly bytes: number | null
  /** Whether the digest of the final file is known. */
  readonly isChecked: boolean
  /** The path at which the complete download appears. */
  readonly target: string
  readonly room: Room
  readonly signal: AbortSignal
  readonly onBytes: (doneBytes: number, totalBytes: number | null) => void
}

export interface Piece {
  /** The path of a file with exactly this content that we may move. null: it must be read. */
  readonly ownPath: string | null
  /** The download was resumed, so a wrong digest may not be the source's fault. */
  readonly isContinued: boolean
  /** Throws a PieceError if the content is unusable. */
  read(): AsyncIterable<Uint8Array>
  /** Frees its disk space. */
  discard(): Promise<void>
}

export class PieceError extends Error {}
