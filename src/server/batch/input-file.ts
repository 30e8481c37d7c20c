/** Reads the lines of an input file: all of them in order, or one by its place. No line is kept longer than its reader. */
import { readFilePiece, type FileApp } from '../../app/file/file.ts'
import { limits } from '../../base/limits.ts'
import type { LinePlace } from '../../store/batch/batch-line.ts'
import type { StoredFile } from '../../store/file/file.ts'

const NEWLINE = 0x0a
/** A body, and the few fields around it. */
const MAX_LINE_BYTES = limits.inferenceBodyBytes + 4_096

/** A line of the file. `bytes` is undefined if it is too long. */
export interface InputLine {
  readonly place: LinePlace
  readonly bytes: Buffer | undefined
}

/** Lines are counted from 1, empty ones too, which are left out. */
export async function* readLines(pieces: AsyncIterable<Buffer>): AsyncGenerator<InputLine> {
  let parts: Buffer[] = []
  let size = 0
  let offset = 0
  let line = 1
  for await (const piece of pieces) {
    let from = 0
    while (from < piece.length) {
      const at = piece.indexOf(NEWLINE, from)
      const part = piece.subarray(from, at === -1 ? piece.length : at)
      size += part.length
      if (size <= MAX_LINE_BYTES) parts.push(part)
      from += part.length + 1
      if (at === -1) break
      yield* lineOf({ line, offset, bytes: size }, parts)
      offset += size + 1
      line += 1
      parts = []
      size = 0
    }
  }
  yield* lineOf({ line, offset, bytes: size }, parts)
}

function* lineOf(place: LinePlace, parts: readonly Buffer[]): Generator<InputLine> {
  if (place.bytes > MAX_LINE_BYTES) return yield { place, bytes: undefined }
  const bytes = Buffer.concat(parts)
  if (bytes.toString('latin1').trim() !== '') yield { place, bytes }
  return undefined
}

/** Reads lines by their places. Neighbors are in the same piece, so the last piece is remembered. */
export class LineReader {
  readonly #app: FileApp
  readonly #file: StoredFile
  #piece: { readonly number: number; readonly bytes: Promise<Buffer> } | undefined

  constructor(app: FileApp, file: StoredFile) {
    this.#app = app
    this.#file = file
  }

  async read({ offset, bytes }: LinePlace): Promise<Buffer> {
    const parts: Buffer[] = []
    const end = offset + bytes
    for (let at = offset; at < end;) {
      const number = Math.floor(at / limits.filePieceBytes)
      const start = number * limits.filePieceBytes
      const piece = await this.#pieceAt(number)
      const part = piece.subarray(at - start, Math.min(end - start, piece.length))
      if (part.length === 0) throw new Error(`${this.#file.id} is shorter than its lines`)
      parts.push(part)
      at += part.length
    }
    return Buffer.concat(parts)
  }

  #pieceAt(number: number): Promise<Buffer> {
    if (this.#piece?.number !== number) this.#piece = { number, bytes: readFilePiece(this.#app, this.#file, number) }
    return this.#piece.bytes
  }
}
