/**
 * Converts tokens to bytes and texts to tokens. The library returns a token's text only as a string, which loses partial
 * characters, so the bytes are read from the token names in the file.
 */
import { LlamaVocabularyType, type LlamaModel, type Token } from 'node-llama-cpp'

/** A part of a prompt. In a literal part the names of special tokens are plain text. */
export interface PromptPart {
  readonly text: string
  readonly literal: boolean
}

/** The part of a model's interface used here. */
export type VocabularySource = Pick<
  LlamaModel,
  'vocabularyType' | 'tokens' | 'tokenize' | 'detokenize' | 'getTokenAttributes' | 'isEogToken'
> & {
  readonly fileInfo: {
    readonly metadata: { readonly tokenizer: { readonly ggml: { readonly tokens: readonly string[] } } }
  }
}

export class Vocabulary {
  readonly #model: VocabularySource
  readonly #texts: readonly string[]
  readonly #bytes: Array<Buffer | undefined> = []
  /** Names of special tokens that prompt text can use. */
  readonly specialTexts: readonly string[]
  /** Maximum bytes per token: a longer text cannot fit into that many tokens. */
  readonly longestTokenBytes: number

  constructor(model: VocabularySource) {
    this.#model = model
    const { ggml } = model.fileInfo.metadata.tokenizer
    this.#texts = ggml.tokens
    this.longestTokenBytes = this.#texts.reduce((longest, text) => Math.max(longest, Buffer.byteLength(text)), 1)
    this.specialTexts = this.#texts.filter((text, token) => text !== '' && this.#isWritten(token as Token))
  }

  get size(): number {
    return this.#texts.length
  }

  isEnd(token: Token): boolean {
    return this.#model.isEogToken(token)
  }

  /** The bytes of a token. Control tokens have none unless their names are requested. */
  bytesOf(token: Token, withControl = false): Buffer {
    if (!withControl && this.#model.getTokenAttributes(token).control) return Buffer.alloc(0)
    const cachedBytes = this.#bytes[token]
    if (cachedBytes !== undefined) return cachedBytes
    const bytes = this.#readBytes(token)
    this.#bytes[token] = bytes
    return bytes
  }

  tokenize(parts: readonly PromptPart[]): Token[] {
    const tokens = parts.flatMap(({ text, literal }, at) =>
      this.#model.tokenize(text, !literal, ...(at === 0 ? [] : (['trimLeadingSpace'] as const))),
    )
    const { bos, shouldPrependBosToken } = this.#model.tokens
    // Many templates already contain the token.
    return shouldPrependBosToken && bos !== null && tokens[0] !== bos ? [bos, ...tokens] : tokens
  }

  #isWritten(token: Token): boolean {
    const { control, userDefined, unknown } = this.#model.getTokenAttributes(token)
    return control || userDefined || unknown
  }

  #readBytes(token: Token): Buffer {
    const text = this.#texts[token] ?? ''
    if (this.#isWritten(token)) return Buffer.from(text)
    switch (this.#model.vocabularyType) {
      case LlamaVocabularyType.bpe:
        return Buffer.concat(Array.from(text, (letter) => bytesOfLetter.get(letter) ?? Buffer.from(letter)))
      case LlamaVocabularyType.spm:
      case LlamaVocabularyType.ugm: {
        const isByte = this.#model.getTokenAttributes(token).byte
        return isByte
          ? Buffer.from(text.slice('<0x'.length, -'>'.length), 'hex')
          : Buffer.from(text.replaceAll('▁', ' '))
      }
      // For the other types, use the library.
      case LlamaVocabularyType.wpm:
      case LlamaVocabularyType.rwkv:
      case LlamaVocabularyType.plamo2:
      case LlamaVocabularyType.none:
        return Buffer.from(this.#model.detokenize([token]))
    }
  }
}

/** Byte-level vocabularies write a printable byte as itself and any other as a character from U+0100 on. */
const bytesOfLetter: ReadonlyMap<string, Buffer> = new Map(readByteLetters())

function readByteLetters(): Array<[string, Buffer]> {
  const isSeen = (byte: number): boolean => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173)
  let hidden = 0
  return Array.from({ length: 256 }, (_, byte) => {
    const letter = String.fromCodePoint(isSeen(byte) ? byte : 256 + hidden)
    if (!isSeen(byte)) hidden += 1
    return [letter, Buffer.of(byte)]
  })
}
