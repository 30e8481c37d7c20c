/** The part of a long prompt that the model reads, in whole words, for messages. */

/** `count` returns the number of pieces of a text; above `maxPieces` it need not be exact. */
export function findReadPart(text: string, maxPieces: number, count: (text: string) => number): string {
  let pieces = 0
  let end = 0
  for (const word of text.matchAll(/\S+/gu)) {
    pieces += count(word[0])
    if (pieces > maxPieces) break
    end = word.index + word[0].length
  }
  return text.slice(0, end)
}
