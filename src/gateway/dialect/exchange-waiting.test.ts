/** A stream that waits for its model to start: comments keep it open, and waiting costs nothing. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { playExchange } from '../../../test/harness/chat-exchange.ts'
import { chatAnswer } from './chat.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

const COMMENT_MS = 5_000

const begin = () => playExchange(chatAnswer)

const chunk = (text: string): Buffer =>
  Buffer.from(`data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"${text}"}}]}\n\n`)

test('comments keep the stream open until the answer begins, which continues it', () => {
  const { sent, sink, serve } = begin()
  vi.advanceTimersByTime(COMMENT_MS - 1)
  expect(sent).toEqual([])
  vi.advanceTimersByTime(2 * COMMENT_MS)
  expect(sent).toEqual(['start : waiting for the model to start', 'write : waiting for the model to start'])
  serve()
  vi.advanceTimersByTime(COMMENT_MS)
  expect(sent).toHaveLength(2)
  sink.data(chunk('hello'))
  expect(sent[2]).toMatch(/^write data: [^]*hello/)
})

test('a deadline during the wait ends the stream with an error event, and costs nothing', () => {
  const { sent, ended, sink } = begin()
  vi.advanceTimersByTime(COMMENT_MS)
  sink.fail({ kind: 'overloaded', detail: 'waited too long', deployment: undefined, retryAfterMs: 1_000 })
  expect(sent.at(-1)).toMatch(/^end data: .*"code":"overloaded"/)
  expect(ended).toMatchObject([{ outcome: 'failed', reason: 'overloaded', cost: 0n }])
})

test('a refusal before the first comment is an ordinary answer', () => {
  const { sent, sink } = begin()
  sink.fail({ kind: 'queue_full', detail: 'full', deployment: undefined, retryAfterMs: 1_000 })
  vi.advanceTimersByTime(10 * COMMENT_MS)
  expect(sent).toEqual(['refuse model_queue_full'])
})

test('a stream that fails after its first tokens ends with an error event, and those tokens are billed', () => {
  const { sent, ended, sink, serve } = begin()
  vi.advanceTimersByTime(COMMENT_MS)
  serve()
  sink.data(chunk('one'))
  sink.data(chunk('two'))
  sink.fail({ kind: 'broken', detail: 'the replica ended', deployment: undefined, retryAfterMs: undefined })
  expect(sent.at(-1)).toMatch(/"code":"engine_failed"/)
  expect(ended).toMatchObject([{ outcome: 'broken', units: { outputTokens: 2 } }])
})
