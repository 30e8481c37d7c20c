/**
 * Keeps the end of a workload's output when it is removed, for the customer who wants to know why it failed. It is sent
 * with the next metrics; nothing is written to the disk of the host.
 */
import { limits } from '../base/limits.ts'
import { within } from '../base/within.ts'
import type { LastLog } from '../contract/agent.ts'
import type { Runtime } from '../runtimes/runtime.ts'

const MAX_LINES = 2_000
const READ_MS = 5_000
/** Messages have room for this many. */
const MAX_WAITING = 4

export class LastLogs {
  readonly #runtime: Pick<Runtime, 'open'>
  readonly #onError: (what: string, error: unknown) => void
  /** Workloads whose output was read: a removal may take several attempts. */
  readonly #read = new Set<string>()
  #waiting: LastLog[] = []

  constructor(runtime: Pick<Runtime, 'open'>, onError: (what: string, error: unknown) => void) {
    this.#runtime = runtime
    this.#onError = onError
  }

  /** Reads it before the workload is gone. Never rejects: a log that cannot be read must not delay the removal. */
  async read(workloadId: string): Promise<boolean> {
    if (this.#read.has(workloadId)) return false
    const control = new AbortController()
    try {
      const bytes = await within(READ_MS, this.#tail(workloadId, control.signal), 'The log could not be read in time.')
      this.#read.add(workloadId)
      if (bytes.length === 0) return false
      this.#waiting = [...this.#waiting, { id: workloadId, tail: bytes.toString('base64') }].slice(-MAX_WAITING)
      return true
    } catch (error) {
      this.#onError(`last output of ${workloadId}`, error)
      return false
    } finally {
      control.abort()
    }
  }

  /** Takes the logs to send now. */
  take(): LastLog[] {
    return this.#waiting.splice(0)
  }

  /** Takes back logs that could not be sent. */
  giveBack(logs: readonly LastLog[]): void {
    this.#waiting = [...logs, ...this.#waiting].slice(-MAX_WAITING)
  }

  /** Forgets the workloads that are gone. */
  keep(workloadIds: readonly string[]): void {
    const keptIds = new Set(workloadIds)
    for (const id of this.#read) if (!keptIds.has(id)) this.#read.delete(id)
  }

  async #tail(workloadId: string, signal: AbortSignal): Promise<Buffer> {
    const request = { kind: 'logs', workloadId, follow: false, tail: MAX_LINES, timestamps: true } as const
    const { stream } = await this.#runtime.open(request, signal)
    signal.addEventListener('abort', () => stream.destroy(), { once: true })
    let tail: Buffer = Buffer.alloc(0)
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      const all = Buffer.concat([tail, chunk])
      tail = all.subarray(Math.max(0, all.length - limits.lastLogBytes))
    }
    // A line that was cut has lost its time.
    return tail.length < limits.lastLogBytes ? tail : tail.subarray(tail.indexOf(0x0a) + 1)
  }
}
