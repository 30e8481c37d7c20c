/**
 * Plain chat completions through each proxy: key, model, money, meter and a durable record compared with bare
 * forwarding.
 */
import type { Bench, Figure } from '../harness.ts'
import { BERTH, checkLedger, INPUT_NANO, OUTPUT_NANO, startBerth } from './berth.ts'
import { shortChat } from './chat-body.ts'
import { figureOf, ratioFigure, sideFigures } from './figures.ts'
import { startLoad } from './load.ts'
import { startNginx } from './nginx.ts'
import { peerFigures, startPeers } from './peers.ts'
import { PLAIN_PROXY, startPlainProxy } from './plain-proxy.ts'
import { PORTKEY } from './portkey.ts'
import { compareSides, ROUNDS } from './rounds.ts'
import { directSide } from './side.ts'
import { withAll } from './stage.ts'
import { INPUT_TOKENS, PLAIN_ANSWER_BYTES, PLAIN_OUTPUT_TOKENS } from './upstream-answer.ts'
import { startUpstream } from './upstream.ts'

const CONNECTIONS = 32
const MODEL = 'bench'
const NGINX = 'nginx'

export const gatewayPlain: Bench = {
  name: 'gateway-plain',
  about: `chat completions of ${PLAIN_ANSWER_BYTES} B, ${CONNECTIONS} connections, medians of ${ROUNDS} rounds`,
  run: () =>
    withAll(async (stage) => {
      const upstream = await stage.add(startUpstream())
      const load = await stage.add(startLoad())
      const { plain } = upstream.ports
      const berth = await stage.add(startBerth([{ name: MODEL, upstreamPort: plain }]))
      const nginx = await stage.add(startNginx({ name: NGINX, upstreamPort: plain }))
      const node = await stage.add(startPlainProxy(plain))
      const peers = await startPeers(stage, { name: MODEL, upstreamPort: plain })
      const measured = await compareSides({
        sides: [berth, nginx, node, ...peers.sides, directSide(plain)],
        load,
        jobOf: () => ({ body: shortChat(MODEL), connections: CONNECTIONS, expects: { kind: 'plain' } }),
        beside: new Map([...peers.beside, [BERTH, { PostgreSQL: berth.server.postgresPid }]]),
      })
      const answered = load.answeredFrom(berth.port)
      const cost = INPUT_TOKENS * INPUT_NANO + PLAIN_OUTPUT_TOKENS * OUTPUT_NANO
      const inLedger = await checkLedger(berth, answered, { [MODEL]: cost })
      await peers.check(load, { [MODEL]: cost })
      const of = (name: string) => measured.get(name)
      const figures: Figure[] = [
        ratioFigure('CPU a request: Berth to nginx', of(BERTH), of(NGINX), 'to reach: ≤ 5 ×'),
        ratioFigure('CPU a request: Berth to the plain Node proxy', of(BERTH), of(PLAIN_PROXY), 'to reach: ≤ 1 ×'),
        ratioFigure('CPU a request: Portkey to Berth', of(PORTKEY), of(BERTH), 'to reach: ≥ 20 ×'),
        ...[...measured.values()].flatMap((one) => sideFigures(one, 'request')),
        figureOf(
          'Berth: CPU of PostgreSQL a request',
          of(BERTH)?.besideUs['PostgreSQL'] ?? [],
          'µs',
          'to reach: ≤ 10 µs',
        ),
        {
          name: 'Berth: requests in the ledger, each charged once',
          value: inLedger,
          unit: '',
          against: `${answered} were answered`,
        },
      ]
      return [...figures, ...peerFigures(peers, measured, 'request')]
    }),
}
