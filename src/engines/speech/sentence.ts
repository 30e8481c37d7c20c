/**
 * Splits a text into sentences, and sentences that are too long for a voice at commas, then spaces, then between two
 * characters. A full stop ends a sentence only before a space, and not after `Dr.` or an initial, so `3.14` and
 * `example.com` stay whole.
 */

export interface Sentence {
  readonly text: string
  /** Whether a blank line followed. */
  readonly endsParagraph: boolean
}

/** Abbreviations with a full stop that never end a sentence. */
const titles = new Set(
  'mr mrs ms dr prof sr st mt gen col capt lt sgt cmdr adm rev hon gov sen rep messrs vs cf approx e.g i.e'.split(' '),
)
/** The same, if a number follows. */
const counted = new Set('no nos fig vol p pp ch sec jan feb mar apr jun jul aug sep sept oct nov dec'.split(' '))
/** Abbreviations that often end a sentence: it continues only if a lowercase letter follows. */
const endings = new Set('etc al jr inc ltd co corp bros dept ave blvd a.m p.m u.s u.k u.n ph.d'.split(' '))

/**
 * Marks that end a sentence, with closing quotes and brackets. Matching starts only at the first mark of a run, so a
 * long row of full stops takes linear time.
 */
const terminator = /(?<![.!?…])(?<marks>[.!?…]+)(?<closing>["'”’»)\]]*)(?=\s|$)|[。！？]+[」』”’）]*/gu
const paragraph = /\n[^\S\n]*\n\s*|\n(?=\s*(?:[-*•‣–]|\d+[.)])\s)/u
const wordBefore = /[\p{L}\p{M}.]+$/u
const nextWord = /^\s*["'“‘«([]*(?<first>[\p{L}\p{N}])/u

export function splitSentences(text: string): Sentence[] {
  return text
    .replaceAll(/\r\n?|\u2028/g, '\n')
    .replaceAll('\u2029', '\n\n')
    .split(paragraph)
    .flatMap((block) => {
      const sentences = splitBlock(block)
      return sentences.map((text, i) => ({ text, endsParagraph: i === sentences.length - 1 }))
    })
}

function splitBlock(block: string): string[] {
  const sentences: string[] = []
  let start = 0
  const push = (end: number): void => {
    const sentence = block.slice(start, end).trim().replaceAll(/\s+/g, ' ')
    if (sentence !== '') sentences.push(sentence)
    start = end
  }
  for (const match of block.matchAll(terminator)) {
    const end = match.index + match[0].length
    if (match.groups?.marks === undefined || isEnd(block, match.index, match.groups.marks, end)) push(end)
  }
  push(block.length)
  return sentences
}

/** Context around a full stop; far longer than any word. */
const NEARBY_CHARS = 40

function isEnd(block: string, at: number, marks: string, end: number): boolean {
  const first = nextWord.exec(block.slice(end, end + NEARBY_CHARS))?.groups?.first
  const continuesLowercase = first !== undefined && first === first.toLowerCase() && first !== first.toUpperCase()
  if (marks !== '.') return !continuesLowercase
  const word = (wordBefore.exec(block.slice(Math.max(0, at - NEARBY_CHARS), at))?.[0] ?? '').toLowerCase()
  const closesQuote = end > at + marks.length
  if (first === undefined || closesQuote) return true
  if (titles.has(word)) return false
  if (counted.has(word)) return !/\p{N}/u.test(first)
  if (endings.has(word)) return !continuesLowercase
  // An initial, as in `J. S. Bach`; but `I` is a word.
  return !/^\p{L}$/u.test(word) || word === 'i'
}

/** Each part has 1 to `maxChars` UTF-16 units. */
export function cutLong(sentence: string, maxChars: number): string[] {
  const parts: string[] = []
  let remaining = sentence.trim()
  while (remaining.length > maxChars) {
    const at = cutPlace(remaining, maxChars)
    const part = remaining.slice(0, at).trim()
    if (part !== '') parts.push(part)
    remaining = remaining.slice(at).trim()
  }
  if (remaining !== '') parts.push(remaining)
  return parts
}

/** Only commas in the later part count, so that no tiny piece is spoken alone. */
const EARLIEST_COMMA = 0.4

function cutPlace(text: string, maxChars: number): number {
  const window = text.slice(0, maxChars)
  const comma = Math.max(...[...window.matchAll(/[,;:)—–、，；：]+(?=\s|[^\p{ASCII}])/gu)].map(endOf), 0)
  if (comma >= maxChars * EARLIEST_COMMA) return comma
  const space = Math.max(...[...text.slice(0, maxChars + 1).matchAll(/\s/g)].map((match) => match.index), 0)
  if (space > 0) return space
  // Not within a surrogate pair, and not before a combining mark.
  let at = maxChars
  while (at > 1 && /^[\uDC00-\uDFFF\p{M}\u200D]/u.test(text.slice(at))) at--
  return at
}

function endOf(match: RegExpExecArray): number {
  return match.index + match[0].length
}
