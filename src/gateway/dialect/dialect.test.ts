/**
 * The exchange knows nothing of an answer's form. A protocol unlike chat (named events, an event before the first delta
 * and a last one with the whole answer, errors of its own) needs no more than a form, for which this one stands.
 */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { playExchange } from '../../../test/harness/chat-exchange.ts'
import type { Caller } from '../call.ts'
import { chat } from './chat.ts'
import { completion } from './completion.ts'
import type { AnswerForm } from './answer-form.ts'
import { translateAnswers } from './translated-answer.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

const ping = 'event: ping\ndata: {}\n\n'

function event(type: string, more: object = {}): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`
}

const named: AnswerForm = translateAnswers({
  waiting: ping,
  openWriter: ({ requestId, model }) => {
    let content = ''
    return {
      open: () => event('begin'),
      add: (delta) => {
        if (delta.kind !== 'text') throw new Error('only text can be told')
        content += delta.text
        return event('delta', { delta: delta.text })
      },
      end: ({ usage }) => event('end', { content, outputTokens: usage.outputTokens }),
      fail: ({ code }) => event('failed', { content, code }),
      write: ({ usage }) => {
        if (content === '') throw new Error('an answer without content')
        return JSON.stringify({
          id: `msg_${requestId.slice(4)}`,
          model: model.name,
          content,
          tokens: usage.outputTokens,
        })
      },
    }
  },
})

function chunk(content: string, finish: string | null = null): Buffer {
  const choices = [{ index: 0, delta: { content }, finish_reason: finish }]
  return Buffer.from(`data: ${JSON.stringify({ id: 'x', model: 'm', choices })}\n\n`)
}

function typesOf(sent: readonly string[]): string[] {
  return sent.flatMap((text) => Array.from(text.matchAll(/^(?:\w+ )?event: (\w+)$/gm), ([, type = '']) => type))
}

test('a stream has the events of its form from the first to the last', () => {
  const { sent, ended, sink, serve } = playExchange(named)
  vi.advanceTimersByTime(5_000)
  serve()
  sink.data(Buffer.concat([chunk('Grüße'), chunk(', '), chunk('Ada')]))
  sink.data(chunk('', 'stop'))
  sink.data(Buffer.from('data: [DONE]\n\n'))
  expect(typesOf(sent)).toEqual(['ping', 'begin', 'delta', 'delta', 'delta', 'end'])
  expect(sent[0]).toBe(`start ${ping.trim()}`)
  expect(Buffer.from(sent.at(-1) ?? '', 'latin1').toString()).toContain('"content":"Grüße, Ada"')
  expect(ended).toMatchObject([{ outcome: 'answered', units: { outputTokens: 3 } }])
})

test('a failure has the form of the stream, before its first event and after it', () => {
  const failure = { kind: 'broken', detail: 'gone', deployment: undefined, retryAfterMs: undefined } as const
  const early = playExchange(named)
  vi.advanceTimersByTime(5_000)
  early.sink.fail(failure)
  expect(typesOf(early.sent)).toEqual(['ping', 'begin', 'failed'])
  const late = playExchange(named)
  late.serve()
  late.sink.data(chunk('one'))
  late.sink.fail(failure)
  expect(typesOf(late.sent)).toEqual(['begin', 'delta', 'failed'])
  expect(late.sent.at(-1)).toContain('"content":"one"')
  expect([...early.ended, ...late.ended]).toMatchObject([{ outcome: 'failed' }, { outcome: 'broken' }])
})

test.each([true, false])('the end of an answer waits for what the form does before it (stream: %s)', async (stream) => {
  let store: (text: string) => void = () => {}
  const stored = new Promise<string>((resolve) => (store = resolve))
  const { sent, ended, sink, serve } = playExchange({ ...named, beforeEnd: () => stored }, { stream })
  serve()
  if (stream) sink.data(Buffer.concat([chunk('one'), chunk('', 'stop'), Buffer.from('data: [DONE]\n\n')]))
  else {
    sink.data(Buffer.from(JSON.stringify({ choices: [{ message: { content: 'one' } }] })))
    sink.end()
  }
  expect(ended).toHaveLength(1)
  expect(sent.filter((text) => /^(end|send)/.test(text))).toEqual([])
  store('stored')
  await vi.waitFor(() => expect(sent.at(-1)).toMatch(/^(end|send 200) stored$/))
})

test('a plain answer is assembled from the answer of the engine', () => {
  const { sent, ended, sink, serve } = playExchange(named, { stream: false })
  serve()
  const usage = { prompt_tokens: 4, completion_tokens: 2 }
  sink.data(Buffer.from(JSON.stringify({ id: 'x', model: 'm', choices: [{ message: { content: 'Grüße' } }], usage })))
  sink.end()
  const [answer = ''] = sent
  expect(JSON.parse(Buffer.from(answer.replace('send 200 ', ''), 'latin1').toString())).toMatchObject({
    id: 'msg_0123456789abcdef0123456789abcdef',
    content: 'Grüße',
    tokens: 2,
  })
  expect(ended).toMatchObject([{ outcome: 'answered', units: { inputTokens: 4, outputTokens: 2 } }])
})

test('an answer that the form cannot express is a failure of the engine, and free', () => {
  const { sent, ended, sink, serve } = playExchange(named, { stream: false })
  serve()
  sink.data(Buffer.from(JSON.stringify({ choices: [{ message: {} }] })))
  sink.end()
  expect(sent).toEqual(['refuse engine_failed'])
  expect(ended).toMatchObject([{ outcome: 'failed', cost: 0n }])
})

test('chats and completions go to engines in their own form', () => {
  const sampling = { model: 'm', max_tokens: 3 }
  expect(chat.read({ ...sampling, messages: [] }, {} as Caller)).toMatchObject({
    ok: true,
    value: { form: { path: '/v1/chat/completions' }, messages: { bytes: Buffer.from('[]') } },
  })
  expect(completion.read({ ...sampling, prompt: 'x' }, {} as Caller)).toMatchObject({
    ok: true,
    value: { form: { path: '/v1/completions' }, messages: undefined },
  })
})
