/**
 * The last desired state, stored in the folder, so that workloads start again after a reboot even while the server is
 * unreachable. A workload that was seen running is marked as started, even before the server knows, so that one that
 * vanishes is reported as lost and never created twice. When the disk is full the state is applied anyway and written
 * later.
 */
import { desired as desiredSchema, type Desired, type Observation } from '../contract/agent.ts'
import type { AgentFolder } from './folder.ts'

const DESIRED_FILE = 'desired.json'

export interface DesiredState {
  /** undefined: none received yet. */
  current(): Desired | undefined
  /** Stores what the server sent, and returns it with the workloads marked that have started here. */
  take(desired: Desired): Desired
  /** Returns the updated state when a workload is seen running for the first time. */
  seen(observations: readonly Observation[]): Desired | undefined
  /** Retries a write that failed. */
  save(): void
}

export function openDesiredState(folder: AgentFolder, onError: (what: string, error: unknown) => void): DesiredState {
  let current = folder.readJson(DESIRED_FILE, desiredSchema)
  let isSaved = true
  const save = (): void => {
    if (isSaved) return
    try {
      folder.writeJson(DESIRED_FILE, current)
      isSaved = true
    } catch (error) {
      onError('cannot store the desired state for the next start', error)
    }
  }
  const keep = (next: Desired): Desired => {
    if (JSON.stringify(next) !== JSON.stringify(current)) isSaved = false
    current = next
    save()
    return next
  }
  return {
    save,
    current: () => current,
    take: (desired) => {
      const started = new Set(current?.workloads.filter((one) => one.started).map((one) => one.id))
      return keep(markStarted(desired, started))
    },
    seen: (observations) => {
      const running = new Set(observations.filter((one) => one.state === 'running').map((one) => one.id))
      if (current?.workloads.every((one) => one.started || !running.has(one.id)) !== false) return undefined
      return keep(markStarted(current, running))
    },
  }
}

export function forgetDesiredState(folder: AgentFolder): void {
  folder.remove(DESIRED_FILE)
}

function markStarted(desired: Desired, ids: ReadonlySet<string>): Desired {
  const workloads = desired.workloads.map((one) => (ids.has(one.id) ? { ...one, started: true } : one))
  return { ...desired, workloads }
}
