/**
 * A server under mixed load for minutes: answers, streams, disconnecting clients and a failing engine. Memory must stay
 * flat. `npm run bench -- soak --minutes=10`; not part of a plain `npm run bench`.
 */
import { residentMb, type Bench } from '../harness.ts'
import { checkLedger, startBerth, type BerthSide } from './berth.ts'
import { shortChat } from './chat-body.ts'
import { freePort, pause } from './child.ts'
import { openHeapProbe } from './heap-probe.ts'
import { startLoad, type Expectation, type LoadGenerator, type LoadResult } from './load.ts'
import { withAll } from './stage.ts'
import { STREAM_WORDS, type UpstreamKind } from './upstream-answer.ts'
import { startUpstream } from './upstream.ts'

const MINUTES = 10
const LOOK_EVERY_MS = 30_000
/** A short run takes as many samples in total. */
const LEAST_LOOKS = 20
/** Share of the run to ignore: compiled code, caches and heaps grow to their size. */
const WARM_UP_SHARE = 0.25
const HOUR_MS = 3_600_000

interface Mix {
  readonly name: string
  /** Named after its engine's behaviour. */
  readonly model: UpstreamKind
  readonly stream: boolean
  readonly connections: number
  readonly pauseMs: number
  readonly expects: Expectation
}

const mixes: readonly Mix[] = [
  { name: 'plain', model: 'plain', stream: false, connections: 8, pauseMs: 20, expects: { kind: 'plain' } },
  {
    name: 'streams',
    model: 'stream',
    stream: true,
    connections: 16,
    pauseMs: 50,
    expects: { kind: 'stream', words: STREAM_WORDS },
  },
  {
    name: 'cut by the client',
    model: 'slow-stream',
    stream: true,
    connections: 8,
    pauseMs: 50,
    expects: { kind: 'cut', afterMs: 60 },
  },
  { name: 'refused', model: 'failing', stream: false, connections: 4, pauseMs: 100, expects: { kind: 'refusal' } },
]

export const soak: Bench = {
  name: 'soak',
  about: `a mixed load for ${minutes()} min, and whether memory stays where it is`,
  run: () =>
    withAll(async (stage) => {
      const upstream = await stage.add(startUpstream())
      const load = await stage.add(startLoad())
      const inspector = await freePort()
      const berth = await stage.add(
        startBerth(
          mixes.map(({ model }) => ({ name: model, upstreamPort: upstream.ports[model] })),
          { NODE_OPTIONS: `--inspect=127.0.0.1:${inspector}` },
        ),
      )
      const durationMs = minutes() * 60_000
      const loading = Promise.all(mixes.map((mix) => runMix(mix, berth, load, durationMs)))
      const looks = await lookAtMemory(berth.pid, inspector, durationMs, loading)
      const results = await loading
      const isAnswered = (n: number): boolean => ['plain', 'stream'].includes(mixes[n]?.expects.kind ?? '')
      const answered = results.reduce((sum, result, n) => sum + (isAnswered(n) ? result.answered : 0), 0)
      await checkLedger(berth, answered, {})
      const warm = looks.filter(({ atMs }) => atMs >= durationMs * WARM_UP_SHARE)
      const last = looks.at(-1)
      return [
        ...mixes.map(({ name }, n) => ({ name: `requests, ${name}`, value: results[n]?.answered ?? 0, unit: '' })),
        { name: 'resident memory at the end', value: last?.residentMb ?? Number.NaN, unit: 'MB' },
        { name: 'resident memory, growth after warm-up', value: slopeOf(warm, 'residentMb'), unit: 'MB/h' },
        { name: 'heap in use at the end', value: last?.heapMb ?? Number.NaN, unit: 'MB' },
        { name: 'heap in use, growth after warm-up', value: slopeOf(warm, 'heapMb'), unit: 'MB/h' },
      ]
    }),
}

/** `--minutes=N`, or BENCH_SOAK_MINUTES. */
function minutes(): number {
  const option = process.argv.find((arg) => arg.startsWith('--minutes='))?.slice('--minutes='.length)
  const given = Number.parseFloat(option ?? process.env['BENCH_SOAK_MINUTES'] ?? String(MINUTES))
  if (!(given > 0)) throw new Error('--minutes must be a number above zero')
  return given
}

function runMix(mix: Mix, berth: BerthSide, load: LoadGenerator, durationMs: number): Promise<LoadResult> {
  return load.run({
    port: berth.port,
    headers: berth.headers,
    body: shortChat(mix.model, mix.stream),
    connections: mix.connections,
    durationMs,
    pauseMs: mix.pauseMs,
    expects: mix.expects,
  })
}

interface Look {
  readonly atMs: number
  readonly residentMb: number
  readonly heapMb: number
}

/** Waits until the time is over or the load has failed. */
async function lookAtMemory(
  pid: number,
  inspector: number,
  durationMs: number,
  loading: Promise<unknown>,
): Promise<Look[]> {
  const probe = await openHeapProbe(inspector)
  const looks: Look[] = []
  const everyMs = Math.min(LOOK_EVERY_MS, durationMs / LEAST_LOOKS)
  const startedAt = performance.now()
  try {
    while (performance.now() - startedAt + everyMs <= durationMs) {
      // A wrong response ends the wait; the caller that awaits the load gets the error.
      await Promise.race([pause(everyMs), loading])
      const heapMb = await probe.heapMb()
      const look = { atMs: performance.now() - startedAt, residentMb: residentMb(pid), heapMb }
      looks.push(look)
      const at = `${(look.atMs / 60_000).toFixed(1).padStart(6)} min`
      console.error(`  ${at}  resident ${look.residentMb.toFixed(1)} MB  heap ${heapMb.toFixed(1)} MB`)
    }
  } finally {
    probe.close()
  }
  return looks
}

/** Least squares, in MB per hour. */
function slopeOf(looks: readonly Look[], what: 'residentMb' | 'heapMb'): number {
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
  const meanAt = mean(looks.map(({ atMs }) => atMs))
  const meanOf = mean(looks.map((look) => look[what]))
  const rise = looks.reduce((sum, look) => sum + (look.atMs - meanAt) * (look[what] - meanOf), 0)
  const run = looks.reduce((sum, { atMs }) => sum + (atMs - meanAt) ** 2, 0)
  return (rise / run) * HOUR_MS
}
