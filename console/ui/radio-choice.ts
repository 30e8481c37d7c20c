/** A choice of a `RadioField`, in a separate file so that tests can build choices without a browser. */
export interface RadioChoice {
  readonly value: string
  readonly label: string
  /** Price, availability, or why it is disabled. */
  readonly detail?: string | undefined
  readonly disabled?: boolean
}
