/** How long a recording is, or why nobody can tell. */

export interface SoundLength {
  /** Per channel. */
  readonly samples: number
  readonly sampleRate: number
}

export type SoundFault =
  /** `name`: the format in words. undefined: unknown. */
  { readonly fault: 'format'; readonly name: string | undefined } | { readonly fault: 'damaged' }
