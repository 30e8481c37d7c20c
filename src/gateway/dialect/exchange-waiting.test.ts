/** A stream that waits for its model to start: comments keep it open, and waiting costs nothing. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { systemClock } from '../../base/instant.ts'
import { zeroUsd } from '../../base/money.ts'
import { modelOn } from '../../../test/sim/model-server-caller.ts'
import type { Admitted } from '../money/admission.ts'
import type { Reply } from '../call.ts'
import { ChatExchange, type ChatCall, type ExchangePorts } from './exchange.ts'
import type { EndedCall } from '../money/meter.ts'
import type { UpstreamCall, UpstreamSink } from '../upstream/upstream-call.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

const COMMENT_MS = 5_000

function begin() {
  const sent: string[] = []
  const ended: EndedCall[] = []
  let isWaiting = true
  const sinks: UpstreamSink[] = []
  const reply: Reply = {
    send: (status) => sent.push(`send ${status}`),
    startStream: (first) => sent.push(`start ${first.trim()}`) > 0,
    write: (text) => sent.push(`write ${text.trim()}`) > 0,
    endStream: (last) => void sent.push(`end ${last.trim()}`),
    refuse: ({ reason }) => void sent.push(`refuse ${reason}`),
    onGone: () => {},
    onDrain: () => {},
    abort: () => {},
  }
  const ports = {
    dispatcher: {
      send: (_: UpstreamCall, sink: UpstreamSink) => {
        sinks.push(sink)
        return { cancel: () => {}, pause: () => {}, resume: () => {}, ahead: () => (isWaiting ? 0 : undefined) }
      },
    },
    meter: { finish: (_: unknown, record: EndedCall, then: () => void) => (ended.push(record), then()) },
    clock: systemClock,
    ended: () => {},
    warn: () => {},
  } as unknown as ExchangePorts
  const call = {
    requestId: 'req_0123456789abcdef0123456789abcdef',
    traceId: 't',
    caller: { accountId: 'acc_1', keyId: 'key', account: { keepsBodies: false } },
    operation: 'chat',
    model: { ...modelOn([]), startsOnDemand: { waitMs: 60_000 } },
    worst: zeroUsd,
    bodyText: null,
    stream: true,
    includeUsage: false,
    promptBytes: 8,
  } as unknown as ChatCall
  const admitted = { reservation: {}, rate: undefined, leave: () => {} } as unknown as Admitted
  new ChatExchange(call, ports, reply, admitted).start({} as UpstreamCall)
  const [sink] = sinks
  if (sink === undefined) throw new Error('nothing was sent')
  const serve = (): void => {
    isWaiting = false
    sink.head({ status: 200, headers: new Map([['content-type', 'text/event-stream']]), deployment: {} as never })
  }
  return { sent, ended, sink, serve }
}

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
