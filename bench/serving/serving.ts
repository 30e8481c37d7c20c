/**
 * What the managed path costs: client → gateway → connection of the agent → container on a Docker host, against asking
 * the same engine on that host directly, and against the same gateway without the agent's connection. Plain and streamed.
 */
import { median, readKey, type Bench, type Figure } from '../harness.ts'
import {
  ask,
  BERTH,
  checkLedger,
  INPUT_NANO,
  offerModel,
  OUTPUT_NANO,
  prices,
  startBerth,
  untilServed,
  type BerthSide,
} from '../gateway/berth.ts'
import { shortChat } from '../gateway/chat-body.ts'
import { figureOf, sideFigures } from '../gateway/figures.ts'
import { startLoad, type LoadGenerator } from '../gateway/load.ts'
import { compareSides, type Measured } from '../gateway/rounds.ts'
import { plainHeaders, type Side } from '../gateway/side.ts'
import { withAll } from '../gateway/stage.ts'
import { INPUT_TOKENS, PLAIN_OUTPUT_TOKENS, STREAM_WORD_EVERY_MS, STREAM_WORDS } from '../gateway/upstream-answer.ts'
import { whyNoDockerLab } from '../../test/lab/docker-lab.ts'
import { relayPorts } from '../../test/harness/own-port.ts'
import { waitFor } from '../../test/harness/wait.ts'
import { pushEngine, startAgent, startDocker, startUnmanaged } from './docker-host.ts'

const CONNECTIONS = 32
const PORT = 8_000
const MANAGED = 'managed'
const NAMED = 'named'
/** The same gateway, with the engine's address in place of the agent's connection. */
const WITHOUT_AGENT = 'Berth without the agent'
const DIRECT = 'direct to the engine'
const READY_WITHIN_MS = 120_000
const STREAM_ROUND_MS = 5_000

export const serving: Bench = {
  name: 'serving',
  about: `a replica on a Docker host against the same engine asked directly: one and ${CONNECTIONS} requests at a time, and ${CONNECTIONS} streams of ${STREAM_WORDS} chunks over ${STREAM_WORDS * STREAM_WORD_EVERY_MS} ms`,
  run: () => {
    const why = whyNoDockerLab()
    if (why !== undefined) throw new Error(`no Docker host here: ${why}`)
    return withAll(async (stage) => {
      const docker = await stage.add(startDocker())
      const image = await pushEngine(docker.registry)
      const berth = await stage.add(
        startBerth([], {
          BERTH_HOST: docker.network.bridgeAddress,
          BERTH_DRIVERS: 'host',
          BERTH_SELL_SIMULATED: 'true',
          BERTH_RELAY_PORTS: relayPorts(),
        }),
      )
      const operatorKey = readKey(berth.server, 'operator')
      const { token } = (await ask(berth.server, operatorKey, 'POST', '/v2/supply/join-tokens', {})) as {
        token: string
      }
      const agent = await stage.add(startAgent(docker, berth.server.url, token))
      const started = await deploy(berth, operatorKey, image)
      const address = await startUnmanaged(docker, image, PORT)
      await offerModel(berth.server, operatorKey, { name: NAMED, upstreamPort: PORT, upstreamHost: address })
      const key = berth.headers['Authorization']?.slice('Bearer '.length) ?? ''
      await untilServed(berth.server, key, [{ name: MANAGED }, { name: NAMED }])
      const load = await stage.add(startLoad())
      const compare = (kind: 'plain' | 'stream', connections: number): Promise<Map<string, Measured>> =>
        measure({ berth, agentPid: agent.pid, address, load, kind, connections })
      const single = await compare('plain', 1)
      const plain = await compare('plain', CONNECTIONS)
      const cost = INPUT_TOKENS * INPUT_NANO + PLAIN_OUTPUT_TOKENS * OUTPUT_NANO
      await checkLedger(berth, load.answeredFrom(berth.port), { [MANAGED]: cost, [NAMED]: cost })
      const streams = await compare('stream', CONNECTIONS)
      const answered = load.answeredFrom(berth.port)
      // Plain answers and streams have different costs, so only the sums are compared now.
      const inLedger = await checkLedger(berth, answered, {})
      return [
        ...started,
        ...added('one request at a time', single),
        ...figuresOf(plain, 'request'),
        ...figuresOf(streams, 'stream'),
        { name: 'requests in the ledger', value: inLedger, unit: '', against: `${answered} were answered` },
      ]
    })
  },
}

interface ReplicaShown {
  readonly state: string
  readonly coldStart: Readonly<
    Record<'claimSeconds' | 'pullSeconds' | 'loadSeconds' | 'firstTokenSeconds', number | null>
  >
}

/** Returns the time until it was ready, and its parts as Berth gives them. */
async function deploy(berth: BerthSide, operatorKey: string, image: object): Promise<Figure[]> {
  const { server } = berth
  await waitFor(
    'the host to be on sale',
    async () => {
      const reply = await ask(server, operatorKey, 'GET', '/v2/operator/machines')
      return JSON.stringify(reply).includes('"bench-1"')
    },
    READY_WITHIN_MS,
  )
  const startedAt = performance.now()
  const made = (await ask(server, operatorKey, 'POST', '/v2/deployments', {
    model: MANAGED,
    forEveryone: true,
    recipe: { name: 'custom', image, port: PORT, concurrency: 10_000, env: { PORT: String(PORT) } },
    gpus: { count: 1 },
    replicas: { min: 1, max: 1 },
    hourlyBudgetUsd: '10.00',
  })) as { id: string }
  await ask(server, operatorKey, 'PATCH', `/v2/operator/models?name=${MANAGED}`, prices)
  let shown: unknown
  let ready: ReplicaShown | undefined
  await waitFor(
    () => `the replica to answer: ${JSON.stringify(shown)}`,
    async () => {
      shown = await ask(server, operatorKey, 'GET', `/v2/deployments/${made.id}`)
      ready = (shown as { replicas: readonly ReplicaShown[] }).replicas.find(({ state }) => state === 'ready')
      return ready !== undefined
    },
    READY_WITHIN_MS,
  )
  const parts = Object.entries(ready?.coldStart ?? {})
  return [
    {
      name: 'from the order to the first answer',
      value: (performance.now() - startedAt) / 1_000,
      unit: 's',
      against: parts.map(([part, seconds]) => `${part.replace('Seconds', '')} ${seconds ?? '?'} s`).join(', '),
    },
  ]
}

interface Measuring {
  readonly berth: BerthSide
  readonly agentPid: number
  readonly address: string
  readonly load: LoadGenerator
  readonly kind: 'plain' | 'stream'
  readonly connections: number
}

function measure({ berth, agentPid, address, load, kind, connections }: Measuring): Promise<Map<string, Measured>> {
  const isStream = kind === 'stream'
  const direct: Side = {
    name: DIRECT,
    host: address,
    port: PORT,
    pid: undefined,
    headers: plainHeaders,
    stop: async () => {},
  }
  return compareSides({
    sides: [berth, direct, { ...berth, name: WITHOUT_AGENT }],
    load,
    jobOf: ({ name }) => ({
      body: shortChat(name === BERTH ? MANAGED : NAMED, isStream),
      connections,
      expects: isStream ? { kind: 'stream', words: STREAM_WORDS } : { kind: 'plain' },
    }),
    ...(isStream ? { roundMs: STREAM_ROUND_MS } : {}),
    beside: new Map([
      [BERTH, { 'the agent': agentPid, PostgreSQL: berth.server.postgresPid }],
      [WITHOUT_AGENT, { 'the agent': agentPid, PostgreSQL: berth.server.postgresPid }],
    ]),
  })
}

function figuresOf(measured: ReadonlyMap<string, Measured>, what: 'request' | 'stream'): Figure[] {
  const [managed, named, direct] = sidesOf(measured)
  const first = compared('streams: added to the median first token', managed.firstByteMs, direct.firstByteMs, 'added')
  return [
    compared(`${what}s per second: managed to direct`, managed.rates, direct.rates, 'ratio'),
    compared(`${what}s per second: managed to Berth without the agent`, managed.rates, named.rates, 'ratio'),
    ...added(`${CONNECTIONS} ${what}s at a time`, measured),
    ...(what === 'stream' ? [first] : []),
    ...[managed, named].flatMap((one) => [
      ...sideFigures(one, what),
      ...Object.entries(one.besideUs).map(([name, us]) =>
        figureOf(`${one.side.name}: CPU of ${name} per ${what}`, us, 'µs'),
      ),
    ]),
    ...sideFigures(direct, what),
  ]
}

/** Latency of the whole path, and of the agent's connection alone. */
function added(name: string, measured: ReadonlyMap<string, Measured>): Figure[] {
  const [managed, named, direct] = sidesOf(measured)
  return [
    compared(`${name}: added to the median latency`, managed.p50Ms, direct.p50Ms, 'added'),
    compared(`${name}: added by the agent's connection`, managed.p50Ms, named.p50Ms, 'added'),
    compared(`${name}: added to the 99th percentile`, managed.p99Ms, direct.p99Ms, 'added'),
  ]
}

function sidesOf(measured: ReadonlyMap<string, Measured>): [managed: Measured, named: Measured, direct: Measured] {
  const of = (name: string): Measured => {
    const found = measured.get(name)
    if (found === undefined) throw new Error(`${name} was not measured`)
    return found
  }
  return [of(BERTH), of(WITHOUT_AGENT), of(DIRECT)]
}

/** Round by round, so that noise hits both alike. */
function compared(name: string, one: readonly number[], other: readonly number[], how: 'ratio' | 'added'): Figure {
  const rounds = one.map((value, n) => {
    const base = other[n] ?? Number.NaN
    return how === 'ratio' ? value / base : value - base
  })
  return { name, value: median(rounds), unit: how === 'ratio' ? '×' : 'ms', rounds }
}
