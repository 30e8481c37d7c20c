/** Phrases that must not come back in code, texts or docs. */

export const bannedPhrases: readonly string[] = [
  'a word that lets a machine join',
  'words that are out',
  'servers, and how they do',
  'how it stands, what it has chosen',
  'what models answer, of everyone',
  'a GPU and hour',
  'let nobody else join',
  'Say what is to be seen',
  'What is not to be seen',
  'Machines that would do',
  'Machines that would not do',
  'Rentals that hang',
  'Checks of the books',
  'Runs already',
  'Ends by itself then',
  'Ends when it has cost this much',
  'It lets in the SSH keys',
  'Go on when the term ends',
  'Spends a month at most',
  'Spends in all at most',
  'That of the server',
  'No rental is like that',
  'Money came in',
  'Rental hangs',
  'Look after',
  'Three steps through the whole',
  'the first download is believed',
  'Stands in the books',
  'and ends when they are removed',
  'This is no time',
  'This is no amount',
  'which is as many as may',
  'was like that already',
  'expire-oddments',
  'the front door',
  'the careful way',
  'askedInVain',
  'What speaks against an order',
  'What a try in vain',
  'requests a minute',
  'tokens a minute',
]

const limitNames = /\b(MOST_[A-Z]|[A-Z_]+_AT_MOST)\w*/g

/** Limits are called `MAX_…`. */
export function findPhrase(text: string): string[] {
  const flat = text.replaceAll(/\s+(?:\* |\/\/ )?/g, ' ')
  return [
    ...bannedPhrases.filter((phrase) => flat.includes(phrase)),
    ...[...text.matchAll(limitNames)].map(([name]) => name),
  ]
}

/** Comments that begin like half a sentence, so that a reader must look for its other half in the code around. */
const halfSentence = /(?:\/\*\*?\s+(?:\* )?|(?<!\/\/[^\n]*\n\s*)(?<=^|\s)\/\/ )(?:Of|By|What|Where|As|Whose) [^\n]*/g

export function findHalfSentence(text: string): string[] {
  return [...text.matchAll(halfSentence)].map(([comment]) => comment)
}
