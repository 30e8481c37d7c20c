/**
 * Keeps a monitor connection to every running machine to see how it ends. QEMU keeps running after a guest shutdown, so
 * that we learn of the shutdown even if we were not connected; then we tell QEMU to quit. A process that disappears while
 * we are connected has crashed; otherwise the cause is unknown, and the machine may be restarted.
 */
import fs from 'node:fs/promises'
import { MONITOR_SOCKET, unlessGone, writeEnd, type MachineEnd, type MachineFiles } from './machine-files.ts'
import { queryStatus } from './monitor-query.ts'
import { Monitor, type MonitorEvent } from './monitor.ts'

const MAX_STDERR_CHARS = 500

interface WatchedMachine {
  readonly monitor: Monitor
  /** Whether the end of the machine is expected, and so is not recorded as a failure. */
  isEndExpected: boolean
  /** Resolves when the connection is closed and the end of the machine is recorded. */
  readonly ended: Promise<void>
  /** Resolves when an end that the monitor reported is recorded. */
  endWrite: Promise<void>
}

export class MachineWatch {
  readonly #filesOf: (id: string) => MachineFiles
  readonly #onChange: () => void
  readonly #onError: (what: string, error: unknown) => void
  readonly #watched = new Map<string, WatchedMachine>()
  readonly #connecting = new Map<string, Promise<WatchedMachine>>()
  #closed = false

  constructor(options: {
    filesOf: (id: string) => MachineFiles
    onChange: () => void
    onError: (what: string, error: unknown) => void
  }) {
    this.#filesOf = options.filesOf
    this.#onChange = options.onChange
    this.#onError = options.onError
  }

  /** The monitor of a running machine. */
  async monitor(id: string): Promise<Monitor> {
    const machine = this.#watched.get(id)
    if (machine !== undefined) return machine.monitor
    const connection = this.#connecting.get(id) ?? this.#connect(id)
    this.#connecting.set(id, connection)
    try {
      return (await connection).monitor
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
    await watched?.endWrite
  }

  /** Declares the end of the machine as expected from now on. */
  expectEnd(id: string): void {
    const watched = this.#watched.get(id)
    if (watched !== undefined) watched.isEndExpected = true
  }

  /** While `work` runs, the end of the machine is expected; afterwards it is not. */
  async whileEndExpected(id: string, work: (monitor: Monitor) => Promise<void>): Promise<void> {
    const monitor = await this.monitor(id)
    this.expectEnd(id)
    try {
      await work(monitor)
    } finally {
      const watched = this.#watched.get(id)
      if (watched !== undefined) watched.isEndExpected = false
    }
  }

  close(): void {
    this.#closed = true
    for (const { monitor } of this.#watched.values()) monitor.close()
  }

  async #connect(id: string): Promise<WatchedMachine> {
    if (this.#closed) throw new Error('The virtual machine runtime is closed')
    const files = this.#filesOf(id)
    const monitor = await Monitor.connect(files.folder, MONITOR_SOCKET)
    const watched: WatchedMachine = {
      monitor,
      isEndExpected: false,
      endWrite: Promise.resolve(),
      ended: monitor.closed.then(() => this.#onClosed(id)),
    }
    this.#watched.set(id, watched)
    monitor.onEvent((event) => this.#onEvent(id, watched, event))
    // The machine may have ended before we connected.
    this.#recordEnd(id, watched, endOfStatus(await queryStatus(monitor)))
    await watched.endWrite
    return watched
  }

  #onEvent(id: string, watched: WatchedMachine, { event, data }: MonitorEvent): void {
    if (event === 'SHUTDOWN') {
      if (data.guest !== true) watched.isEndExpected = true
      this.#recordEnd(id, watched, endOfReason(String(data.reason)))
    }
    this.#onChange()
  }

  #recordEnd(id: string, watched: WatchedMachine, end: MachineEnd | undefined): void {
    if (end === undefined || watched.isEndExpected) return
    watched.isEndExpected = true
    watched.endWrite = this.#recordAndQuit(id, watched.monitor, end)
      .catch((error: unknown) => this.#onError(`end of ${id}`, error))
      .finally(() => this.#onChange())
  }

  async #recordAndQuit(id: string, monitor: Monitor, end: MachineEnd): Promise<void> {
    await writeEnd(this.#filesOf(id), end)
    await monitor.execute('quit')
  }

  async #onClosed(id: string): Promise<void> {
    const watched = this.#watched.get(id)
    if (this.#closed || watched === undefined) return
    try {
      if (!watched.isEndExpected) {
        const files = this.#filesOf(id)
        const stderr = (await fs.readFile(files.stderr, 'utf8').catch(unlessGone(''))).trim().slice(-MAX_STDERR_CHARS)
        // QEMU's stderr names files of the host, so it goes to the log and not to the customer.
        this.#onError(`end of ${id}`, new Error(stderr === '' ? 'QEMU ended without output' : `QEMU ended: ${stderr}`))
        const message = 'The virtual machine process ended unexpectedly.'
        await writeEnd(files, { failure: 'crashed', message })
      }
    } catch (error) {
      this.#onError(`end of ${id}`, error)
    } finally {
      this.#watched.delete(id)
      this.#onChange()
    }
  }
}

const powerOff: MachineEnd = { failure: 'powered_off', message: 'The machine was shut down from inside.' }
const crash: MachineEnd = { failure: 'crashed', message: 'The guest system crashed.' }

/** undefined: the machine has not ended, or we have ended it. */
function endOfReason(reason: string): MachineEnd | undefined {
  if (reason === 'guest-shutdown') return powerOff
  return reason === 'guest-panic' || reason === 'host-error' ? crash : undefined
}

function endOfStatus(status: string): MachineEnd | undefined {
  if (status === 'shutdown') return powerOff
  return status === 'guest-panicked' || status === 'internal-error' ? crash : undefined
}
