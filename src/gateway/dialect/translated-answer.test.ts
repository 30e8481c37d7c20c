/** The neutral form of an engine's answer is the same from a stream as from one piece, and is counted as a chat is. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { instantOf } from '../../base/instant.ts'
import { randomAnswer, type RandomAnswer } from '../../../test/harness/chat-answer.ts'
import type { AnswerForm } from './answer-form.ts'
import { chatAnswer } from './chat.ts'
import { ChatReader, type ChatDelta, type ChatEnding } from './chat-delta.ts'
import { translateAnswers } from './translated-answer.ts'

const call = { requestId: 'req_0123456789abcdef0123456789abcdef', model: { name: 'ours' }, includeUsage: false }
const now = instantOf(1_767_225_600_000)
const counted = { inputTokens: 1, cachedTokens: 0, outputTokens: 1 }

interface Told {
  readonly form: AnswerForm
  readonly deltas: ChatDelta[]
  readonly endings: ChatEnding[]
}

/** A form that remembers its deltas and writes one letter for each. */
function tell(): Told {
  const deltas: ChatDelta[] = []
  const endings: ChatEnding[] = []
  const end = (ending: ChatEnding): string => `e${endings.push(ending)}`
  const add = (delta: ChatDelta): string => (deltas.push(delta), 'ö')
  const openWriter = () => ({ open: () => 'o', add, end, fail: () => 'f', write: end })
  return { form: translateAnswers({ waiting: ': wait\n\n', openWriter }), deltas, endings }
}

function stream({ pieces }: RandomAnswer, form: AnswerForm): { sent: string; events: number } {
  const stream = form.openStream(call, now)
  let sent = ''
  for (const piece of pieces) sent += known(stream.push(piece))
  expect([stream.progress.done, stream.progress.finished, stream.progress.failed]).toEqual([true, true, undefined])
  return { sent: sent + stream.end(stream.progress.usage ?? counted), events: stream.progress.events }
}

function known<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('not a stream of a chat')
  return value
}

function gather(deltas: readonly ChatDelta[]): Pick<RandomAnswer, 'reasoning' | 'text' | 'refusal' | 'calls'> {
  const texts = { reasoning: '', text: '', refusal: '' }
  const calls: Array<{ id: string; name: string; arguments: string }> = []
  for (const delta of deltas) {
    if (delta.kind === 'call') calls[delta.call] = { id: delta.id, name: delta.name, arguments: '' }
    else if (delta.kind !== 'arguments') texts[delta.kind] += delta.text
    else known(calls[delta.call]).arguments += delta.text
  }
  return { ...texts, calls }
}

it('reads the same from a stream, however it is cut, as from a plain answer', () => {
  fc.assert(
    fc.property(randomAnswer, (answer) => {
      const [streamed, plain] = [tell(), tell()]
      const { sent } = stream(answer, streamed.form)
      const value = JSON.parse(answer.plain) as Record<string, unknown>
      plain.form.write(call, { text: Buffer.from(answer.plain).toString('latin1'), value, usage: counted }, now)
      const { reasoning, text, refusal, calls } = answer
      expect(gather(streamed.deltas)).toEqual({ reasoning, text, refusal, calls })
      expect(gather(plain.deltas)).toEqual({ reasoning, text, refusal, calls })
      expect(streamed.deltas.some((delta) => 'text' in delta && delta.text === '')).toBe(false)
      expect([streamed.endings[0]?.finishReason, plain.endings[0]?.finishReason]).toEqual(
        Array.from({ length: 2 }, () => answer.finishReason),
      )
      const expected = Buffer.from(`o${'ö'.repeat(streamed.deltas.length)}e1`).toString('latin1')
      expect(sent.replace(': alive\n\n', '')).toBe(expected)
    }),
    { numRuns: 200 },
  )
})

it('P1: counts the tokens of a stream as a chat does', () => {
  fc.assert(
    fc.property(randomAnswer, (answer) => {
      const { events } = stream(answer, tell().form)
      expect(events).toBe(stream(answer, chatAnswer).events)
    }),
    { numRuns: 200 },
  )
})

describe('an engine that differs from the others', () => {
  const read = (...deltas: readonly object[]): ChatDelta[] => {
    const reader = new ChatReader('s')
    return deltas.flatMap((delta) => reader.read({ choices: [{ delta }] }))
  }
  const part = (more: object, fn: object): object => ({ tool_calls: [{ ...more, function: fn }] })

  it('may number no call', () => {
    expect(
      read(part({ index: 0, id: 'a' }, { name: 'f', arguments: '{}' }), part({ index: 0, id: 'b' }, { name: 'g' })),
    ).toMatchObject([
      { kind: 'call', call: 0, id: 'a', name: 'f' },
      { kind: 'arguments', call: 0, text: '{}' },
      { kind: 'call', call: 1, id: 'b', name: 'g' },
    ])
  })

  it('may give no id, the name late, and the arguments as an object', () => {
    expect(read(part({ index: 4 }, { arguments: '{' }), part({ index: 4 }, { name: 'f', arguments: '}' }))).toEqual([
      { kind: 'call', call: 0, id: 'call_s0', name: 'f' },
      { kind: 'arguments', call: 0, text: '{}' },
    ])
    expect(read(part({}, { name: 'f', arguments: { a: 1 } })).at(-1)).toMatchObject({ text: '{"a":1}' })
  })

  it('may repeat the id with each part', () => {
    expect(
      read(part({ index: 0, id: 'a' }, { name: 'f' }), part({ index: 0, id: 'a' }, { name: 'f', arguments: 'x' })),
    ).toMatchObject([{ kind: 'call' }, { kind: 'arguments', call: 0, text: 'x' }])
  })

  it('fails if a call never gets a name', () => {
    const reader = new ChatReader('s')
    reader.read({ choices: [{ delta: part({ index: 0, id: 'a' }, { arguments: 'x' }) }] })
    expect(() => reader.read({ choices: [{ delta: {}, finish_reason: 'stop' }] })).toThrow('no name')
  })

  it('may name the stop sequence and count its reasoning', () => {
    const reader = new ChatReader('s')
    reader.read({ choices: [{ delta: {}, finish_reason: 'stop', stop_reason: 'END' }] })
    reader.read({ choices: [], usage: { completion_tokens_details: { reasoning_tokens: 3 } } })
    const usage = { inputTokens: 1, cachedTokens: 0, outputTokens: 9 }
    expect(reader.end(usage)).toEqual({ finishReason: 'stop', stopSequence: 'END', usage, reasoningTokens: 3 })
  })
})

describe('a stream', () => {
  const push = (text: string): string | undefined => tell().form.openStream(call, now).push(Buffer.from(text))

  it.each(['event: x\n\n', 'data: 1\n\n', 'data: {"x":1}\n\n', '<html>\n\n'])('is refused: %j', (text) => {
    expect(push(text)).toBeUndefined()
  })

  it('passes comments on, and ends with an error event of the engine', () => {
    const stream = tell().form.openStream(call, now)
    expect(stream.push(Buffer.from(': alive\n\n'))).toBe(': alive\n\n')
    expect(stream.push(Buffer.from('data: {"error":{"message":"out of memory"}}\n\n'))).toBe('')
    expect(stream.progress.failed).toContain('out of memory')
    expect(stream.fail({ message: 'm', code: 'c' })).toBe('of')
  })
})
