/**
 * Prepares text of people for print: without control characters, and in the order in which it is seen. Hebrew and Arabic run
 * from right to left, digits and Latin words in between from left to right; the fonts shape the letters of one run only.
 */

/** A piece of one direction, to be drawn from left to right as it is. */
export interface TextRun {
  readonly text: string
  readonly isRightToLeft: boolean
}

/** Controls, marks and overrides of direction, and characters that are none. They could hide or turn around what is printed. */
const unprintable = /[\p{Cc}\p{Cs}\p{Co}\p{Cn}\u00AD\u061C\u200B-\u200F\u2028-\u202E\u2060-\u206F\uFEFF\uFFF9-\uFFFB]/gu
const rightToLeft = /[\p{Script=Hebrew}\p{Script=Arabic}]/u
const leftToRight = /[\p{L}\p{N}]/u

export function printable(text: string): string {
  return text.normalize('NFC').replace(/\s+/g, ' ').replace(unprintable, '').trim()
}

type Direction = 'left' | 'right'

function directionOf(character: string): Direction | undefined {
  if (/\p{N}/u.test(character)) return 'left'
  if (rightToLeft.test(character)) return 'right'
  return leftToRight.test(character) ? 'left' : undefined
}

/** One line in the order in which it is seen. Its first letter decides where it begins. */
export function visualRuns(line: string): TextRun[] {
  if (!rightToLeft.test(line)) return line === '' ? [] : [{ text: line, isRightToLeft: false }]
  const characters = Array.from(line)
  const base = characters.map(directionOf).find((direction) => direction !== undefined) ?? 'left'
  const runs: Array<{ text: string; direction: Direction }> = []
  characters.forEach((character, n) => {
    const direction = directionOf(character) ?? neutralDirection(characters, n, base)
    const last = runs.at(-1)
    if (last?.direction === direction) last.text += character
    else runs.push({ text: character, direction })
  })
  const ordered = base === 'right' ? runs.toReversed() : runs
  return ordered.flatMap(({ text, direction }) =>
    direction === 'left' ? [{ text, isRightToLeft: false }] : turnedAround(text),
  )
}

/** Spaces and punctuation belong to their neighbors if these agree. */
function neutralDirection(characters: readonly string[], at: number, base: Direction): Direction {
  const before = nearest(characters.slice(0, at).toReversed())
  const after = nearest(characters.slice(at + 1))
  return (before ?? base) === (after ?? base) ? (before ?? base) : base
}

function nearest(characters: readonly string[]): Direction | undefined {
  for (const character of characters) {
    const direction = directionOf(character)
    if (direction !== undefined) return direction
  }
  return undefined
}

const mirrored: Readonly<Record<string, string>> = {
  '(': ')',
  ')': '(',
  '[': ']',
  ']': '[',
  '{': '}',
  '}': '{',
  '<': '>',
  '>': '<',
  '«': '»',
  '»': '«',
}

/** Words from right to left; the font turns around the letters of each. */
function turnedAround(text: string): TextRun[] {
  const parts = text.match(/[\p{L}\p{M}]+|[^\p{L}\p{M}]+/gu) ?? []
  return parts.toReversed().map((part) =>
    rightToLeft.test(part)
      ? { text: part, isRightToLeft: true }
      : {
          text: Array.from(part)
            .toReversed()
            .map((one) => mirrored[one] ?? one)
            .join(''),
          isRightToLeft: false,
        },
  )
}
