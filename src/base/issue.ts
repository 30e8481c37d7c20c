/** One fault in an input, with the path of the field. */
export interface Issue {
  readonly code: string
  readonly path: ReadonlyArray<string | number>
  readonly message: string
}
