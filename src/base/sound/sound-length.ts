/** The length of a recording, or why it is unknown. */

export interface SoundLength {
  /** The number of samples per channel. */
  readonly samples: number
  readonly sampleRate: number
}

export type SoundFault =
  /** `name`: the name of the format. undefined: the format is unknown. */
  { readonly fault: 'format'; readonly name: string | undefined } | { readonly fault: 'damaged' }
