/** One fault in an input, with the path of the field at fault. */
export interface Issue {
  readonly code: string
  readonly path: ReadonlyArray<string | number>
  readonly message: string
}
