/**
 * The workers of a server: starts them, gives them connections, does for them what needs the database, and replaces one
 * that exits. The journal of a worker that was killed is settled at once, then its loans are free again.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import type { Socket } from 'node:net'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import type { Instant } from '../../base/instant.ts'
import { within } from '../../base/within.ts'
import type { Treasury } from '../../domain/purse.ts'
import { settleRecords, type KnownCost } from '../../domain/settlement.ts'
import type { Catalog } from '../../gateway/catalog.ts'
import type { DispatcherStats } from '../../gateway/dispatch/dispatch.ts'
import { Journal } from '../../gateway/journal/journal.ts'
import type { Meter } from '../../gateway/money/meter.ts'
import type { GatewayPlaces } from '../../gateway/dispatch/places.ts'
import type { Authenticator } from '../http/authenticate.ts'
import { openDataFolder } from '../data/data-folder.ts'
import { lendSlice, type RateLimiter } from '../http/rate-limit.ts'
import type { Settings } from '../settings.ts'
import { openChannel, type Channel } from './channel.ts'
import type { ChangedKeys, ServerFunctions, WorkerFunctions } from './messages.ts'
import { catalogOfWorker } from './worker-catalog.ts'
import { WORKER_JOURNAL, workerJournal } from './worker-journal.ts'
import { FRESH_EVERY_MS } from './worker-keys.ts'

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
/** An orphan of a killed server exits within milliseconds. */
const ORPHAN_MS = 10_000
const LOOK_MS = 50

export interface WorkersOptions {
  readonly settings: Pick<Settings, 'workers' | 'logLevel' | 'bodyMemory' | 'portDomain' | 'finishMs'>
  readonly dataDir: string
  readonly log: Logger
  readonly meter: Meter
  readonly settle: Treasury['settle']
  readonly rates: RateLimiter
  readonly places: GatewayPlaces
  readonly authenticator: Authenticator
  readonly catalog: Catalog
  /** A connection that a worker does not serve. */
  readonly takeBack: (socket: Socket, bytes: Buffer) => void
}

export interface Workers {
  /** Gives a connection to the worker with the fewest. false: none is running. */
  pass(socket: Socket, bytes: Buffer): boolean
  setCatalog(catalog: Catalog): void
  forgetKeys(changed: ChangedKeys): void
  recallRate(subject: string, minute: Instant, except: number | undefined): Promise<number>
  costsOf(requestIds: readonly string[]): Promise<ReadonlyMap<string, KnownCost>>
  stats(): readonly DispatcherStats[]
  metrics(): Promise<readonly string[]>
  /** For readiness. */
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

/** Settles what the workers of an earlier run have left. */
export async function recoverWorkers(dataDir: string, options: Pick<WorkersOptions, 'settle' | 'log'>): Promise<void> {
  const all = path.join(dataDir, 'journal')
  const names = existsSync(all) ? readdirSync(all).filter((name) => WORKER_JOURNAL.test(name)) : []
  for (const name of names) await recover(path.join(all, name), options)
}

async function recover(dir: string, { settle, log }: Pick<WorkersOptions, 'settle' | 'log'>): Promise<void> {
  const folder = await takeFolder(dir)
  try {
    const journal = new Journal({ dir: folder.dir, log })
    for await (const batch of journal.replay()) await settleRecords({ settle }, batch)
    await journal.close()
  } finally {
    await folder.release()
  }
}

async function takeFolder(dir: string): ReturnType<typeof openDataFolder> {
  const giveUpAt = performance.now() + ORPHAN_MS
  for (;;) {
    try {
      return await openDataFolder(dir)
    } catch (error) {
      if (performance.now() > giveUpAt) throw error
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  }
}

/** The costs that this server or one of its workers remembers. */
export async function recentCosts(
  requestIds: readonly string[],
  meter: Meter,
  workers: Workers | undefined,
): Promise<ReadonlyMap<string, KnownCost>> {
  const found = new Map<string, KnownCost>()
  for (const id of requestIds) {
    const cost = meter.costOf(id)
    if (cost !== undefined) found.set(id, cost)
  }
  if (workers === undefined || found.size === requestIds.length) return found
  return new Map([...found, ...(await workers.costsOf(requestIds.filter((id) => !found.has(id))))])
}

export async function startWorkers(options: WorkersOptions): Promise<Workers> {
  const pool = new Pool(options)
  await pool.start()
  return pool
}

class Pool implements Workers {
  readonly #options: WorkersOptions
  readonly #running = new Map<number, Worker>()
  readonly #ended = new Set<Promise<void>>()
  #catalog: Catalog
  #isDraining = false
  #isClosing = false
  #fresh: NodeJS.Timeout | undefined

  constructor(options: WorkersOptions) {
    this.#options = options
    this.#catalog = options.catalog
  }

  async start(): Promise<void> {
    const { settings, authenticator } = this.#options
    await Promise.all(Array.from({ length: settings.workers }, (_, index) => this.#startOne(index, 0)))
    this.#fresh = setInterval(() => {
      if (authenticator.isCaching()) this.#tell('keysAreFresh')
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

  setCatalog(catalog: Catalog): void {
    this.#catalog = catalog
    const { workers } = this.#options.settings
    for (const [index, { channel }] of this.#running)
      channel.note('setCatalog', catalogOfWorker(catalog, workers, index))
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

  async #startOne(index: number, failures: number): Promise<void> {
    const { settings, dataDir, log, meter, settle, rates, places, authenticator, takeBack } = this.#options
    const child = fork(program().entry, [], {
      serialization: 'advanced',
      execArgv: program().execArgv,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    const worker = (): Worker | undefined => this.#running.get(index)
    const late = 'the worker did not answer in time'
    const loans = meter.loans.open(
      async (owner) => within(RECALL_MS, channel.call('giveUpMoney', owner), late).catch(() => undefined),
      async (accountId) =>
        within(RECALL_MS, channel.call('recallMoney', accountId), late).catch((error: unknown) =>
          log.warn({ err: error, worker: index + 1 }, 'a worker did not return its money'),
        ),
    )
    const lent = places.borrower(async (accountId) =>
      within(RECALL_MS, channel.call('giveUpPlaces', accountId), late).catch(() => 0),
    )
    const ours: ServerFunctions = {
      introduce: (authorization) => authenticator.inferenceCaller(authorization),
      topUp: (owner, amounts) => loans.topUp(owner, amounts),
      settle: (settlement) => loans.settle(settlement),
      giveBack: (holdKey, amount) => loans.giveBack(holdKey, amount),
      renew: (holdKeys) => loans.renew(holdKeys),
      readPurses: (holdKeys) => loans.readPurses(holdKeys),
      takeSlice: (request) => lendSlice(rates, request, index),
      lendPlaces: lent.lend,
      takeBackPlaces: lent.takeBack,
      keysUsed: (lastUsed) => authenticator.keysUsed(lastUsed),
      connectionsLeft: (count) => {
        const one = worker()
        if (one !== undefined) one.left = count
      },
      stats: (stats) => {
        const one = worker()
        if (one !== undefined) one.stats = stats
      },
    }
    const channel = openChannel<WorkerFunctions, ServerFunctions>({
      line: child,
      ours,
      onSocket: takeBack,
    })
    const repay = async (): Promise<void> => {
      const journal = workerJournal(dataDir, index)
      if (existsSync(journal)) await this.#retry(() => meter.loans.settleLost(() => recover(journal, { settle, log })))
      loans.close()
      lent.close()
    }
    const ended = this.#replace(index, child, failures, repay).finally(() => this.#ended.delete(ended))
    this.#ended.add(ended)
    const start = channel.call('start', {
      journalDir: workerJournal(dataDir, index),
      logLevel: settings.logLevel,
      bodyMemory: {
        totalBytes: Math.floor(settings.bodyMemory.totalBytes / settings.workers),
        accountBytes: Math.floor(settings.bodyMemory.accountBytes / settings.workers),
      },
      portDomain: settings.portDomain,
      catalog: catalogOfWorker(this.#catalog, settings.workers, index),
    })
    try {
      await start
    } catch (error) {
      log.error({ err: error, worker: index + 1 }, 'a worker did not start')
      child.kill('SIGKILL')
      return
    }
    this.#running.set(index, {
      pid: child.pid ?? 0,
      channel,
      given: 0,
      left: 0,
      stats: { deployments: [], models: [] },
    })
    // What changed while it started.
    channel.note('setCatalog', catalogOfWorker(this.#catalog, settings.workers, index))
    if (this.#isDraining) channel.note('startDraining')
  }

  async #replace(index: number, child: ChildProcess, failures: number, repay: () => Promise<void>): Promise<void> {
    const startedAt = performance.now()
    await new Promise<void>((resolve) => {
      child.once('exit', () => resolve())
      child.once('error', () => resolve())
    })
    this.#running.delete(index)
    await repay()
    if (this.#isClosing) return
    const { exitCode: code, signalCode: signal } = child
    this.#options.log.error({ worker: index + 1, code, signal }, 'a worker exited; starting another')
    const again = performance.now() - startedAt > STEADY_MS ? 0 : failures + 1
    await new Promise((resolve) => setTimeout(resolve, Math.min(LONGEST_RESTART_MS, RESTART_MS * 2 ** again)))
    if (!this.#isClosing) await this.#startOne(index, again)
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
  const here = path.dirname(fileURLToPath(import.meta.url))
  const built = path.join(here, 'worker.mjs')
  if (existsSync(built)) return { entry: built, execArgv: process.execArgv }
  return { entry: path.join(here, 'worker-main.ts'), execArgv: ['--import', import.meta.resolve('tsx')] }
}
