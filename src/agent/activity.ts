/**
 * What keeps each workload in use, as seen by the agent: every SSH session, terminal and connection to a workload is a
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
  readonly #seen = new Map<string, Seen>()

  /** `now` in milliseconds, monotonic. */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Opens a stream and counts it until it closes. */
  async open(runtime: Pick<Runtime, 'open'>, request: StreamRequest, signal: AbortSignal): Promise<RuntimeStream> {
    const kind = kindOf(request)
    if (kind === undefined) return runtime.open(request, signal)
    // From the first byte: a slow login is activity.
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
    const seen = this.#of(workloadId)
    if (hasProgram) this.#mark(seen, 'program')
    const active = [...new Set([...seen.since, ...seen.open.keys()])]
    if (seen.open.size > 0) seen.lastMs = this.#now()
    seen.since.clear()
    return { active, quietSeconds: Math.max(0, (this.#now() - seen.lastMs) / 1_000) }
  }

  /** Forgets the workloads that no longer run. */
  keep(workloadIds: readonly string[]): void {
    const kept = new Set(workloadIds)
    for (const [id, seen] of this.#seen) if (!kept.has(id) && seen.open.size === 0) this.#seen.delete(id)
  }

  #of(workloadId: string): Seen {
    const known = this.#seen.get(workloadId)
    if (known !== undefined) return known
    // Nothing is known from before: it counts as in use until now.
    const made: Seen = { open: new Map(), since: new Set(), lastMs: this.#now() }
    this.#seen.set(workloadId, made)
    return made
  }

  #mark(seen: Seen, kind: ActivityKind): void {
    seen.since.add(kind)
    seen.lastMs = this.#now()
  }

  #begin(workloadId: string, kind: ActivityKind): () => void {
    const seen = this.#of(workloadId)
    this.#mark(seen, kind)
    seen.open.set(kind, (seen.open.get(kind) ?? 0) + 1)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      const left = (seen.open.get(kind) ?? 1) - 1
      if (left > 0) seen.open.set(kind, left)
      else seen.open.delete(kind)
      this.#mark(seen, kind)
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
