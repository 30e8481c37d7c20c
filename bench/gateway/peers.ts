/** The proxies that a gateway bench compares Berth with, and Berth itself on another Node. What is missing is reported. */
import type { Figure } from '../harness.ts'
import { BERTH, checkLedger, startBerth, type BenchModel, type BerthSide, type ExpectedCosts } from './berth.ts'
import { missingFigure, ratioFigure } from './figures.ts'
import { GO_PROXY, startGoProxy } from './go-proxy.ts'
import { LITELLM, startLiteLlm } from './litellm.ts'
import type { LoadGenerator } from './load.ts'
import { findNode24, NODE_24 } from './node24.ts'
import { PLAIN_PROXY, startPlainProxy } from './plain-proxy.ts'
import { startPortkey } from './portkey.ts'
import type { Measured } from './rounds.ts'
import { DISTANT_ROUNDS, type MissingSide, type Side } from './side.ts'
import type { Stage } from './stage.ts'

const BERTH_24 = `${BERTH}, ${NODE_24}`
const PLAIN_24 = `${PLAIN_PROXY}, ${NODE_24}`

export interface Peers {
  readonly sides: readonly Side[]
  /** Processes that work for a side, as `compareSides` takes them. */
  readonly beside: ReadonlyMap<string, Readonly<Record<string, number>>>
  readonly missing: readonly MissingSide[]
  /** Throws unless the ledger of Berth on the other Node has each answered request once. */
  check(load: LoadGenerator, costs: ExpectedCosts): Promise<void>
}

export async function startPeers(stage: Stage, model: BenchModel): Promise<Peers> {
  const { upstreamPort: port, name } = model
  const found = [await startPortkey(port), await startLiteLlm(port, name), await startGoProxy(port)]
  const sides: Side[] = found.flatMap((one) => ('port' in one ? [{ ...one, rounds: DISTANT_ROUNDS }] : []))
  for (const side of sides) await stage.add(Promise.resolve(side))
  const missing = found.filter((one) => 'missing' in one)
  const node = await findNode24()
  let berth: BerthSide | undefined
  if ('missing' in node) {
    missing.push({ name: BERTH_24, missing: node.missing }, { name: PLAIN_24, missing: node.missing })
  } else {
    berth = await stage.add(startBerth([model], {}, { name: BERTH_24, program: node.program }))
    sides.push(berth, await stage.add(startPlainProxy(port, { name: PLAIN_24, program: node.program })))
  }
  for (const one of missing) console.error(`  NOT MEASURED: ${one.name}: ${one.missing}`)
  return {
    sides,
    missing,
    beside: new Map(berth === undefined ? [] : [[berth.name, { PostgreSQL: berth.server.postgresPid }]]),
    check: async (load, costs) => {
      if (berth !== undefined) await checkLedger(berth, load.answeredFrom(berth.port), costs)
    },
  }
}

/** Ratios of CPU, and a row for each side that is missing. */
export function peerFigures({ missing }: Peers, measured: ReadonlyMap<string, Measured>, what: string): Figure[] {
  const of = (name: string) => measured.get(name)
  const ratio = (name: string, one: string, other: string): Figure[] =>
    of(one) === undefined || of(other) === undefined ? [] : [ratioFigure(`CPU a ${what}: ${name}`, of(one), of(other))]
  return [
    ...ratio('LiteLLM to Berth', LITELLM, BERTH),
    ...ratio('Berth to the Go reverse proxy', BERTH, GO_PROXY),
    ...ratio(`Berth to itself on ${NODE_24}`, BERTH, BERTH_24),
    ...ratio(`Berth to the plain Node proxy, both on ${NODE_24}`, BERTH_24, PLAIN_24),
    ...missing.map(missingFigure),
  ]
}
