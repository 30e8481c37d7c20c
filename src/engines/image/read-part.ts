/** How far into a long prompt the model reads, for people: in whole words. */

/** `count`: how many pieces a text has, exact up to `maxPieces` and more than that beyond or just that. */
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
