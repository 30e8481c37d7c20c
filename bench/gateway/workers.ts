/**
 * Chats answered by one process and by two workers, each with the CPU time of as many cores: the server and its workers
 * together get two fifths of a core for each, so that both sides are the bottleneck and the load generator never is.
 */
import { limitCpu, type CpuQuota } from '../cpu-quota.ts'
import { median, type Bench, type Figure } from '../harness.ts'
import { BERTH, checkLedger, INPUT_NANO, OUTPUT_NANO, startBerth, type BerthSide } from './berth.ts'
import { shortChat } from './chat-body.ts'
import { figureOf, missingFigure, sideFigures } from './figures.ts'
import { startLoad } from './load.ts'
import { compareSides } from './rounds.ts'
import { withAll } from './stage.ts'
import { INPUT_TOKENS, PLAIN_OUTPUT_TOKENS } from './upstream-answer.ts'
import { startUpstream } from './upstream.ts'

const WORKERS = 2
const CORE = 0.4
const CONNECTIONS = 32
const ROUND_MS = 6_000
/** Without limits: compiled code takes many requests. */
const WARM_UP_MS = 8_000
const MODEL = 'bench'
const ONE = `${BERTH}, one process`
const SEVERAL = `${BERTH}, ${WORKERS} workers`
const GOAL = 0.85 * WORKERS

export const gatewayWorkers: Bench = {
  name: 'gateway-workers',
  about: `chats of one process and of ${WORKERS} workers, each side with ${CORE} cores a process`,
  run: () =>
    withAll(async (stage) => {
      const upstream = await stage.add(startUpstream())
      const load = await stage.add(startLoad())
      const models = [{ name: MODEL, upstreamPort: upstream.ports.plain }]
      const one = await stage.add(startBerth(models, {}, { name: ONE }))
      const several = await stage.add(startBerth(models, { BERTH_WORKERS: String(WORKERS) }, { name: SEVERAL }))
      const job = { body: shortChat(MODEL), connections: CONNECTIONS, expects: { kind: 'plain' } } as const
      for (const { port, host, headers } of [one, several]) {
        await load.run({ ...job, port, headers, ...(host === undefined ? {} : { host }), durationMs: WARM_UP_MS })
      }
      const quotas: CpuQuota[] = []
      try {
        for (const [side, cores] of [[one, CORE] as const, [several, WORKERS * CORE] as const]) {
          const quota = limitCpu(side.pid)
          if (quota === undefined) return [missingFigure({ name: SEVERAL, missing: 'needs root and control groups' })]
          quotas.push(quota)
          quota.set(cores)
        }
        const measured = await compareSides({
          sides: [one, several],
          load,
          jobOf: () => job,
          roundMs: ROUND_MS,
          beside: new Map([one, several].map((side) => [side.name, { PostgreSQL: side.server.postgresPid }])),
        })
        for (const quota of quotas.splice(0)) quota.remove()
        const cost = INPUT_TOKENS * INPUT_NANO + PLAIN_OUTPUT_TOKENS * OUTPUT_NANO
        const check = (side: BerthSide): Promise<number> =>
          checkLedger(side, load.answeredFrom(side.port), { [MODEL]: cost })
        const inLedger = (await check(one)) + (await check(several))
        const ratesOf = (name: string): readonly number[] => measured.get(name)?.rates ?? []
        const base = median(ratesOf(ONE))
        const figures: Figure[] = [
          figureOf(
            `throughput: ${WORKERS} workers to one process`,
            ratesOf(SEVERAL).map((rate) => rate / base),
            '×',
            `to reach: ≥ ${GOAL} ×`,
          ),
          ...[...measured.values()].flatMap((side) => sideFigures(side, 'request')),
          { name: 'requests in both ledgers, each charged once', value: inLedger, unit: '', against: 'all answered' },
        ]
        return figures
      } finally {
        for (const quota of quotas) quota.remove()
      }
    }),
}
