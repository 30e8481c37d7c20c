/**
 * The agent sees what keeps each workload in use: every SSH session, terminal and connection to a workload is a
 * stream through it, whichever server it comes from. A stream that was opened and closed between two looks counts too.
 */
import type { ActivityKind, StreamRequest } from '../contract/agent.ts'
import type { Runtime, RuntimeStream } from '../runtimes/runtime.ts'

export interface Activity {
  readonly active: ActivityKind[]
  readonly quietSeconds: number
}

interface Seen {
  readonly open: Map<ActivityKind, number>
  readonly since: Set<ActivityKind>
  lastMs: number
}

/** The target port that stands for SSH. */
const SSH_TARGET = 0

export class ActivityWatch {
  readonly #now: () => number
  readonly #records = new Map<string, Seen>()

  /** `now` in milliseconds, monotonic. */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Opens a stream and counts it until it closes. */
  async open(runtime: Pick<Runtime, 'open'>, request: StreamRequest, signal: AbortSignal): Promise<RuntimeStream> {
    const kind = kindOf(request)
    if (kind === undefined) return runtime.open(request, signal)
    // Activity begins with the first byte: a slow login is activity.
    const end = this.#begin(request.workloadId, kind)
    try {
      const opened = await runtime.open(request, signal)
      opened.stream.once('close', end)
      if (opened.stream.destroyed) end()
      return opened
    } catch (error) {
      end()
      throw error
    }
  }

  /** Since the last call. `hasProgram`: the runtime has seen a program beside the main one. */
  read(workloadId: string, hasProgram: boolean): Activity {
    const record = this.#of(workloadId)
    if (hasProgram) this.#mark(record, 'program')
    const active = [...new Set([...record.since, ...record.open.keys()])]
    if (record.open.size > 0) record.lastMs = this.#now()
    record.since.clear()
    return { active, quietSeconds: Math.max(0, (this.#now() - record.lastMs) / 1_000) }
  }

  /** Forgets the workloads that no longer run. */
  keep(workloadIds: readonly string[]): void {
    const keptIds = new Set(workloadIds)
    for (const [id, record] of this.#records) if (!keptIds.has(id) && record.open.size === 0) this.#records.delete(id)
  }

  #of(workloadId: string): Seen {
    const existingRecord = this.#records.get(workloadId)
    if (existingRecord !== undefined) return existingRecord
    // Nothing is known about earlier activity, so the workload counts as in use until now.
    const record: Seen = { open: new Map(), since: new Set(), lastMs: this.#now() }
    this.#records.set(workloadId, record)
    return record
  }

  #mark(record: Seen, kind: ActivityKind): void {
    record.since.add(kind)
    record.lastMs = this.#now()
  }

  #begin(workloadId: string, kind: ActivityKind): () => void {
    const record = this.#of(workloadId)
    this.#mark(record, kind)
    record.open.set(kind, (record.open.get(kind) ?? 0) + 1)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      const openCount = (record.open.get(kind) ?? 1) - 1
      if (openCount > 0) record.open.set(kind, openCount)
      else record.open.delete(kind)
      this.#mark(record, kind)
    }
  }
}

/** undefined: reading a log or checking the health of a port does not use the machine. */
function kindOf(request: StreamRequest): ActivityKind | undefined {
  if (request.kind === 'terminal' || request.kind === 'command') return 'terminal'
  if (request.kind === 'port' && request.probe === true) return undefined
  if (request.kind === 'port') return request.port === SSH_TARGET ? 'ssh' : 'connection'
  return undefined
}
