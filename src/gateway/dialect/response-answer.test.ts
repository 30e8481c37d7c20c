/** The stream of a response, read as clients read it, the plain response, and the replayed one, from random answers. */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { randomAnswer, type RandomAnswer } from '../../../test/harness/chat-answer.ts'
import { instantOf } from '../../base/instant.ts'
import { responseAnswer, type FinishedResponse, type ResponseAnswerOptions } from './response-answer.ts'
import { replayResponse } from './response-replay.ts'
import type { ToolNames } from './response-tool.ts'

const call = {
  requestId: 'req_0123456789abcdef0123456789abcdef',
  model: { name: 'm', contextTokens: 100 },
  includeUsage: false,
}
const now = instantOf(1_767_225_600_000)
const usual: ResponseAnswerOptions = {
  echo: { tools: [], metadata: { a: 'ö' } },
  tools: new Map(),
  showsLogprobs: true,
  clock: { now: () => now },
  seal: (text, at) => `sealed ${at} ${text}`,
}

// Events and items of every shape; `expect` is the type check.
// eslint-disable-next-line typescript/no-explicit-any
type Members = Record<string, any>
interface Event extends Members {
  readonly type: string
}

function must(isTrue: boolean, fact: string): void {
  if (!isTrue) throw new Error(`the grammar is broken: ${fact}`)
}

/** As JSON has them. */
function mustEqual(one: unknown, other: unknown, fact: string): void {
  const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))
  must(isDeepStrictEqual(plain(one), plain(other)), fact)
}

const idOf = ({ id }: Members): unknown => id

function eventsOf(text: string): Event[] {
  const blocks = text.split('\n\n').slice(0, -1)
  return blocks
    .filter((block) => !block.startsWith(':'))
    .map((block, at) => {
      const [, name, json = ''] = /^event: ([\w.]+)\ndata: ([^\n]*)$/.exec(block) ?? []
      const event = JSON.parse(json) as Event
      expect([event.type, event['sequence_number']]).toEqual([name, at])
      return event
    })
}

interface Played {
  readonly events: Event[]
  readonly saved: FinishedResponse | undefined
  readonly text: string
}

/** As the exchange does: stored before the end goes out. */
async function play(
  { pieces }: Pick<RandomAnswer, 'pieces'>,
  options: Partial<ResponseAnswerOptions> = {},
  isSaved = true,
): Promise<Played> {
  let saved: FinishedResponse | undefined
  const save = async (finished: FinishedResponse): Promise<boolean> => {
    saved = finished
    return isSaved
  }
  const form = responseAnswer({ ...usual, save, ...options })
  const stream = form.openStream(call, now)
  let text = ''
  try {
    for (const piece of pieces) text += stream.push(piece)
    const usage = stream.progress.usage ?? { inputTokens: 40, cachedTokens: 7, outputTokens: 3 }
    const last = stream.end(usage)
    text += (await form.beforeEnd?.(last)) ?? last
  } catch {
    // The exchange breaks the answer off.
    text += stream.fail({ message: 'The engine failed.', code: 'engine_failed' })
  }
  const all = Buffer.from(text, 'latin1').toString()
  return { events: eventsOf(all), saved, text: all }
}

/** Accumulates as SDKs do, and fails at the first event that breaks the grammar. */
function accumulate(events: readonly Event[]): Members {
  const [created, begun, ...others] = events
  must(created?.type === 'response.created' && begun?.type === 'response.in_progress', 'how it begins')
  const output: Members[] = []
  let isOpen = false
  let last: Members | undefined
  for (const event of others) {
    must(last === undefined, `${event.type} after the end`)
    const item = output.at(-1) as Members
    const place = event['output_index'] as number | undefined
    if (place !== undefined && event.type !== 'response.output_item.added') {
      must(isOpen && place === output.length - 1, `${event.type} of another item`)
      must((event['item_id'] ?? event['item'].id) === item['id'], `${event.type} with another id`)
    }
    const part = (item?.['content'] as Members[] | undefined)?.at(-1)
    switch (event.type) {
      case 'response.output_item.added':
        must(!isOpen && place === output.length, 'where an item begins')
        must(event['item'].status === 'in_progress', 'the status of an item')
        output.push(structuredClone(event['item']))
        isOpen = true
        break
      case 'response.output_item.done':
        mustEqual({ ...event['item'], status: 'in_progress', encrypted_content: undefined }, item, event.type)
        output[output.length - 1] = event['item']
        isOpen = false
        break
      case 'response.content_part.added':
        must(event['content_index'] === item['content'].length, 'where a part begins')
        item['content'].push(structuredClone(event['part']))
        break
      case 'response.content_part.done':
        mustEqual(event['part'], part, event.type)
        break
      case 'response.output_text.delta':
      case 'response.reasoning_text.delta':
        must(part?.['type'] === event.type.split('.')[1] && event['delta'] !== '', event.type)
        if (part !== undefined) part['text'] += event['delta']
        break
      case 'response.refusal.delta':
        if (part !== undefined) part['refusal'] += event['delta']
        break
      case 'response.output_text.done':
      case 'response.reasoning_text.done':
        must(part?.['text'] === event['text'], event.type)
        break
      case 'response.refusal.done':
        must(part?.['refusal'] === event['refusal'], event.type)
        break
      case 'response.function_call_arguments.delta':
        item['arguments'] += event['delta']
        break
      case 'response.custom_tool_call_input.delta':
        item['input'] += event['delta']
        break
      case 'response.function_call_arguments.done':
        must(item['arguments'] === event['arguments'], event.type)
        break
      case 'response.custom_tool_call_input.done':
        must(item['input'] === event['input'], event.type)
        break
      default:
        must(/^response\.(completed|incomplete|failed)$/.test(event.type), event.type)
        last = event['response'] as Members
        must(`response.${last['status']}` === event.type, 'the status at the end')
        must(last['status'] === 'failed' || !isOpen, 'an item that has not ended')
        mustEqual(last['output'].map(idOf), output.map(idOf), 'the items at the end')
        if (last['status'] !== 'failed') mustEqual(last['output'], output, 'the items at the end')
        must(last['id'] === created?.['response'].id, 'the id at the end')
    }
  }
  must(last !== undefined, 'it has no end')
  return last as Members
}

function writePlain({ plain, usage }: RandomAnswer, options = usual): Members {
  const text = Buffer.from(plain).toString('latin1')
  const tokens = { inputTokens: usage.prompt_tokens, cachedTokens: 7, outputTokens: usage.completion_tokens }
  const written = responseAnswer(options).write(call, { text, value: {}, usage: tokens }, now)
  return JSON.parse(Buffer.from(written, 'latin1').toString()) as Members
}

test('P6: random streams give the grammar, and the response of the plain answer', async () => {
  await fc.assert(
    fc.asyncProperty(randomAnswer, async (answer) => {
      const { events } = await play(answer, { save: undefined })
      const streamed = accumulate(events)
      const { usage, ...plain } = writePlain(answer)
      expect({ ...streamed, usage: undefined }).toEqual({ ...plain, usage: undefined })
      const output = plain['output'] as Members[]
      const spoken = answer.text + answer.refusal
      expect(output.map(({ type }) => type)).toEqual([
        ...(answer.reasoning === '' ? [] : ['reasoning']),
        ...(spoken === '' ? [] : ['message']),
        ...answer.calls.map(() => 'function_call'),
      ])
      const content = output.filter((item) => 'content' in item).flatMap((item) => item['content'] as Members[])
      expect(content.map((part) => part['text'] ?? part['refusal']).join('')).toBe(answer.reasoning + spoken)
      const calls = output.filter(({ type }) => type === 'function_call')
      const given = answer.calls.map((one) => [one.id, one.name, one.arguments.trim() === '' ? '{}' : one.arguments])
      const got = calls.map((one) => [one['call_id'], one['name'], one['arguments']])
      expect(got).toEqual(given)
      expect(usage).toEqual({
        input_tokens: 40,
        input_tokens_details: { cached_tokens: 7, cache_write_tokens: 0 },
        output_tokens: answer.usage.completion_tokens,
        output_tokens_details: { reasoning_tokens: answer.usage.reasoning },
        total_tokens: 40 + answer.usage.completion_tokens,
      })
      const end = { length: ['incomplete', 'max_output_tokens'], content_filter: ['incomplete', 'content_filter'] }
      const [status, reason] = end[answer.finishReason as keyof typeof end] ?? ['completed', undefined]
      expect([plain['status'], plain['incomplete_details']?.reason]).toEqual([status, reason])
    }),
    { numRuns: 100 },
  )
})

test('P6: a stored response equals the one that was sent, and its events come again', async () => {
  await fc.assert(
    fc.asyncProperty(randomAnswer, async (answer) => {
      const custom: ToolNames = new Map(
        answer.calls.slice(0, 1).map(({ name }) => [name, { kind: 'custom', name: 'mine', namespace: 'ours' }]),
      )
      const { events, text, saved } = await play(answer, { tools: custom })
      const last = accumulate(events)
      expect(JSON.parse(saved?.text ?? '')).toEqual(last)
      const replayed = replayResponse(JSON.parse(JSON.stringify(saved)) as FinishedResponse)
      expect(replayed.join('')).toBe(text.replaceAll(': alive\n\n', ''))
      expect(replayed).toHaveLength(events.length)
    }),
    { numRuns: 100 },
  )
})

function chunk(delta: object, finish: string | null = null, more: object = {}): Buffer {
  const choices = [{ index: 0, delta, finish_reason: finish, ...more }]
  return Buffer.from(`data: ${JSON.stringify({ id: 'x', model: 'm', choices })}\n\n`)
}

const part = (index: number, id: string | undefined, text: string): object => ({
  tool_calls: [
    {
      index,
      ...(id === undefined ? {} : { id }),
      function: { ...(id === undefined ? {} : { name: id }), arguments: text },
    },
  ],
})

test('an item begins when the one before has ended, also where an engine mixes them', async () => {
  const deltas = [
    part(0, 'a', '{"x"'),
    { content: 'note' },
    part(1, 'b', '{"y":'),
    part(0, undefined, ':1}'),
    part(1, undefined, '2}'),
    { reasoning: 'hm' },
  ]
  const { events } = await play({ pieces: [...deltas.map((delta) => chunk(delta)), chunk({}, 'stop')] })
  expect(accumulate(events)['output']).toMatchObject([
    { type: 'function_call', call_id: 'a', arguments: '{"x":1}' },
    { type: 'message', content: [{ type: 'output_text', text: 'note' }] },
    { type: 'function_call', call_id: 'b', arguments: '{"y":2}' },
    { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'hm' }], encrypted_content: 'sealed 3 hm' },
  ])
})

test('a call has its own events by its kind, and its namespace again', async () => {
  const tools: ToolNames = new Map([
    ['patch', { kind: 'custom', name: 'patch', namespace: undefined }],
    ['crm__find', { kind: 'function', name: 'find', namespace: 'crm' }],
  ])
  const pieces = [
    chunk(part(0, 'patch', '{"input": "*** Begin')),
    chunk(part(0, undefined, ' ö"}')),
    chunk(part(1, 'crm__find', '')),
    chunk({}, 'stop'),
  ]
  const { events } = await play({ pieces }, { tools })
  expect(accumulate(events)['output']).toMatchObject([
    { type: 'custom_tool_call', call_id: 'patch', name: 'patch', input: '*** Begin ö' },
    { type: 'function_call', call_id: 'crm__find', name: 'find', namespace: 'crm', arguments: '{}' },
  ])
  expect(events.map(({ type }) => type)).toContain('response.custom_tool_call_input.delta')
})

describe('P7: an answer that does not complete', () => {
  test.each([
    ['length', 'incomplete', 'max_output_tokens'],
    ['content_filter', 'incomplete', 'content_filter'],
    ['stop', 'completed', undefined],
  ])('%s is %s', async (finish, status, reason) => {
    const { events } = await play({ pieces: [chunk({ content: 'a' }), chunk({}, finish)] })
    const response = accumulate(events)
    expect([response['status'], response['incomplete_details']?.reason]).toEqual([status, reason])
    expect(response['output'][0].status).toBe(status)
  })

  test('an engine that fails is failed, with what was sent and charged', () => {
    const stream = responseAnswer(usual).openStream(call, now)
    const sent = stream.push(chunk({ content: 'a' }))
    const usage = { inputTokens: 4, cachedTokens: 0, outputTokens: 1 }
    const events = eventsOf(sent + stream.fail({ message: 'M', code: 'engine_failed', usage }))
    expect(accumulate(events)).toMatchObject({
      status: 'failed',
      error: { code: 'server_error', message: 'M' },
      output: [{ type: 'message', content: [{ text: 'a' }] }],
      usage: { input_tokens: 4, output_tokens: 1, total_tokens: 5 },
    })
    const early = responseAnswer(usual).openStream(call, now)
    const refused = eventsOf(early.fail({ message: 'M', code: 'context_length_exceeded' }))
    expect(refused.map(({ type }) => type)).toEqual(['response.created', 'response.in_progress', 'response.failed'])
    expect(accumulate(refused)).toMatchObject({ error: { code: 'context_length_exceeded' }, usage: null })
  })

  test('arguments after the end of their call fail', async () => {
    const pieces = [chunk(part(0, 'a', '{}')), chunk({ content: 'b' }), chunk(part(0, undefined, '{}'))]
    const { events } = await play({ pieces })
    expect(accumulate(events)['status']).toBe('failed')
  })
})

test('an answer that cannot be stored says so in its end, whose number is the next', async () => {
  const answer = { pieces: [chunk({ content: 'ö' }), chunk({}, 'stop')] }
  const stored = await play(answer)
  const unstored = await play(answer, {}, false)
  expect(accumulate(stored.events)).toEqual({ ...accumulate(unstored.events), store: true })
  expect(accumulate(unstored.events)['store']).toBe(false)
})
