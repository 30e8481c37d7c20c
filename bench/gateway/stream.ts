/** Streamed chats: CPU per forwarded word, added latency of the first one, and memory per idle stream. */
import { median, type Bench, type Figure } from '../harness.ts'
import { BERTH, checkLedger, INPUT_NANO, OUTPUT_NANO, startBerth, type BerthSide } from './berth.ts'
import { shortChat } from './chat-body.ts'
import { figureOf, ratioFigure, sideFigures } from './figures.ts'
import { startLoad, type LoadGenerator } from './load.ts'
import { memoryBetween, memoryNow, watchMemory } from './memory.ts'
import { startNginx } from './nginx.ts'
import { peerFigures, startPeers } from './peers.ts'
import { PLAIN_PROXY, startPlainProxy } from './plain-proxy.ts'
import { PORTKEY } from './portkey.ts'
import { compareSides, ROUNDS, type Measured } from './rounds.ts'
import { directSide, FLOOR } from './side.ts'
import { withAll } from './stage.ts'
import {
  INPUT_TOKENS,
  SLOW_STREAM_WORD_EVERY_MS,
  SLOW_STREAM_WORDS,
  STREAM_WORD_EVERY_MS,
  STREAM_WORDS,
} from './upstream-answer.ts'
import { startUpstream } from './upstream.ts'

const STREAMS = 32
/** Enough to use the machine: PostgreSQL's own work in an idle minute is then a small part of a stream. */
const BUSY_STREAMS = 128
const QUIET_STREAMS = 1_000
const MODEL = 'bench'
const QUIET_MODEL = 'bench-quiet'
const NGINX = 'nginx'
const WARM_UP_MS = 3_000
/** Streams are slow, so there are fewer of them to average CPU ticks over. */
const ROUND_MS = 4_000

export const gatewayStream: Bench = {
  name: 'gateway-stream',
  about: `${STREAMS} streams of ${STREAM_WORDS} chunks over ${STREAM_WORDS * STREAM_WORD_EVERY_MS} ms, ${ROUNDS} rounds; memory of ${QUIET_STREAMS}`,
  run: () =>
    withAll(async (stage) => {
      const upstream = await stage.add(startUpstream())
      const load = await stage.add(startLoad())
      const { stream, 'slow-stream': slow } = upstream.ports
      const berth = await stage.add(
        startBerth([
          { name: MODEL, upstreamPort: stream },
          { name: QUIET_MODEL, upstreamPort: slow },
        ]),
      )
      const quietKb = await measureQuietStreams(berth, load)
      const nginx = await stage.add(
        startNginx({ name: NGINX, upstreamPort: stream, directives: ['proxy_buffering off;'] }),
      )
      const node = await stage.add(startPlainProxy(stream))
      const peers = await startPeers(stage, { name: MODEL, upstreamPort: stream })
      const job = { body: shortChat(MODEL, true), expects: { kind: 'stream', words: STREAM_WORDS } } as const
      const besideBerth = new Map([[BERTH, { PostgreSQL: berth.server.postgresPid }]])
      const measured = await compareSides({
        sides: [berth, nginx, node, ...peers.sides, directSide(stream)],
        load,
        jobOf: () => ({ ...job, connections: STREAMS }),
        roundMs: ROUND_MS,
        beside: new Map([...peers.beside, ...besideBerth]),
      })
      const busy = await compareSides({
        sides: [berth],
        load,
        jobOf: () => ({ ...job, connections: BUSY_STREAMS }),
        roundMs: ROUND_MS,
        beside: besideBerth,
      })
      const answered = load.answeredFrom(berth.port)
      const costOf = (words: number): number => INPUT_TOKENS * INPUT_NANO + words * OUTPUT_NANO
      const costs = { [MODEL]: costOf(STREAM_WORDS), [QUIET_MODEL]: costOf(SLOW_STREAM_WORDS) }
      const inLedger = await checkLedger(berth, answered, costs)
      await peers.check(load, costs)
      const of = (name: string) => measured.get(name)
      const figures: Figure[] = [
        ratioFigure('CPU a stream: Berth to nginx', of(BERTH), of(NGINX), 'to reach: ≤ 2.5 ×'),
        ratioFigure('CPU a stream: Berth to the plain Node proxy', of(BERTH), of(PLAIN_PROXY), 'to reach: ≤ 0.9 ×'),
        ratioFigure('CPU a stream: Portkey to Berth', of(PORTKEY), of(BERTH)),
        addedFirstByte(of(BERTH), of(FLOOR)),
        {
          name: `Berth: memory of a stream, ${QUIET_STREAMS} at a time`,
          value: quietKb,
          unit: 'KB',
          against: 'to reach: < 40 KB',
        },
        ...[...measured.values()].flatMap((one) => [
          ...sideFigures(one, 'stream'),
          figureOf(`${one.side.name}: first token, median`, one.firstByteMs, 'ms'),
        ]),
        postgresFigure(STREAMS, of(BERTH)),
        postgresFigure(BUSY_STREAMS, busy.get(BERTH)),
        {
          name: 'Berth: streams in the ledger, each charged once',
          value: inLedger,
          unit: '',
          against: `${answered} were answered`,
        },
      ]
      return [...figures, ...peerFigures(peers, measured, 'stream')]
    }),
}

function postgresFigure(streams: number, berth: Measured | undefined): Figure {
  const name = `Berth: CPU of PostgreSQL a stream, ${streams} at a time`
  const rate = median(berth?.rates ?? []).toFixed(0)
  return figureOf(name, berth?.besideUs['PostgreSQL'] ?? [], 'µs', `${rate} streams a second; to reach: ≤ 15 µs`)
}

function addedFirstByte(berth: Measured | undefined, floor: Measured | undefined): Figure {
  const added = (floor?.firstByteMs ?? []).map((value, round) => (berth?.firstByteMs[round] ?? Number.NaN) - value)
  return {
    name: 'Berth: added to the first token, median',
    value: median(added),
    unit: 'ms',
    rounds: added,
    against: 'to reach: < 1 ms',
  }
}

/** The window in which all streams are open, have sent words and none has ended. */
async function measureQuietStreams(berth: BerthSide, load: LoadGenerator): Promise<number> {
  const job = { port: berth.port, headers: berth.headers }
  const words = { kind: 'stream', words: STREAM_WORDS } as const
  const slowWords = { kind: 'stream', words: SLOW_STREAM_WORDS } as const
  // A server's own warm-up, mainly compiled code, is not part of a stream's cost.
  await load.run({
    ...job,
    body: shortChat(MODEL, true),
    connections: STREAMS,
    durationMs: WARM_UP_MS,
    expects: words,
  })
  const before = await memoryNow(berth.pid)
  const streaming = load.run({
    ...job,
    body: shortChat(QUIET_MODEL, true),
    connections: QUIET_STREAMS,
    durationMs: SLOW_STREAM_WORDS * SLOW_STREAM_WORD_EVERY_MS,
    requestsPerConnection: 1,
    expects: slowWords,
  })
  const watched = await watchMemory(berth.pid, streaming)
  const endMs = (SLOW_STREAM_WORDS - 2) * SLOW_STREAM_WORD_EVERY_MS
  return ((memoryBetween(watched, endMs / 2, endMs) - before) * 1_024) / QUIET_STREAMS
}
