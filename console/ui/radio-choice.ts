/** One of a few, as `RadioField` shows it; apart from it, so that what makes choices needs no browser. */
export interface RadioChoice {
  readonly value: string
  readonly label: string
  /** A few words below, in a line or two: what is free, what it costs, why it cannot be had. */
  readonly detail?: string | undefined
  readonly disabled?: boolean
}
