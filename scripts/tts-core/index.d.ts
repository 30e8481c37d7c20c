/** The types that the voice package names. */
export interface Phonemes {
  readonly phones: string[]
  readonly tones: number[]
}

export type G2PFunction = ((text: string, options?: { symbolSet?: Set<string> }) => Phonemes) & {
  prepare?: (options: { assetBase: string }) => Promise<void>
}

export interface LanguagePack {
  readonly language: string
  readonly g2p: G2PFunction
}
