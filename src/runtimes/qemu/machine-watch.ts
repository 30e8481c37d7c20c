/**
 * Keeps a monitor connection to every running machine to see how it ends. QEMU stays after a guest shutdown, so that the
 * shutdown is known even if nobody watched; then we quit it. A process that vanishes while watched has crashed;
 * otherwise the cause is unknown, and the machine may be restarted.
 */
import fs from 'node:fs/promises'
import { MONITOR_SOCKET, unlessGone, writeEnd, type MachineEnd, type MachineFiles } from './machine-files.ts'
import { queryStatus } from './monitor-query.ts'
import { Monitor, type MonitorEvent } from './monitor.ts'

const MAX_STDERR_CHARS = 500

interface Watched {
  readonly monitor: Monitor
  /** Set when its end is expected. */
  isExpected: boolean
  /** Resolves when its end is recorded. */
  readonly ended: Promise<void>
  /** Ends being recorded. */
  writing: Promise<void>
}

export class MachineWatch {
  readonly #filesOf: (id: string) => MachineFiles
  readonly #changed: () => void
  readonly #onError: (what: string, error: unknown) => void
  readonly #watched = new Map<string, Watched>()
  readonly #connecting = new Map<string, Promise<Watched>>()
  #closed = false

  constructor(options: {
    filesOf: (id: string) => MachineFiles
    changed: () => void
    onError: (what: string, error: unknown) => void
  }) {
    this.#filesOf = options.filesOf
    this.#changed = options.changed
    this.#onError = options.onError
  }

  /** The monitor of a running machine. */
  async monitor(id: string): Promise<Monitor> {
    const known = this.#watched.get(id)
    if (known !== undefined) return known.monitor
    const begun = this.#connecting.get(id) ?? this.#connect(id)
    this.#connecting.set(id, begun)
    try {
      return (await begun).monitor
    } finally {
      this.#connecting.delete(id)
    }
  }

  isWatched(id: string): boolean {
    return this.#watched.has(id)
  }

  /** Waits until the end of a machine without a process is recorded. */
  async settle(id: string): Promise<void> {
    const watched = this.#watched.get(id)
    await watched?.ended
    await watched?.writing
  }

  /** From now on its end is expected. */
  expectEnd(id: string): void {
    const watched = this.#watched.get(id)
    if (watched !== undefined) watched.isExpected = true
  }

  /** While `work` runs, the end of the machine is expected; afterwards it is not. */
  async expecting(id: string, work: (monitor: Monitor) => Promise<void>): Promise<void> {
    const monitor = await this.monitor(id)
    this.expectEnd(id)
    try {
      await work(monitor)
    } finally {
      const watched = this.#watched.get(id)
      if (watched !== undefined) watched.isExpected = false
    }
  }

  close(): void {
    this.#closed = true
    for (const { monitor } of this.#watched.values()) monitor.close()
  }

  async #connect(id: string): Promise<Watched> {
    if (this.#closed) throw new Error('The virtual machine runtime is closed')
    const files = this.#filesOf(id)
    const monitor = await Monitor.connect(files.folder, MONITOR_SOCKET)
    const watched: Watched = {
      monitor,
      isExpected: false,
      writing: Promise.resolve(),
      ended: monitor.closed.then(() => this.#lost(id)),
    }
    this.#watched.set(id, watched)
    monitor.onEvent((event) => this.#take(id, watched, event))
    // It may have ended before we connected.
    this.#end(id, watched, endOfStatus(await queryStatus(monitor)))
    await watched.writing
    return watched
  }

  #take(id: string, watched: Watched, { event, data }: MonitorEvent): void {
    if (event === 'SHUTDOWN') {
      if (data.guest !== true) watched.isExpected = true
      this.#end(id, watched, endOfReason(String(data.reason)))
    }
    this.#changed()
  }

  #end(id: string, watched: Watched, end: MachineEnd | undefined): void {
    if (end === undefined || watched.isExpected) return
    watched.isExpected = true
    watched.writing = this.#leave(id, watched.monitor, end)
      .catch((error: unknown) => this.#onError(`end of ${id}`, error))
      .finally(() => this.#changed())
  }

  async #leave(id: string, monitor: Monitor, end: MachineEnd): Promise<void> {
    await writeEnd(this.#filesOf(id), end)
    await monitor.execute('quit')
  }

  async #lost(id: string): Promise<void> {
    const watched = this.#watched.get(id)
    if (this.#closed || watched === undefined) return
    try {
      if (!watched.isExpected) {
        const files = this.#filesOf(id)
        const stderr = (await fs.readFile(files.stderr, 'utf8').catch(unlessGone(''))).trim().slice(-MAX_STDERR_CHARS)
        // QEMU's stderr names files of the host: it is for the log, not for the customer.
        this.#onError(`end of ${id}`, new Error(stderr === '' ? 'QEMU ended without output' : `QEMU ended: ${stderr}`))
        const message = 'The virtual machine process ended unexpectedly.'
        await writeEnd(files, { failure: 'crashed', message })
      }
    } catch (error) {
      this.#onError(`end of ${id}`, error)
    } finally {
      this.#watched.delete(id)
      this.#changed()
    }
  }
}

const poweredOff: MachineEnd = { failure: 'powered_off', message: 'The machine was shut down from inside.' }
const broken: MachineEnd = { failure: 'crashed', message: 'The guest system crashed.' }

/** undefined: no end, or an expected one. */
function endOfReason(reason: string): MachineEnd | undefined {
  if (reason === 'guest-shutdown') return poweredOff
  return reason === 'guest-panic' || reason === 'host-error' ? broken : undefined
}

function endOfStatus(status: string): MachineEnd | undefined {
  if (status === 'shutdown') return poweredOff
  return status === 'guest-panicked' || status === 'internal-error' ? broken : undefined
}
