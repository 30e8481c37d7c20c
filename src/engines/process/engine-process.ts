/**
 * Keeps one engine running: prepares its files, starts it, checks its health, and restarts it with backoff when it
 * exits or stops responding. An engine is native code under load, so crashes happen; they must be noticed at once,
 * reported, and short.
 */
import fs from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { Result } from '../../contract/result.ts'
import { isHealthy, startEngineChild, type EngineChild, type EngineCommand } from './engine-child.ts'
import type { EngineFacts, LocalState } from './local-engine.ts'
import type { ModelLog } from '../../artifacts/log.ts'
import { watchSilence } from '../../artifacts/download/silence.ts'
import type { Turns } from './turns.ts'

export interface EngineLimits {
  /** The delay after the first failure; it doubles each time, up to the longest. */
  readonly restartMs: number
  readonly maxRestartMs: number
  /** A run of this length resets the count of failures. */
  readonly goodRunMs: number
  /** The delay after a failure that a retry cannot fix (a wrong digest, a full disk). */
  readonly permanentFailureRetryMs: number
  /** An engine without output for this long while loading has hung. */
  readonly loadSilenceMs: number
  readonly healthEveryMs: number
  readonly healthTimeoutMs: number
  /** An engine that fails its health checks for this long is restarted. */
  readonly unhealthyMs: number
  /** Between SIGTERM and SIGKILL. */
  readonly stopMs: number
}

export const defaultEngineLimits: EngineLimits = {
  restartMs: 1_000,
  maxRestartMs: 60_000,
  goodRunMs: 300_000,
  permanentFailureRetryMs: 900_000,
  loadSilenceMs: 600_000,
  healthEveryMs: 5_000,
  healthTimeoutMs: 10_000,
  unhealthyMs: 60_000,
  stopMs: 5_000,
}

export interface EngineProcessOptions {
  readonly model: string
  readonly command: EngineCommand
  readonly socketPath: string
  /** Starts only after this. */
  readonly after: Promise<unknown>
  /** Builds the engine's configuration; called before each start, since files may be gone. */
  readonly prepare: (signal: AbortSignal) => Promise<Result<object>>
  /** Loading uses the whole machine. */
  readonly loadTurns: Turns
  readonly limits: EngineLimits
  readonly log: ModelLog
  readonly onState: (state: LocalState) => void
  readonly onCrash: (model: string, why: string) => void
}

export interface EngineProcess {
  /** Resolves when the process has exited. No state is reported after the call. */
  stop(): Promise<void>
}

/** The outcome of one run. */
interface RunEnd {
  readonly why: string
  readonly isCrash: boolean
  /** A quick retry cannot help. */
  readonly isHopeless: boolean
  readonly ranMs: number
}

export function superviseEngine(options: EngineProcessOptions): EngineProcess {
  const { model, limits, log } = options
  const controller = new AbortController()
  const { signal } = controller
  const report = (state: LocalState): void => {
    if (!signal.aborted) options.onState(state)
  }

  const supervise = async (): Promise<void> => {
    await options.after.catch(() => {})
    for (let failures = 0; !signal.aborted;) {
      const end = await runOnce(options, signal, report).catch(unexpectedEnd)
      if (signal.aborted) return
      failures = end.ranMs >= limits.goodRunMs ? 1 : failures + 1
      const soonMs = Math.min(limits.restartMs * 2 ** (failures - 1), limits.maxRestartMs)
      const retryInMs = end.isHopeless ? limits.permanentFailureRetryMs : soonMs
      log.warn({ model, why: end.why, retryInMs }, 'an engine is not running; restarting it')
      report({ kind: 'failed', message: end.why, retryInMs })
      if (end.isCrash) reportCrash(options, end.why)
      await delay(retryInMs, undefined, { signal }).catch(() => {})
    }
  }
  const over = supervise()
  return {
    stop: () => {
      controller.abort()
      return over
    },
  }
}

async function runOnce(
  options: EngineProcessOptions,
  signal: AbortSignal,
  report: (state: LocalState) => void,
): Promise<RunEnd> {
  const { model, limits, log, socketPath } = options
  const config = await options.prepare(signal)
  if (!config.ok) {
    const isHopeless = config.kind === 'invalid' || config.kind === 'no_capacity'
    return { why: config.message, isCrash: false, isHopeless, ranMs: 0 }
  }
  report({ kind: 'loading' })
  const endTurn = await options.loadTurns.take(signal)
  if (endTurn === undefined) return stopped
  const begunAt = performance.now()
  try {
    await fs.rm(socketPath, { force: true })
    const started = await load(options, config.value, signal)
    if ('why' in started) return started
    endTurn()
    const readyAt = performance.now()
    const loadMs = Math.round(readyAt - begunAt)
    log.info({ model, pid: started.child.pid, loadMs, ...started.facts }, 'engine ready')
    report({ kind: 'ready', socketPath, facts: started.facts })
    const why = await watch(started.child, options, signal)
    await started.child.end(signal.aborted ? limits.stopMs : 0)
    return { why, isCrash: true, isHopeless: false, ranMs: performance.now() - readyAt }
  } finally {
    endTurn()
    await fs.rm(socketPath, { force: true })
  }
}

const stopped: RunEnd = { why: 'The engine was stopped', isCrash: false, isHopeless: false, ranMs: 0 }

/** Starts the process and waits until it is ready or has failed. */
async function load(
  options: EngineProcessOptions,
  config: object,
  signal: AbortSignal,
): Promise<{ child: EngineChild; facts: EngineFacts } | RunEnd> {
  const { model, command, limits, log } = options
  const silence = watchSilence(limits.loadSilenceMs, signal)
  let resolveStart: (startup: { facts: EngineFacts } | { why: string }) => void = () => {}
  const startup = new Promise<{ facts: EngineFacts } | { why: string }>((resolve) => (resolveStart = resolve))
  const child = startEngineChild({
    model,
    command,
    config,
    log,
    onLine: (line) => {
      silence.touch()
      if (line.event === 'ready') {
        const { contextTokens, concurrency, supportsTools } = line
        resolveStart({ facts: { contextTokens, concurrency, supportsTools } })
      }
      if (line.event === 'failed') resolveStart({ why: `The engine failed: ${line.message}` })
    },
  })
  const outcome = await Promise.race([
    startup,
    child.exited.then((why) => ({ why })),
    fired(silence.signal).then(() => ({
      why: `The engine made no progress for ${limits.loadSilenceMs / 1_000} s while loading`,
    })),
  ])
  silence.close()
  if ('facts' in outcome) return { child, facts: outcome.facts }
  await child.end(signal.aborted ? limits.stopMs : 0)
  return { why: outcome.why, isCrash: true, isHopeless: false, ranMs: 0 }
}

/** Waits until it exits or must be stopped, and returns the reason. */
async function watch(child: EngineChild, options: EngineProcessOptions, signal: AbortSignal): Promise<string> {
  const over = new AbortController()
  const stop = (): void => over.abort()
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  const why = await Promise.race([
    child.exited,
    watchHealth(options.socketPath, options.limits, over.signal),
    fired(over.signal).then(() => stopped.why),
  ])
  // The outer signal lives as long as the supervision: remove our listener.
  signal.removeEventListener('abort', stop)
  stop()
  return why
}

async function watchHealth(socketPath: string, limits: EngineLimits, signal: AbortSignal): Promise<string> {
  let answeredAt = performance.now()
  while (!signal.aborted) {
    await delay(limits.healthEveryMs, undefined, { signal }).catch(() => {})
    if (await isHealthy(socketPath, limits.healthTimeoutMs)) answeredAt = performance.now()
    else if (performance.now() - answeredAt >= limits.unhealthyMs) {
      return `The engine did not respond for ${limits.unhealthyMs / 1_000} s`
    }
  }
  return stopped.why
}

function fired(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

function reportCrash({ model, log, onCrash }: EngineProcessOptions, why: string): void {
  try {
    onCrash(model, why)
  } catch (error) {
    log.warn({ model, err: error }, 'the crash listener failed')
  }
}

/** A bug or a broken disk must not end the supervision. */
function unexpectedEnd(error: unknown): RunEnd {
  const why = error instanceof Error ? error.message : String(error)
  return { why, isCrash: false, isHopeless: false, ranMs: 0 }
}
