/**
 * The load generator: one process that sends all requests to every side. A wrong response of Berth fails the whole bench;
 * those of a peer are counted and shown.
 */
import { startChild } from './child.ts'
import type { StreamProtocol } from './upstream-answer.ts'

/** Closed loop, unless it has a rate: a connection sends its next request when the previous response has ended. */
export interface LoadJob {
  readonly port: number
  /** 127.0.0.1 by default. */
  readonly host?: string
  /** A chat by default. */
  readonly path?: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly connections: number
  /** Starts new requests for this long, then waits for those in flight. */
  readonly durationMs: number
  /** Requests per connection. undefined: as many as the time allows. */
  readonly requestsPerConnection?: number
  /**
   * Open loop: this many start each second, on a connection that is free, and one that finds none waits for it. Latency
   * counts from when a request was due.
   */
  readonly requestsPerSecond?: number
  /** Pause between a response and the next request. */
  readonly pauseMs?: number
  readonly expects: Expectation
  /** Whether wrong responses are counted; otherwise the first one fails the bench. */
  readonly countsFaults?: boolean
}

export type Expectation =
  | { readonly kind: 'plain' }
  /** Of a chat by default. */
  | { readonly kind: 'stream'; readonly words: number; readonly protocol?: StreamProtocol }
  /** The client disconnects mid-stream, some time after the first byte. */
  | { readonly kind: 'cut'; readonly afterMs: number }
  /** An error response. */
  | { readonly kind: 'refusal' }

export interface Percentiles {
  readonly p50: number
  readonly p99: number
}

export interface LoadResult {
  /** Complete and correct to the last byte; for `cut`, cut as intended. */
  readonly answered: number
  /** Time until the last one had ended. */
  readonly tookMs: number
  readonly latencyMs: Percentiles
  /** Time to the first byte of the body. */
  readonly firstByteMs: Percentiles
  readonly faults: number
  /** The first error. */
  readonly faultTexts: readonly string[]
}

export interface LoadGenerator {
  readonly pid: number
  run(job: LoadJob): Promise<LoadResult>
  /** Responses from a port so far, across all jobs. */
  answeredFrom(port: number): number
  stop(): Promise<void>
}

export async function startLoad(): Promise<LoadGenerator> {
  const child = startChild('load-child.ts')
  if ((await child.nextLine()) !== 'ready') throw new Error('the load generator did not start')
  const answered = new Map<number, number>()
  const waiting = new Map<number, (result: LoadResult) => void>()
  let jobs = 0
  let ending: Error | undefined
  const failAll = new Set<(error: Error) => void>()
  const read = async (): Promise<void> => {
    for (;;) {
      const { id, result } = JSON.parse(await child.nextLine()) as { id: number; result: LoadResult }
      waiting.get(id)?.(result)
      waiting.delete(id)
    }
  }
  void read().catch((error: unknown) => {
    ending = error instanceof Error ? error : new Error(String(error))
    for (const reject of failAll) reject(ending)
  })

  return {
    pid: child.pid,
    run: async (job) => {
      if (ending !== undefined) throw ending
      jobs += 1
      const id = jobs
      const result = await new Promise<LoadResult>((resolve, reject) => {
        failAll.add(reject)
        waiting.set(id, (done) => {
          failAll.delete(reject)
          resolve(done)
        })
        child.send(JSON.stringify({ id, job }))
      })
      answered.set(job.port, (answered.get(job.port) ?? 0) + result.answered)
      return checkResult(job, result)
    },
    answeredFrom: (port) => answered.get(port) ?? 0,
    stop: () => child.stop(),
  }
}

/** A side without a right answer cannot be measured, whoever it is. */
export function checkResult(job: Pick<LoadJob, 'port' | 'countsFaults'>, result: LoadResult): LoadResult {
  if (result.answered > 0 && (result.faults === 0 || job.countsFaults === true)) return result
  throw new Error(
    `${result.faults} wrong answers from port ${job.port}, ${result.answered} right ones:\n${result.faultTexts.join('\n')}`,
  )
}
