/** Splits a text into pieces that are short enough for the voice, with pauses between them. */
import { failField, ok, type Result } from '../../contract/result.ts'
import { cutLong, splitSentences } from './sentence.ts'
import { findUnspeakable, foldLetters, hasWords, spellOut } from './spoken-english.ts'
import { PIECE_CHARS } from './voice.ts'

export interface Piece {
  readonly text: string
  /** Silence after it, at speed 1. */
  readonly pauseMs: number
}

const SENTENCE_PAUSE_MS = 250
const PARAGRAPH_PAUSE_MS = 600
const CUT_PAUSE_MS = 80
const MAX_NAMED_LETTERS = 10

/** Letters of other scripts are rejected: skipping them would charge for text that was not spoken. */
export function cutPieces(text: string): Result<Piece[]> {
  const strange = new Set<string>()
  const pieces: Piece[] = []
  for (const sentence of splitSentences(text)) {
    const folded = foldLetters(sentence.text)
    for (const letter of findUnspeakable(folded)) strange.add(letter)
    const parts = cutLong(spellOut(folded), PIECE_CHARS).filter(hasWords)
    parts.forEach((part, i) =>
      pieces.push({ text: part, pauseMs: i < parts.length - 1 ? CUT_PAUSE_MS : after(sentence) }),
    )
  }
  if (strange.size > 0) {
    return failField(['text'], 'not_speakable', { letters: [...strange].slice(0, MAX_NAMED_LETTERS) })
  }
  if (pieces.length === 0) return failField(['text'], 'not_speakable', { letters: [] })
  return ok(pieces)
}

function after({ endsParagraph }: { readonly endsParagraph: boolean }): number {
  return endsParagraph ? PARAGRAPH_PAUSE_MS : SENTENCE_PAUSE_MS
}
