/** Rows for COPY as bytes outside of the heap, where the garbage collector does not copy them while they wait. */

const CHUNK_BYTES = 65_536
/** The maximum of UTF-8 bytes that a UTF-16 unit needs. */
const MAX_CHAR_BYTES = 3
const NEW_LINE = 10

export class RowBytes {
  readonly #full: Buffer[] = []
  #chunk: Buffer = Buffer.alloc(0)
  #used = 0

  /** Adds a row, which must not contain a newline. */
  add(row: string): void {
    const maxBytes = MAX_CHAR_BYTES * row.length + 1
    if (this.#chunk.length - this.#used < maxBytes) {
      if (this.#used > 0) this.#full.push(this.#chunk.subarray(0, this.#used))
      this.#chunk = Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, maxBytes))
      this.#used = 0
    }
    this.#used += this.#chunk.write(row, this.#used)
    this.#chunk[this.#used] = NEW_LINE
    this.#used += 1
  }

  /** Returns pieces of whole rows. */
  pieces(): Buffer[] {
    return this.#used === 0 ? [...this.#full] : [...this.#full, this.#chunk.subarray(0, this.#used)]
  }
}

export function rowsOf(pieces: readonly Buffer[]): string[] {
  return pieces.flatMap((piece) => piece.toString().split('\n').slice(0, -1))
}
