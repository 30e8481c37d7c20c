/**
 * The last thing that the server wanted of this machine, kept in the folder: after a reboot without a server, what
 * should run is started again. What has once been seen running is remembered as started, also while the server does not
 * know it yet, so that what then vanishes is reported as lost and never made a second time. A disk that takes nothing
 * any more is told, and what is wanted is done all the same; it is written when that can be done again.
 */
import { desired as desiredSchema, type Desired, type Observation } from '../contract/agent.ts'
import type { AgentFolder } from './folder.ts'

const WANTED_FILE = 'desired.json'

export interface Wanted {
  /** undefined: nothing was ever wanted. */
  current(): Desired | undefined
  /** Takes what the server says, and gives it with what is known here. */
  take(desired: Desired): Desired
  /** What runs now. Gives the whole anew where that says more than was known. */
  seen(observations: readonly Observation[]): Desired | undefined
  /** Writes what could not be written before; nothing where all is. */
  save(): void
}

export function openWanted(folder: AgentFolder, onError: (what: string, error: unknown) => void): Wanted {
  let current = folder.readJson(WANTED_FILE, desiredSchema)
  let isSaved = true
  const save = (): void => {
    if (isSaved) return
    try {
      folder.writeJson(WANTED_FILE, current)
      isSaved = true
    } catch (error) {
      onError('what is wanted of this host cannot be kept over a restart', error)
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

export function forgetWanted(folder: AgentFolder): void {
  folder.remove(WANTED_FILE)
}

function markStarted(desired: Desired, ids: ReadonlySet<string>): Desired {
  const workloads = desired.workloads.map((one) => (ids.has(one.id) ? { ...one, started: true } : one))
  return { ...desired, workloads }
}
