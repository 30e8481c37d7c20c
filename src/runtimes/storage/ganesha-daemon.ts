/**
 * Supervises the NFS daemon and its exports. A change is written to the configuration and applied by SIGHUP; the daemon
 * checks the client on every call, so a removed client is refused even with files open. Whether a change was applied is
 * read from the log and from its open folders; otherwise the daemon is restarted, which forces the new configuration.
 */
import fs from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { writeDurably } from '../durable-file.ts'
import type { StorageLog } from './file-server.ts'
import { pingNfs } from './nfs-ping.ts'
import {
  endGanesha,
  findGanesha,
  ganeshaFiles,
  logLength,
  logSince,
  logTail,
  openFolders,
  sendSignal,
  startGanesha,
  type GaneshaFiles,
  type GaneshaProcess,
} from './ganesha-process.ts'

export interface DaemonOptions {
  readonly folder: string
  readonly vip: string
  readonly port: number
  /** Settings read at startup only. */
  readonly settings: string
  readonly log: StorageLog
}

export interface Exports {
  readonly text: string
  /** The folder of each export. */
  readonly folders: readonly string[]
}

const START_MS = 30_000
const RELOAD_MS = 10_000
const POLL_MS = 20
const PING_EVERY_MS = 5_000
const PING_TIMEOUT_MS = 5_000
/** After this many unanswered pings in a row, the daemon counts as hung. */
const MAX_SILENT_PINGS = 12
const BACK_OFF_MS = [100, 500, 2_000, 10_000, 60_000] as const
/** Uptime that resets the retry delay. */
const GOOD_RUN_MS = 60_000
const MAX_LOG_BYTES = 8 * 1_048_576

export class GaneshaDaemon {
  readonly #options: DaemonOptions
  readonly #files: GaneshaFiles
  readonly #stopping = new AbortController()
  #exports: Exports
  /** Whether the exports were applied. */
  #isApplied = true
  #current: GaneshaProcess | undefined
  #why = 'it is starting'
  /** The log is being read and must not be rotated. */
  #isReading = false
  #supervision: Promise<void> = Promise.resolve()

  private constructor(options: DaemonOptions, exports: Exports) {
    this.#options = options
    this.#files = ganeshaFiles(options.folder)
    this.#exports = exports
  }

  /** Resolves when the daemon serves. Adopts a running daemon with the same settings. */
  static async start(options: DaemonOptions, exports: Exports): Promise<GaneshaDaemon> {
    const daemon = new GaneshaDaemon(options, exports)
    const files = daemon.#files
    const previousConfig = await fs.readFile(files.config, 'utf8').catch(() => '')
    const running = await findGanesha(files)
    await daemon.#writeConfig()
    if (running !== undefined && previousConfig.startsWith(options.settings)) {
      options.log.info({ pid: running.pid }, 'adopting the running NFS daemon')
      daemon.#current = running
      await daemon.#reread(running).catch(async (error: unknown) => {
        options.log.warn({ err: error }, 'the running NFS daemon rejects the exports; restarting it')
        await endGanesha(running, files)
      })
    } else if (running !== undefined) await endGanesha(running, files)
    const first = running?.isAlive() === true ? running : await daemon.#startOnce()
    daemon.#supervision = daemon.#supervise(first)
    return daemon
  }

  /** When it resolves, exactly these exports are served to exactly their clients. */
  async setExports(exports: Exports): Promise<void> {
    this.#exports = exports
    this.#isApplied = false
    await this.#writeConfig()
    const running = await this.#untilRunning()
    try {
      await this.#reread(running)
    } catch (error) {
      this.#options.log.warn({ err: error }, 'the NFS daemon rejected a change; restarting it')
      await endGanesha(running, this.#files)
      await this.#assertServed(await this.#untilRunning(running), '')
    }
    this.#isApplied = true
  }

  /** Tells whether exactly these exports are applied. */
  knows(exports: Exports): boolean {
    return this.#isApplied && this.#exports.text === exports.text
  }

  /** Throws an error with a readable sentence when an export is not served. */
  async check(): Promise<void> {
    const running = this.#current
    if (running === undefined) throw new Error(`The NFS daemon is not running: ${this.#why}`)
    const { vip, port } = this.#options
    await pingNfs(vip, port, PING_TIMEOUT_MS).catch((error: unknown) => {
      throw new Error(`The NFS daemon at ${vip}:${port} does not answer`, { cause: error })
    })
    await this.#assertServed(running, '')
  }

  /** Stops supervising. The daemon keeps serving. */
  async leave(): Promise<void> {
    this.#stopping.abort()
    await this.#supervision
  }

  async stop(): Promise<void> {
    await this.leave()
    if (this.#current !== undefined) await endGanesha(this.#current, this.#files)
    this.#current = undefined
  }

  async #writeConfig(): Promise<void> {
    await writeDurably(this.#files.config, this.#options.settings + this.#exports.text)
  }

  async #supervise(first: GaneshaProcess): Promise<void> {
    const { log } = this.#options
    const { signal } = this.#stopping
    for (let running: GaneshaProcess | undefined = first, failures = 0; !signal.aborted;) {
      const startedAt = performance.now()
      if (running !== undefined) {
        this.#why = await this.#watch(running)
        if (signal.aborted) return
        this.#current = undefined
        if (performance.now() - startedAt > GOOD_RUN_MS) failures = 0
      }
      const retryInMs = BACK_OFF_MS[Math.min(failures, BACK_OFF_MS.length - 1)] ?? 0
      failures += 1
      log.warn({ why: this.#why, retryInMs }, 'the NFS daemon is not running; restarting it')
      await delay(retryInMs, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      running = await this.#startOnce().catch((error: unknown) => {
        this.#why = error instanceof Error ? error.message : String(error)
        return undefined
      })
    }
  }

  /** Resolves with the reason when the daemon ends, hangs or is stopped. */
  async #watch(running: GaneshaProcess): Promise<string> {
    const { vip, port } = this.#options
    const ended = running.exited
    for (let silentPings = 0; silentPings < MAX_SILENT_PINGS;) {
      const finished = new AbortController()
      const signal = AbortSignal.any([finished.signal, this.#stopping.signal])
      const pause = delay(PING_EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined)
      const reason = await Promise.race([ended, pause])
      finished.abort()
      if (reason !== undefined) return reason
      if (this.#stopping.signal.aborted) return 'it was stopped'
      silentPings = await pingNfs(vip, port, PING_TIMEOUT_MS).then(
        () => 0,
        () => silentPings + 1,
      )
      await this.#rotateLog()
    }
    await endGanesha(running, this.#files)
    return `it did not answer ${MAX_SILENT_PINGS} times in a row`
  }

  async #startOnce(): Promise<GaneshaProcess> {
    await this.#rotateLog()
    const offset = await logLength(this.#files)
    const started = startGanesha(this.#files)
    try {
      const text = await this.#untilLogged(started, offset, 'NFS SERVER INITIALIZED', START_MS)
      // One failing volume must not block the others.
      await this.#assertServed(started, text).catch((error: unknown) => {
        this.#options.log.warn({ err: error }, 'the NFS daemon does not serve every export')
      })
    } catch (error) {
      await endGanesha(started, this.#files)
      throw error
    }
    this.#current = started
    this.#options.log.info({ pid: started.pid, exports: this.#exports.folders.length }, 'the NFS daemon is ready')
    return started
  }

  async #reread(running: GaneshaProcess): Promise<void> {
    const offset = await logLength(this.#files)
    if (!(await sendSignal(running, this.#files, 'SIGHUP'))) throw new Error('ganesha.nfsd has ended')
    const text = await this.#untilLogged(running, offset, 'Reread exports complete', RELOAD_MS)
    const errorLines = text.split('\n').filter((line) => /\[sigmgr\].*:(CRIT|MAJ|FATAL) :/.test(line))
    if (errorLines.length > 0)
      throw new Error(`ganesha.nfsd rejected its configuration: ${logTail(errorLines.join('\n'))}`)
    await this.#assertServed(running, text)
  }

  async #untilLogged(running: GaneshaProcess, offset: number, line: string, limitMs: number): Promise<string> {
    const until = performance.now() + limitMs
    this.#isReading = true
    try {
      return await this.#readUntil(running, offset, line, until)
    } finally {
      this.#isReading = false
    }
  }

  async #readUntil(running: GaneshaProcess, offset: number, line: string, until: number): Promise<string> {
    for (;;) {
      const isAlive = running.isAlive()
      const text = await logSince(this.#files, offset)
      if (text.includes(line)) return text
      if (!isAlive) throw new Error(`${await running.exited}: ${logTail(text)}`)
      if (performance.now() > until) {
        throw new Error(`ganesha.nfsd did not log “${line}” in time: ${logTail(text)}`)
      }
      await delay(POLL_MS)
    }
  }

  /** The daemon skips exports that fail, so its log is not enough. */
  async #assertServed(running: GaneshaProcess, text: string): Promise<void> {
    const open = await openFolders(running)
    const unserved = this.#exports.folders.filter((folder) => !open.has(folder))
    if (unserved.length > 0) throw new Error(`ganesha.nfsd does not serve ${unserved.join(', ')}: ${logTail(text)}`)
  }

  async #untilRunning(otherThan?: GaneshaProcess): Promise<GaneshaProcess> {
    const until = performance.now() + START_MS
    for (;;) {
      const running = this.#current
      if (running?.isAlive() === true && running !== otherThan) return running
      if (performance.now() > until) throw new Error(`The NFS daemon is not running: ${this.#why}`)
      this.#stopping.signal.throwIfAborted()
      await delay(POLL_MS)
    }
  }

  /** The daemon reopens its log for each line, so the file can be renamed. */
  async #rotateLog(): Promise<void> {
    if (this.#isReading || (await logLength(this.#files)) < MAX_LOG_BYTES) return
    await fs.rename(this.#files.log, `${this.#files.log}.old`)
  }
}
