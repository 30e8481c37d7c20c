/** Incremental encoding of one recording: what is finished is returned at once, and little is buffered. */

export interface AudioWriter {
  /** Mono samples from -1 to 1; values outside are clipped. */
  encode(samples: Float32Array): Uint8Array<ArrayBuffer>
  /** Returns the rest of the file. The writer must not be used afterwards. */
  finish(): Uint8Array<ArrayBuffer>
  /** Frees what an abandoned recording holds. */
  drop(): void
}
