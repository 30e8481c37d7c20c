/** The stream of a message, read as clients read it, and the plain message, from the same random answers of engines. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { randomAnswer, type RandomAnswer } from '../../../test/harness/chat-answer.ts'
import { instantOf } from '../../base/instant.ts'
import { messageAnswer, type MessageAnswerOptions } from './message-answer.ts'
import { parseObject } from './usage.ts'

const call = {
  requestId: 'req_0123456789abcdef0123456789abcdef',
  model: { name: 'm', contextTokens: 100 },
  includeUsage: false,
}
const usual: MessageAnswerOptions = { thinks: true, stops: ['END'], maxTokens: 1_000 }
const now = instantOf(0)

// Events and messages of every shape; `expect` is the type check.
// eslint-disable-next-line typescript/no-explicit-any
type Members = Record<string, any>
interface Event extends Members {
  readonly type: string
}

function must(isTrue: boolean, fact: string): void {
  if (!isTrue) throw new Error(`the grammar is broken: ${fact}`)
}

/** The events of a stream. Each has its name in a line of its own. */
function eventsOf(text: string): Event[] {
  const blocks = Buffer.from(text, 'latin1').toString().split('\n\n').slice(0, -1)
  return blocks
    .filter((block) => !block.startsWith(':'))
    .map((block) => {
      const [, name, json = ''] = /^event: (\w+)\ndata: ([^\n]*)$/.exec(block) ?? []
      const event = JSON.parse(json) as Event
      expect(event.type).toBe(name)
      return event
    })
}

function play({ pieces }: Pick<RandomAnswer, 'pieces'>, options: MessageAnswerOptions = usual): Event[] {
  const stream = messageAnswer(options).openStream(call, now)
  let text = ''
  try {
    for (const piece of pieces) text += stream.push(piece)
  } catch {
    // The exchange breaks the answer off.
    return eventsOf(text + stream.fail({ message: 'The engine failed.', code: 'engine_failed' }))
  }
  const usage = stream.progress.usage ?? { inputTokens: 40, cachedTokens: 7, outputTokens: 3 }
  return eventsOf(text + stream.end(usage))
}

/** Accumulates as SDKs do, and fails at the first event that breaks the grammar. */
function accumulate(events: readonly Event[]): Members {
  const [start, ...others] = events
  expect(start?.type).toBe('message_start')
  const message = structuredClone(start?.['message']) as Members
  let open: number | undefined
  let json = ''
  for (const [at, event] of others.entries()) {
    const block = message['content'].at(-1)
    switch (event.type) {
      case 'content_block_start':
        must(open === undefined && event['index'] === message['content'].length, 'where a block begins')
        open = event['index'] as number
        json = ''
        message['content'].push(structuredClone(event['content_block']))
        break
      case 'content_block_delta':
        must(event['index'] === open, 'a delta of another block')
        if (event['delta'].type === 'text_delta') block.text += event['delta'].text
        else if (event['delta'].type === 'thinking_delta') block.thinking += event['delta'].thinking
        else if (event['delta'].type === 'signature_delta') block.signature = event['delta'].signature
        else json += event['delta'].partial_json
        break
      case 'content_block_stop':
        must(event['index'] === open, 'the end of another block')
        if (block.type === 'tool_use') block.input = JSON.parse(json)
        open = undefined
        break
      case 'message_delta':
        must(open === undefined && others[at + 1]?.type === 'message_stop', 'what ends a message')
        Object.assign(message, event['delta'])
        Object.assign(message['usage'], event['usage'])
        break
      default:
        must(event.type === 'message_stop' && at === others.length - 1, `${event.type} at ${at}`)
    }
  }
  return message
}

function writePlain({ plain, usage }: RandomAnswer): Members {
  const text = Buffer.from(plain).toString('latin1')
  const tokens = { inputTokens: usage.prompt_tokens, cachedTokens: 7, outputTokens: usage.completion_tokens }
  const written = messageAnswer(usual).write(call, { text, value: {}, usage: tokens }, now)
  return JSON.parse(Buffer.from(written, 'latin1').toString()) as Members
}

const hasObjects = ({ calls }: RandomAnswer): boolean => calls.every((one) => parseObject(one.arguments) !== undefined)

test('P15: random streams give the grammar, and the message of the plain answer', () => {
  fc.assert(
    fc.property(randomAnswer.filter(hasObjects), (answer) => {
      const streamed = accumulate(play(answer))
      const { usage, ...plain } = writePlain(answer)
      expect({ ...streamed, usage: undefined }).toEqual({ ...plain, usage: undefined })
      const content = plain['content'] as Array<Record<string, unknown>>
      expect(content.map(({ type }) => type)).toEqual([
        ...(answer.reasoning === '' ? [] : ['thinking']),
        ...(answer.text + answer.refusal === '' ? [] : ['text']),
        ...answer.calls.map(() => 'tool_use'),
      ])
      expect(content.find(({ type }) => type === 'text')?.['text'] ?? '').toBe(answer.text + answer.refusal)
      expect(content.flatMap(({ input }) => (input === undefined ? [] : [input]))).toEqual(
        answer.calls.map((one) => JSON.parse(one.arguments)),
      )
      expect(usage).toMatchObject({ input_tokens: 33, cache_read_input_tokens: 7, cache_creation_input_tokens: 0 })
    }),
    { numRuns: 200 },
  )
})

test('P19: arguments that are not a JSON object end in api_error, never in an empty input', () => {
  fc.assert(
    fc.property(
      randomAnswer.filter((answer) => !hasObjects(answer)),
      (answer) => {
        const events = play(answer)
        expect(events.at(-1)).toMatchObject({ type: 'error', error: { type: 'api_error' }, request_id: call.requestId })
        expect(events.map(({ type }) => type)).not.toContain('message_delta')
        expect(() => writePlain(answer)).toThrow('not a JSON object')
      },
    ),
    { numRuns: 100 },
  )
  for (const text of ['', 'null', '[]', '"a"', '{"a":', '{} x']) {
    const events = play({ pieces: callOf(text) })
    expect(events.at(-1)).toMatchObject({ type: 'error', error: { type: 'api_error' } })
  }
})

function chunk(delta: object, finish: string | null = null, more: object = {}): Buffer {
  const choices = [{ index: 0, delta, finish_reason: finish, ...more }]
  return Buffer.from(`data: ${JSON.stringify({ id: 'x', model: 'm', choices })}\n\n`)
}

function callOf(text: string): Buffer[] {
  return [chunk({ tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: text } }] }), chunk({}, 'stop')]
}

test('P21: without `thinking`, a thinking model sends no thinking block', () => {
  const pieces = [chunk({ reasoning_content: 'hm' }), chunk({ content: 'Yes' }), chunk({}, 'stop')]
  const blocksOf = (thinks: boolean): unknown[] =>
    accumulate(play({ pieces }, { ...usual, thinks }))['content'].map((block: { type: string }) => block.type)
  expect(blocksOf(false)).toEqual(['text'])
  expect(blocksOf(true)).toEqual(['thinking', 'text'])
})

test('a block begins when the one before has ended, also where an engine mixes them', () => {
  const part = (index: number, id: string | undefined, text: string): object => ({
    tool_calls: [
      {
        index,
        ...(id === undefined ? {} : { id }),
        function: { ...(id === undefined ? {} : { name: id }), arguments: text },
      },
    ],
  })
  const deltas = [
    part(0, 'a', '{"x"'),
    { content: 'note' },
    part(1, 'b', '{"y":'),
    part(0, undefined, ':1}'),
    part(1, undefined, '2}'),
  ]
  const { content, stop_reason } = accumulate(
    play({ pieces: [...deltas.map((delta) => chunk(delta)), chunk({}, 'stop')] }),
  )
  expect(content).toMatchObject([
    { type: 'tool_use', id: 'a', input: { x: 1 } },
    { type: 'tool_use', id: 'b', input: { y: 2 } },
    { type: 'text', text: 'note' },
  ])
  expect(stop_reason).toBe('tool_use')
})

test.each([
  [chunk({}, 'stop'), 'end_turn', null],
  [chunk({}, 'stop', { stop_reason: 'END' }), 'stop_sequence', 'END'],
  [chunk({}, 'stop', { stop_reason: 'other' }), 'end_turn', null],
  [chunk({}, 'length'), 'max_tokens', null],
  [chunk({}, 'content_filter'), 'refusal', null],
])('the end of an answer has a stop reason', (last, reason, sequence) => {
  const message = accumulate(play({ pieces: [chunk({ content: 'a' }), last] }))
  expect([message['stop_reason'], message['stop_sequence']]).toEqual([reason, sequence])
})

test('an answer that ends with the context says so', () => {
  const stream = messageAnswer(usual).openStream(call, now)
  stream.push(Buffer.concat([chunk({ content: 'a' }), chunk({}, 'length')]))
  const events = eventsOf(stream.end({ inputTokens: 60, cachedTokens: 0, outputTokens: 40 }))
  expect(events.find(({ type }) => type === 'message_delta')).toMatchObject({
    delta: { stop_reason: 'model_context_window_exceeded' },
  })
})

test('errors within a stream are events with the types that clients have classes for', () => {
  for (const [code, type] of [
    ['engine_failed', 'api_error'],
    ['engine_timeout', 'timeout_error'],
    ['overloaded', 'overloaded_error'],
  ] as const) {
    const stream = messageAnswer(usual).openStream(call, now)
    expect(eventsOf(stream.fail({ message: 'M', code })).at(-1)).toEqual({
      type: 'error',
      error: { type, message: 'M' },
      request_id: call.requestId,
    })
  }
})
