/** One-megabyte prompts: the cost of forwarding them, and proof that the server holds no second copy. */
import type { Bench } from '../harness.ts'
import { BERTH, checkLedger, INPUT_NANO, OUTPUT_NANO, startBerth, type BerthSide } from './berth.ts'
import { longChat, shortChat } from './chat-body.ts'
import { figureOf, ratioFigure, sideFigures } from './figures.ts'
import { startLoad, type LoadGenerator } from './load.ts'
import { memoryBetween, memoryNow, watchMemory } from './memory.ts'
import { startNginx } from './nginx.ts'
import { compareSides, ROUNDS } from './rounds.ts'
import { directSide } from './side.ts'
import { withAll } from './stage.ts'
import { HELD_MS, INPUT_TOKENS, PLAIN_OUTPUT_TOKENS } from './upstream-answer.ts'
import { startUpstream } from './upstream.ts'

const BODY_BYTES = 1_000_000
const CONNECTIONS = 8
const HELD_AT_ONCE = 64
const MODEL = 'bench'
const HELD_MODEL = 'bench-held'
const WARM_UP_MS = 2_000
const WARM_UP_CONNECTIONS = 32
/** By this time all bodies have been read and forwarded; nothing more arrives after the responses start. */
const HELD_FROM_MS = HELD_MS / 2
const HELD_TO_MS = HELD_MS - 200

const BUFFERED = 'nginx, request buffering on (its default)'
const UNBUFFERED = 'nginx, request buffering off'

export const gatewayLongPrompt: Bench = {
  name: 'gateway-long-prompt',
  about: `bodies of ${BODY_BYTES / 1e6} MB, ${CONNECTIONS} connections, medians of ${ROUNDS} rounds; memory of ${HELD_AT_ONCE}`,
  run: () =>
    withAll(async (stage) => {
      const upstream = await stage.add(startUpstream())
      const load = await stage.add(startLoad())
      const { plain, held } = upstream.ports
      const berth = await stage.add(
        startBerth([
          { name: MODEL, upstreamPort: plain },
          { name: HELD_MODEL, upstreamPort: held },
        ]),
      )
      const memory = await measureHeldPrompts(berth, load)
      const buffered = await stage.add(startNginx({ name: BUFFERED, upstreamPort: plain }))
      const unbuffered = await stage.add(
        startNginx({ name: UNBUFFERED, upstreamPort: plain, directives: ['proxy_request_buffering off;'] }),
      )
      const body = longChat(MODEL, BODY_BYTES)
      const measured = await compareSides({
        sides: [berth, buffered, unbuffered, directSide(plain)],
        load,
        jobOf: () => ({ body, connections: CONNECTIONS, expects: { kind: 'plain' } }),
        beside: new Map([[BERTH, { PostgreSQL: berth.server.postgresPid }]]),
      })
      const answered = load.answeredFrom(berth.port)
      const cost = INPUT_TOKENS * INPUT_NANO + PLAIN_OUTPUT_TOKENS * OUTPUT_NANO
      const inLedger = await checkLedger(berth, answered, { [MODEL]: cost, [HELD_MODEL]: cost })
      const of = (name: string) => measured.get(name)
      return [
        ratioFigure(`CPU a request: Berth to ${BUFFERED}`, of(BERTH), of(BUFFERED), 'to reach: ≤ 3 ×'),
        ratioFigure(`CPU a request: Berth to ${UNBUFFERED}`, of(BERTH), of(UNBUFFERED), 'to reach: ≤ 3 ×'),
        {
          name: `Berth: memory of a request that waits, ${HELD_AT_ONCE} at a time`,
          value: memory.heldMb,
          unit: 'MB',
          against: `to reach: ≤ 1.5 MB, for a body of ${BODY_BYTES / 1e6} MB is held once`,
        },
        { name: 'Berth: the same at its peak, while bodies come in', value: memory.peakMb, unit: 'MB' },
        ...[...measured.values()].flatMap((one) => sideFigures(one, 'request')),
        figureOf('Berth: CPU of PostgreSQL a request', of(BERTH)?.besideUs['PostgreSQL'] ?? [], 'µs'),
        {
          name: 'Berth: requests in the ledger, each charged once',
          value: inLedger,
          unit: '',
          against: `${answered} were answered`,
        },
      ]
    }),
}

/** Measured before any long prompt has grown the server: memory it freed earlier would hide a second copy. */
async function measureHeldPrompts(berth: BerthSide, load: LoadGenerator): Promise<{ heldMb: number; peakMb: number }> {
  const job = { port: berth.port, headers: berth.headers, expects: { kind: 'plain' } } as const
  await load.run({ ...job, body: shortChat(MODEL), connections: WARM_UP_CONNECTIONS, durationMs: WARM_UP_MS })
  const before = await memoryNow(berth.pid)
  const holding = load.run({
    ...job,
    body: longChat(HELD_MODEL, BODY_BYTES),
    connections: HELD_AT_ONCE,
    durationMs: HELD_MS,
    requestsPerConnection: 1,
  })
  const watched = await watchMemory(berth.pid, holding)
  const perRequest = (mb: number): number => (mb - before) / HELD_AT_ONCE
  return {
    heldMb: perRequest(memoryBetween(watched, HELD_FROM_MS, HELD_TO_MS)),
    peakMb: perRequest(Math.max(...watched.samples)),
  }
}
