/**
 * The workers of a server: starts them, gives them connections, does for them what needs the database, and replaces one
 * that exits. The journal of a worker that was killed is settled at once, then its loans are free again.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import type { Instant } from '../../base/instant.ts'
import { within } from '../../base/within.ts'
import type { KnownCost } from '../../domain/settlement.ts'
import type { Catalog } from '../../gateway/catalog.ts'
import type { DispatcherStats } from '../../gateway/dispatch/dispatch.ts'
import type { Meter } from '../../gateway/money/meter.ts'
import type { Settings } from '../settings.ts'
import { openChannel, type Channel } from './channel.ts'
import type { ChangedKeys, ServerFunctions, WorkerFunctions, WorkerStart } from './messages.ts'
import { catalogOfWorker, type Limits } from './worker-catalog.ts'
import { workerJournal } from './worker-journal.ts'
import { FRESH_EVERY_MS } from './worker-keys.ts'
import { recoverWorker } from './worker-recovery.ts'
import { openLoans, type WorkerServer } from './worker-server.ts'

/** Before another start of a worker that exited, doubled each time up to the longest. */
const RESTART_MS = 100
const LONGEST_RESTART_MS = 10_000
/** A worker that served this long was not at fault from the start. */
const STEADY_MS = 30_000
/** A worker that does not answer in this time has nothing to return. */
const RECALL_MS = 1_000
const ANSWER_MS = 2_000
/** Settling and closing after the last request. A worker that takes longer is killed. */
const CLOSE_MS = 5_000

export interface WorkersOptions {
  readonly settings: Pick<Settings, 'workers' | 'firstTokenMs' | 'logLevel' | 'bodyMemory' | 'portDomain' | 'finishMs'>
  readonly dataDir: string
  readonly log: Logger
}

/** Before they are started, and on a server that has none, there are none to ask. */
export interface Workers {
  start(server: WorkerServer): Promise<void>
  /** Gives a connection to the worker with the fewest. false: none is running. */
  pass(socket: Socket, bytes: Buffer): boolean
  setCatalog(catalog: Catalog, limits: Limits): void
  forgetKeys(changed: ChangedKeys): void
  recallRate(subject: string, minute: Instant, except: number | undefined): Promise<number>
  costsOf(requestIds: readonly string[]): Promise<ReadonlyMap<string, KnownCost>>
  stats(): readonly DispatcherStats[]
  metrics(): Promise<readonly string[]>
  /** The state, for readiness checks. */
  state(): Promise<string>
  startDraining(): void
  close(): Promise<void>
}

interface Worker {
  readonly pid: number
  readonly channel: Channel<WorkerFunctions>
  /** Connections given, and those that have left. */
  given: number
  left: number
  stats: DispatcherStats
}

/** The costs that this server or one of its workers remembers. */
export async function recentCosts(
  requestIds: readonly string[],
  meter: Meter,
  workers: Pick<Workers, 'costsOf'>,
): Promise<ReadonlyMap<string, KnownCost>> {
  const costs = new Map<string, KnownCost>()
  for (const id of requestIds) {
    const cost = meter.costOf(id)
    if (cost !== undefined) costs.set(id, cost)
  }
  if (costs.size === requestIds.length) return costs
  return new Map([...costs, ...(await workers.costsOf(requestIds.filter((id) => !costs.has(id))))])
}

export function makeWorkers(options: WorkersOptions): Workers {
  return new Pool(options)
}

class Pool implements Workers {
  readonly #options: WorkersOptions
  readonly #running = new Map<number, Worker>()
  readonly #ended = new Set<Promise<void>>()
  #catalog: Catalog = new Map()
  #limits: Limits = new Map()
  #isDraining = false
  #isClosing = false
  #fresh: NodeJS.Timeout | undefined

  constructor(options: WorkersOptions) {
    this.#options = options
  }

  async start(server: WorkerServer): Promise<void> {
    const { settings } = this.#options
    if (settings.workers === 1) return
    await Promise.all(Array.from({ length: settings.workers }, (_, index) => this.#startOne(server, index, 0)))
    this.#fresh = setInterval(() => {
      if (server.authenticator.isCaching()) this.#tell('keysAreFresh')
    }, FRESH_EVERY_MS).unref()
  }

  pass(socket: Socket, bytes: Buffer): boolean {
    if (this.#isClosing) return false
    let least: Worker | undefined
    for (const one of this.#running.values())
      if (least === undefined || one.given - one.left < least.given - least.left) least = one
    if (least === undefined) return false
    least.given += 1
    least.channel.pass(socket, bytes)
    return true
  }

  setCatalog(catalog: Catalog, limits: Limits): void {
    this.#catalog = catalog
    this.#limits = limits
    for (const [index, { channel }] of this.#running) channel.note('setCatalog', this.#catalogOf(index))
  }

  #catalogOf(index: number): Catalog {
    return catalogOfWorker(this.#catalog, this.#limits, this.#options.settings.workers, index)
  }

  forgetKeys(changed: ChangedKeys): void {
    this.#tell('forgetKeys', changed)
  }

  async recallRate(subject: string, minute: Instant, except: number | undefined): Promise<number> {
    const returned = await this.#ask(RECALL_MS, async (channel, index) =>
      index === except ? 0 : channel.call('giveUpRate', subject, minute),
    )
    return returned.reduce((sum, units) => sum + units, 0)
  }

  async costsOf(requestIds: readonly string[]): Promise<ReadonlyMap<string, KnownCost>> {
    return new Map(
      (await this.#ask(ANSWER_MS, (channel) => channel.call('costsOf', requestIds))).flatMap((one) => [...one]),
    )
  }

  stats(): readonly DispatcherStats[] {
    return [...this.#running.values()].map(({ stats }) => stats)
  }

  metrics(): Promise<readonly string[]> {
    return this.#ask(ANSWER_MS, (channel) => channel.call('metrics'))
  }

  async state(): Promise<string> {
    const states = await this.#ask(ANSWER_MS, (channel) => channel.call('journalState'))
    const missing = this.#options.settings.workers - states.length
    return states.find((state) => state !== 'ok') ?? (missing > 0 ? `${missing} not running` : 'ok')
  }

  startDraining(): void {
    this.#isDraining = true
    this.#tell('startDraining')
  }

  async close(): Promise<void> {
    this.#isClosing = true
    const { finishMs } = this.#options.settings
    await this.#ask(finishMs + CLOSE_MS, (channel) => channel.call('close', finishMs))
    clearInterval(this.#fresh)
    for (const { pid } of this.#running.values()) process.kill(pid, 'SIGKILL')
    await Promise.all(this.#ended)
  }

  #tell<Name extends 'keysAreFresh' | 'forgetKeys' | 'startDraining'>(
    name: Name,
    ...args: Parameters<WorkerFunctions[Name]>
  ): void {
    for (const { channel } of this.#running.values()) channel.note(name, ...args)
  }

  /** The answers in time; a worker that exits or hangs gives none. */
  async #ask<Answer>(
    ms: number,
    ask: (channel: Channel<WorkerFunctions>, index: number) => Promise<Answer>,
  ): Promise<Answer[]> {
    const answers = await Promise.allSettled(
      [...this.#running].map(([index, { channel }]) =>
        within(ms, ask(channel, index), 'the worker did not answer in time'),
      ),
    )
    return answers.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  }

  async #startOne(server: WorkerServer, index: number, failures: number): Promise<void> {
    const { dataDir, log } = this.#options
    const child = fork(program().entry, [], {
      serialization: 'advanced',
      execArgv: program().execArgv,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    const call: Channel<WorkerFunctions>['call'] = (name, ...args) => channel.call(name, ...args)
    const loans = openLoans(server, { index, call, log })
    const change = (values: Partial<Pick<Worker, 'left' | 'stats'>>): void => {
      const worker = this.#running.get(index)
      if (worker !== undefined) Object.assign(worker, values)
    }
    const channel = openChannel<WorkerFunctions, ServerFunctions>({
      line: child,
      ours: {
        ...loans.functions,
        connectionsLeft: (count) => change({ left: count }),
        stats: (stats) => change({ stats }),
      },
      onSocket: server.takeBack,
    })
    const journalDir = workerJournal(dataDir, index)
    const repay = async (): Promise<void> => {
      const recover = (): Promise<void> => recoverWorker(journalDir, { treasury: server.treasury, log })
      if (existsSync(journalDir)) await this.#retry(() => server.meter.loans.settleLost(recover))
      loans.close()
    }
    const ended = this.#replace(server, { index, child, failures, repay }).finally(() => this.#ended.delete(ended))
    this.#ended.add(ended)
    try {
      await channel.call('start', this.#startOf(index))
    } catch (error) {
      log.error({ err: error, worker: index + 1 }, 'a worker did not start')
      child.kill('SIGKILL')
      return
    }
    const stats: DispatcherStats = { deployments: [], models: [] }
    this.#running.set(index, { pid: child.pid ?? 0, channel, given: 0, left: 0, stats })
    // The catalog may have changed while it started.
    channel.note('setCatalog', this.#catalogOf(index))
    if (this.#isDraining) channel.note('startDraining')
  }

  #startOf(index: number): WorkerStart {
    const { settings, dataDir } = this.#options
    const { workers, logLevel, portDomain, firstTokenMs } = settings
    return {
      journalDir: workerJournal(dataDir, index),
      logLevel,
      bodyMemory: {
        totalBytes: Math.floor(settings.bodyMemory.totalBytes / workers),
        accountBytes: Math.floor(settings.bodyMemory.accountBytes / workers),
      },
      portDomain,
      firstTokenMs,
      catalog: this.#catalogOf(index),
    }
  }

  async #replace(
    server: WorkerServer,
    old: { index: number; child: ChildProcess; failures: number; repay: () => Promise<void> },
  ): Promise<void> {
    const { index, child } = old
    const startedAt = performance.now()
    await new Promise<void>((resolve) => {
      child.once('exit', () => resolve())
      child.once('error', () => resolve())
    })
    this.#running.delete(index)
    await old.repay()
    if (this.#isClosing) return
    const { exitCode: code, signalCode: signal } = child
    this.#options.log.error({ worker: index + 1, code, signal }, 'a worker exited; starting another')
    const failures = performance.now() - startedAt > STEADY_MS ? 0 : old.failures + 1
    await new Promise((resolve) => setTimeout(resolve, Math.min(LONGEST_RESTART_MS, RESTART_MS * 2 ** failures)))
    if (!this.#isClosing) await this.#startOne(server, index, failures)
  }

  /** The database may be down. */
  async #retry(work: () => Promise<void>): Promise<void> {
    for (let pause = RESTART_MS; ; pause = Math.min(LONGEST_RESTART_MS, 2 * pause)) {
      try {
        return await work()
      } catch (error) {
        if (this.#isClosing) return
        this.#options.log.error({ err: error }, 'could not settle the journal of a worker; trying again')
        await new Promise((resolve) => setTimeout(resolve, pause))
      }
    }
  }
}

/** Beside the bundle in dist/, or the sources in development. */
function program(): { entry: string; execArgv: string[] } {
  const thisFolder = path.dirname(fileURLToPath(import.meta.url))
  const built = path.join(thisFolder, 'worker.mjs')
  if (existsSync(built)) return { entry: built, execArgv: process.execArgv }
  return { entry: path.join(thisFolder, 'worker-main.ts'), execArgv: ['--import', import.meta.resolve('tsx')] }
}
