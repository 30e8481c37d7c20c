/** Bodies of requests, the same for every side. */

/** Set in each request, so that no side has to estimate the maximum cost of an answer. */
const MAX_TOKENS = 256

const instructions = 'You are a helpful assistant. Answer in two sentences.'
const question = {
  role: 'user',
  content: 'Which river runs through the city, and what is the name of the bridge by the market?',
} as const
const sampling = { temperature: 0.7 } as const

export function shortChat(model: string, stream = false): string {
  return JSON.stringify({
    model,
    messages: [{ role: 'system', content: instructions }, question],
    max_tokens: MAX_TOKENS,
    ...sampling,
    ...(stream ? { stream: true } : {}),
  })
}

/** The same chat as a stream of the Messages API. */
export function shortMessage(model: string): string {
  return JSON.stringify({
    model,
    system: instructions,
    messages: [question],
    max_tokens: MAX_TOKENS,
    ...sampling,
    stream: true,
  })
}

/** The same chat as a stream of the Responses API. */
export function shortResponse(model: string, store: boolean): string {
  return JSON.stringify({
    model,
    instructions,
    input: [question],
    max_output_tokens: MAX_TOKENS,
    ...sampling,
    stream: true,
    store,
  })
}

const sentences = [
  'The ferry left the harbour at dawn, and the gulls followed it as far as the second buoy.',
  'She said "wait for the tide", but nobody on the quay had brought a watch.',
  'In the ledger each line had a date, a name and a sum; none of them had been crossed out.\n',
  'The archive keeps three copies: one on paper, one on film and one at C:\\archive\\copies.',
  'Über den Dächern lag Nebel, and the clock of the town hall struck seven.',
  '\tif (tide > 3) {\n\t\tmoor("north");\n\t}\n',
  'What the engineers wrote down that winter was read again only thirty years later.',
] as const

/** Mostly prose, with quotes, line ends, code and non-ASCII letters. Exactly `bytes` bytes long. */
export function longChat(model: string, bytes: number): string {
  const bodyOf = (contents: readonly string[], tail: string): string =>
    JSON.stringify({
      model,
      messages: [
        { role: 'system', content: 'Read the document and answer the question at its end.' },
        ...contents.map((content) => ({ role: 'user', content })),
        { role: 'user', content: `Which of the copies is the oldest?${tail}` },
      ],
      max_tokens: MAX_TOKENS,
    })
  const paragraph = sentences.join(' ')
  const contents: string[] = []
  const size = (): number => Buffer.byteLength(bodyOf(contents, ''))
  for (const content of [paragraph.repeat(100), paragraph, 'So it was.']) {
    const step = Buffer.byteLength(bodyOf([content], '')) - Buffer.byteLength(bodyOf([], ''))
    for (let times = Math.floor((bytes - size()) / step); times > 0; times -= 1) contents.push(content)
  }
  return bodyOf(contents, '.'.repeat(bytes - size()))
}
