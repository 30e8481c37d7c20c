/** Random answers of an engine: the same answer as a stream of chunks, cut anywhere, and in one piece. */
import fc from 'fast-check'

export interface RandomAnswer {
  readonly reasoning: string
  readonly text: string
  readonly refusal: string
  readonly calls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly arguments: string }>
  readonly finishReason: string
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number; readonly reasoning: number }
  /** The bytes of the stream, in the pieces in which they arrive. */
  readonly pieces: readonly Buffer[]
  /** The plain answer. */
  readonly plain: string
}

interface Shape {
  readonly reasoning: readonly string[]
  readonly text: readonly string[]
  readonly refusal: readonly string[]
  readonly calls: ReadonlyArray<{ readonly name: string; readonly parts: readonly string[] }>
  readonly reasoningName: 'reasoning' | 'reasoning_content'
  readonly hasRole: boolean
  readonly hasNoise: boolean
  readonly hasUsage: boolean
  readonly finishReason: string
  /** The parts of parallel calls come by turns. */
  readonly isInterleaved: boolean
  /** Where the stream is cut, as parts of its length. */
  readonly cuts: readonly number[]
}

const texts = fc.array(fc.string({ unit: 'grapheme', maxLength: 12 }), { maxLength: 4 })

const shape: fc.Arbitrary<Shape> = fc.record({
  reasoning: texts,
  text: texts,
  refusal: fc.oneof({ weight: 4, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: texts }),
  calls: fc.array(
    fc.record({
      name: fc.stringMatching(/^[a-z]\w{0,8}$/),
      parts: fc.json().map((json) => json.match(/.{1,5}/gsu) ?? []),
    }),
    { maxLength: 3 },
  ),
  reasoningName: fc.constantFrom('reasoning', 'reasoning_content'),
  hasRole: fc.boolean(),
  hasNoise: fc.boolean(),
  hasUsage: fc.boolean(),
  finishReason: fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter'),
  isInterleaved: fc.boolean(),
  cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 }),
})

export const randomAnswer: fc.Arbitrary<RandomAnswer> = shape.map(writeAnswer)

function writeAnswer(shape: Shape): RandomAnswer {
  const calls = shape.calls.map(({ name, parts }, i) => ({ id: `call_${i}`, name, arguments: parts.join('') }))
  const [reasoning, text, refusal] = [shape.reasoning.join(''), shape.text.join(''), shape.refusal.join('')]
  const deltas = deltasOf(shape)
  const usage = { prompt_tokens: 40, completion_tokens: deltas.length + 1, reasoning: Math.min(2, deltas.length) }
  const reported = {
    prompt_tokens: usage.prompt_tokens,
    completion_tokens: usage.completion_tokens,
    prompt_tokens_details: { cached_tokens: 7 },
    completion_tokens_details: { reasoning_tokens: usage.reasoning },
  }
  const message = {
    role: 'assistant',
    content: text === '' ? null : text,
    ...(refusal === '' ? {} : { refusal }),
    [shape.reasoningName]: reasoning === '' ? null : reasoning,
    tool_calls: calls.map(({ id, ...fn }) => ({ id, type: 'function', function: fn })),
  }
  const choice = { index: 0, message, finish_reason: shape.finishReason }
  const plain = JSON.stringify({ id: 'x', model: 'm', choices: [choice], usage: reported })
  return {
    reasoning,
    text,
    refusal,
    calls,
    finishReason: shape.finishReason,
    usage,
    pieces: cut(Buffer.from(streamOf(shape, deltas, reported)), shape.cuts),
    plain,
  }
}

function deltasOf(shape: Shape): object[] {
  const noise = shape.hasNoise ? { tool_calls: [], refusal: null } : {}
  const parts = shape.calls.map(({ name, parts }, index) => [
    { tool_calls: [{ index, id: `call_${index}`, type: 'function', function: { name, arguments: '' } }] },
    ...parts.map((part) => ({ tool_calls: [{ index, function: { arguments: part } }] })),
  ])
  return [
    ...shape.reasoning.map((text) => ({ [shape.reasoningName]: text, ...noise })),
    ...shape.text.map((content) => ({ content, ...noise })),
    ...shape.refusal.map((refusal) => ({ refusal })),
    ...(shape.isInterleaved ? byTurns(parts) : parts.flat()),
  ]
}

function byTurns(lists: readonly (readonly object[])[]): object[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length))
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat()
}

function streamOf(shape: Shape, deltas: readonly object[], usage: object): string {
  const chunk = (delta: object, finish: string | null = null): string =>
    event({ id: 'x', model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })
  return [
    shape.hasNoise ? ': alive\n\n' : '',
    shape.hasRole ? chunk({ role: 'assistant', content: '' }) : '',
    ...deltas.map((delta) => chunk(delta)),
    chunk(shape.hasNoise ? { content: '' } : {}, shape.finishReason),
    shape.hasUsage ? event({ id: 'x', model: 'm', choices: [], usage }) : '',
    'data: [DONE]\n\n',
  ].join('')
}

function event(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

function cut(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((part) => Math.floor(part * bytes.length)).sort((a, b) => a - b), bytes.length]
  return places.slice(1).map((end, i) => bytes.subarray(places[i], end))
}
