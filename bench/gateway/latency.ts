/**
 * Latency at a fixed rate, 70 % of what Berth can do on this machine: requests start on time whether or not earlier ones
 * have been answered, and their latency counts from then. What Berth can do is measured before each round: the speed of a
 * shared machine changes, and 70 % of one minute may be all of the next.
 */
import { median, type Bench, type Figure } from '../harness.ts'
import { BERTH, checkLedger, INPUT_NANO, OUTPUT_NANO, startBerth } from './berth.ts'
import { shortChat } from './chat-body.ts'
import { figureOf } from './figures.ts'
import { startLoad } from './load.ts'
import { startNginx } from './nginx.ts'
import { PLAIN_PROXY, startPlainProxy } from './plain-proxy.ts'
import { compareSides, ROUNDS } from './rounds.ts'
import { withAll } from './stage.ts'
import { INPUT_TOKENS, PLAIN_OUTPUT_TOKENS } from './upstream-answer.ts'
import { startUpstream } from './upstream.ts'

const CONNECTIONS = 32
const SHARE = 0.7
const WARM_UP_MS = 4_000
const SATURATION_MS = 2_000
const ROUND_MS = 5_000
const MODEL = 'bench'
const NGINX = 'nginx'

export const gatewayLatency: Bench = {
  name: 'gateway-latency',
  about: `latency at ${SHARE * 100} % of Berth's saturation, ${CONNECTIONS} connections, medians of ${ROUNDS} rounds`,
  run: () =>
    withAll(async (stage) => {
      const upstream = await stage.add(startUpstream())
      const load = await stage.add(startLoad())
      const { plain } = upstream.ports
      const berth = await stage.add(startBerth([{ name: MODEL, upstreamPort: plain }]))
      const nginx = await stage.add(startNginx({ name: NGINX, upstreamPort: plain }))
      const node = await stage.add(startPlainProxy(plain))
      const job = { body: shortChat(MODEL), connections: CONNECTIONS, expects: { kind: 'plain' } } as const
      const { port, host, headers } = berth
      const toBerth = { ...job, port, headers, ...(host === undefined ? {} : { host }) }
      await load.run({ ...toBerth, durationMs: WARM_UP_MS })
      const saturations: number[] = []
      let requestsPerSecond = 0
      const findRate = async (): Promise<void> => {
        const full = await load.run({ ...toBerth, durationMs: SATURATION_MS })
        const saturation = (full.answered * 1_000) / full.tookMs
        saturations.push(saturation)
        requestsPerSecond = Math.round(SHARE * saturation)
        await berth.rest?.()
      }
      const measured = await compareSides({
        sides: [berth, nginx, node],
        load,
        jobOf: () => ({ ...job, requestsPerSecond }),
        roundMs: ROUND_MS,
        beforeRound: findRate,
      })
      const cost = INPUT_TOKENS * INPUT_NANO + PLAIN_OUTPUT_TOKENS * OUTPUT_NANO
      const inLedger = await checkLedger(berth, load.answeredFrom(berth.port), { [MODEL]: cost })
      const slowest = (name: string): readonly number[] => measured.get(name)?.p99Ms ?? []
      const ratio = (other: string, goal?: string): Figure =>
        figureOf(
          `latency, 99 of 100: Berth to ${other}`,
          slowest(BERTH).map((ms, round) => ms / (slowest(other)[round] ?? Number.NaN)),
          '×',
          goal,
        )
      return [
        ratio(NGINX, 'to reach: ≤ 3 ×'),
        ratio(PLAIN_PROXY),
        figureOf('Berth: saturation', saturations, '/s'),
        ...[...measured.values()].flatMap(({ side, rates, p50Ms, p99Ms }): Figure[] => [
          figureOf(`${side.name}: requests a second`, rates, '/s'),
          figureOf(`${side.name}: latency, median`, p50Ms, 'ms'),
          figureOf(`${side.name}: latency, 99 of 100`, p99Ms, 'ms', `${median(rates).toFixed(0)} requests a second`),
        ]),
        {
          name: 'Berth: requests in the ledger, each charged once',
          value: inLedger,
          unit: '',
          against: 'all answered',
        },
      ]
    }),
}
