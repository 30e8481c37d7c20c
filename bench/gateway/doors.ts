/**
 * The same stream in each protocol, through one server: what the translation costs. A chat takes the fast path; one with
 * an unusual header takes the full path, which the other protocols take too. The plain Node proxy forwards the chat.
 */
import type { Bench, Figure } from '../harness.ts'
import { checkLedger, INPUT_NANO, OUTPUT_NANO, startBerth, type BerthSide } from './berth.ts'
import { shortChat, shortMessage, shortResponse } from './chat-body.ts'
import { figureOf, ratioFigure, sideFigures } from './figures.ts'
import { startLoad, type LoadJob } from './load.ts'
import { PLAIN_PROXY, startPlainProxy } from './plain-proxy.ts'
import { compareSides, ROUNDS } from './rounds.ts'
import type { Side } from './side.ts'
import { withAll } from './stage.ts'
import { INPUT_TOKENS, STREAM_WORD_EVERY_MS, STREAM_WORDS, type StreamProtocol } from './upstream-answer.ts'
import { startUpstream } from './upstream.ts'

const STREAMS = 32
const MODEL = 'bench'
/** Streams are slow, so there are fewer of them to average CPU ticks over. */
const ROUND_MS = 4_000
const FAST = 'chat, fast path'
const FULL = 'chat, full path'
const MESSAGES = 'Messages'
const RESPONSES = 'Responses'
const STORED = 'Responses, stored'
const GOAL = 'to reach: ≤ 2 ×'

interface Door {
  readonly name: string
  readonly protocol: StreamProtocol
  readonly path: string
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}

const chat = { protocol: 'chat', path: '/v1/chat/completions', body: shortChat(MODEL, true) } as const
const doors: readonly Door[] = [
  { ...chat, name: FAST },
  { ...chat, name: FULL, headers: { 'Content-Type': 'application/json;charset=utf-8' } },
  { name: MESSAGES, protocol: 'messages', path: '/v1/messages', body: shortMessage(MODEL) },
  { name: RESPONSES, protocol: 'responses', path: '/v1/responses', body: shortResponse(MODEL, false) },
  { name: STORED, protocol: 'responses', path: '/v1/responses', body: shortResponse(MODEL, true) },
]

export const gatewayDoors: Bench = {
  name: 'gateway-doors',
  about: `the same stream of ${STREAM_WORDS} chunks over ${STREAM_WORDS * STREAM_WORD_EVERY_MS} ms as chat, message and response, ${ROUNDS} rounds`,
  run: () =>
    withAll(async (stage) => {
      const upstream = await stage.add(startUpstream())
      const load = await stage.add(startLoad())
      const { stream } = upstream.ports
      const berth = await stage.add(startBerth([{ name: MODEL, upstreamPort: stream }]))
      const node = await stage.add(startPlainProxy(stream))
      const sides = doors.map((door) => sideOf(berth, door))
      const measured = await compareSides({
        sides: [...sides, node],
        load,
        jobOf,
        roundMs: ROUND_MS,
        beside: new Map(sides.map(({ name }) => [name, { PostgreSQL: berth.server.postgresPid }])),
      })
      const answered = load.answeredFrom(berth.port)
      const cost = INPUT_TOKENS * INPUT_NANO + STREAM_WORDS * OUTPUT_NANO
      const inLedger = await checkLedger(berth, answered, { [MODEL]: cost })
      const of = (name: string) => measured.get(name)
      const figures: Figure[] = [
        ...[MESSAGES, RESPONSES, STORED].map((name) =>
          ratioFigure(`CPU a stream: ${name} to ${FULL}`, of(name), of(FULL), GOAL),
        ),
        ...[FULL, MESSAGES, RESPONSES].map((name) =>
          ratioFigure(`CPU a stream: ${name} to ${FAST}`, of(name), of(FAST)),
        ),
        ratioFigure(`CPU a stream: ${FAST} to the plain Node proxy`, of(FAST), of(PLAIN_PROXY), 'to reach: ≤ 0.9 ×'),
        ...[...measured.values()].flatMap((one) => [
          ...sideFigures(one, 'stream'),
          ...(one.besideUs['PostgreSQL'] === undefined
            ? []
            : [figureOf(`${one.side.name}: CPU of PostgreSQL a stream`, one.besideUs['PostgreSQL'], 'µs')]),
        ]),
        {
          name: 'streams in the ledger, each charged once at the price of a chat',
          value: inLedger,
          unit: '',
          against: `${answered} were answered`,
        },
      ]
      return figures
    }),
}

/** All of them are one process, which does one at a time. */
function sideOf(berth: BerthSide, { name, headers }: Door): Side {
  return { ...berth, name, headers: { ...berth.headers, ...headers } }
}

function jobOf({ name }: Side): Omit<LoadJob, 'port' | 'headers' | 'durationMs'> {
  const { path, body, protocol } = doors.find((door) => door.name === name) ?? chat
  return { path, body, connections: STREAMS, expects: { kind: 'stream', words: STREAM_WORDS, protocol } }
}
