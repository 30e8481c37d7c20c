/** A chat exchange between a client whose answer is recorded and an engine that the test plays. */
import { systemClock } from '../../src/base/instant.ts'
import { zeroUsd } from '../../src/base/money.ts'
import type { Reply } from '../../src/gateway/call.ts'
import type { AnswerForm } from '../../src/gateway/dialect/answer-form.ts'
import { ChatExchange, type ChatCall, type ExchangePorts } from '../../src/gateway/dialect/exchange.ts'
import type { Admitted } from '../../src/gateway/money/admission.ts'
import type { EndedCall } from '../../src/gateway/money/meter.ts'
import type { UpstreamCall, UpstreamSink } from '../../src/gateway/upstream/upstream-call.ts'
import { modelOn } from '../sim/model-server-caller.ts'

export interface PlayedExchange {
  /** What the client got, as `start`, `write`, `end`, `send` or `refuse` and the text. */
  readonly sent: string[]
  readonly ended: EndedCall[]
  readonly sink: UpstreamSink
  /** A replica has started: the engine sends the head of its answer. */
  readonly serve: () => void
}

/** It waits for a replica, until `serve`. */
export function playExchange(
  answer: AnswerForm,
  { stream = true }: { readonly stream?: boolean } = {},
): PlayedExchange {
  const sent: string[] = []
  const ended: EndedCall[] = []
  let isWaiting = true
  const sinks: UpstreamSink[] = []
  const reply: Reply = {
    send: (status, _type, body) => sent.push(`send ${status} ${body}`),
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
    answer,
    model: { ...modelOn([]), startsOnDemand: { waitMs: 60_000 } },
    worst: zeroUsd,
    bodyText: null,
    stream,
    includeUsage: false,
    promptBytes: 8,
  } as unknown as ChatCall
  const admitted = { reservation: {}, rate: undefined, leave: () => {} } as unknown as Admitted
  new ChatExchange(call, ports, reply, admitted).start({} as UpstreamCall)
  const [sink] = sinks
  if (sink === undefined) throw new Error('nothing was sent')
  const contentType = stream ? 'text/event-stream' : 'application/json'
  const serve = (): void => {
    isWaiting = false
    sink.head({ status: 200, headers: new Map([['content-type', contentType]]), deployment: {} as never })
  }
  return { sent, ended, sink, serve }
}
