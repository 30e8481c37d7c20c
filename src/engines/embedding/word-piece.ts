/**
 * The tokenizer of BERT models: lowercases text, removes accents, splits at spaces and around punctuation and Chinese
 * characters, and splits each word into the longest pieces in the vocabulary. Special token names (`[SEP]`) in a text
 * are plain text.
 */
import { z } from 'zod'

const fileForm = z.object({
  normalizer: z.object({ type: z.literal('BertNormalizer'), lowercase: z.literal(true) }),
  model: z.object({
    type: z.literal('WordPiece'),
    unk_token: z.string(),
    continuing_subword_prefix: z.string(),
    max_input_chars_per_word: z.int().min(1),
    vocab: z.record(z.string(), z.int()),
  }),
})

export interface Tokens {
  /** Including the start and end tokens. */
  readonly ids: readonly number[]
  /** Whether the text was longer than the limit. */
  readonly isCut: boolean
}

const CJK = /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/u
/** Includes all ASCII symbols, such as `$` and `+`. */
const punctuation = /[!-/:-@[-`{-~\p{P}]/u
const word = new RegExp(`${CJK.source}|${punctuation.source}|(?:(?!${CJK.source}|${punctuation.source})\\S)+`, 'gu')
/** Runs without spaces. Three characters that are spaces in Unicode but ignored by BERT do not split a word. */
const chunks = /[\S\v\f\ufeff]+/gu
/** Ignored characters. Tabs and line breaks count as spaces. */
const noText = /[\0\ufffd]|(?![\t\n\r])[\p{Cc}\p{Cf}\p{Cn}\p{Co}]/gu

export class WordPiece {
  readonly #vocabulary: ReadonlyMap<string, number>
  readonly #prefix: string
  readonly #maxWordChars: number
  readonly #unknown: number
  readonly #beginning: number
  readonly #end: number

  /** Takes the content of a `tokenizer.json`. */
  constructor(file: string) {
    const { model } = fileForm.parse(JSON.parse(file))
    this.#vocabulary = new Map(Object.entries(model.vocab))
    this.#prefix = model.continuing_subword_prefix
    this.#maxWordChars = model.max_input_chars_per_word
    this.#unknown = this.#special(model.unk_token)
    this.#beginning = this.#special('[CLS]')
    this.#end = this.#special('[SEP]')
  }

  get size(): number {
    return this.#vocabulary.size
  }

  /** Adds the start and end tokens to tokens sent by a client. */
  wrap(ids: readonly number[]): number[] {
    return [this.#beginning, ...ids, this.#end]
  }

  /** Returns at most `maxTokens` tokens; the rest of the text is not processed. */
  encode(text: string, maxTokens: number): Tokens {
    const ids = [this.#beginning]
    for (const [chunk] of text.matchAll(chunks)) {
      for (const [part] of normalize(chunk).matchAll(word)) {
        ids.push(...this.#split(part))
        if (ids.length >= maxTokens) return { ids: [...ids.slice(0, maxTokens - 1), this.#end], isCut: true }
      }
    }
    return { ids: [...ids, this.#end], isCut: false }
  }

  /** Longest piece first. If any part of a word is not in the vocabulary, the whole word is unknown. */
  #split(word: string): number[] {
    const characters = Array.from(word)
    if (characters.length > this.#maxWordChars) return [this.#unknown]
    const ids: number[] = []
    for (let start = 0; start < characters.length;) {
      let end = characters.length
      let id: number | undefined
      for (; end > start; end--) {
        id = this.#vocabulary.get((start > 0 ? this.#prefix : '') + characters.slice(start, end).join(''))
        if (id !== undefined) break
      }
      if (id === undefined) return [this.#unknown]
      ids.push(id)
      start = end
    }
    return ids
  }

  #special(token: string): number {
    const id = this.#vocabulary.get(token)
    if (id === undefined) throw new Error(`the vocabulary has no ${token}`)
    return id
  }
}

function normalize(chunk: string): string {
  return chunk
    .replaceAll(noText, '')
    .normalize('NFD')
    .replaceAll(/\p{Mn}+/gu, '')
    .replaceAll(/\P{ASCII}/gu, (letter) => letter.toLowerCase()) // Letters are lowered one by one, so that a final sigma is treated like any other.
    .toLowerCase()
}
