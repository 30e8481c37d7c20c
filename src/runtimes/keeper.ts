/**
 * Reconciles a host with its desired state and reports what runs there. It compares the whole desired state with the
 * list of the runtime and acts; it keeps no state that matters, so restarts and lost or repeated messages are harmless.
 * Workloads that nobody desires are reported and left alone: the database may have been restored from a backup.
 *
 *   desired  found    has run   action
 *   run      nothing  no        start; one that moves here gets its disk from the server first
 *   run      nothing  yes       report it as lost; never create it again
 *   run      ended    -         restart: it ended unobserved, or its order asks for it
 *   run      waiting  -         join the network of its group; let its program start once the group is open
 *   run      running  -         attach and detach disks; reboot, if more reboots are desired than it has had; tell its
 *                               programs of an interruption
 *   off      ended    -         report it as stopped
 *   off      other    -         halt
 *   off      nothing  yes       report it as stopped, with its disk lost
 *   gone     any      -         stop
 *   gone     nothing  -         gone; if the runtime leaves traces, only after a successful stop
 *
 * What the list shows during a task of ours is a step of that task, and never reported as the end of the workload: the
 * server gives up what has ended, with its disk.
 */
import { REBOOTING, type Desired, type HostReport, type Observation, type Workload } from '../contract/agent.ts'
import { CustomerError, NeverStarts, type WorkloadStatus, type Runtime } from './runtime.ts'
import { SecretMask } from './secret-mask.ts'
import { VolumeKeeper } from './volume-keeper.ts'

export interface KeeperOptions {
  readonly runtime: Runtime
  /** The report has changed. */
  readonly changed: () => void
  readonly onError: (what: string, error: unknown) => void
  /** Called before a workload is removed, and awaited. */
  readonly beforeStop?: (id: string) => Promise<void>
  /** Milliseconds, for retry delays. */
  readonly now: () => number
}

export type KeeperReport = Pick<HostReport, 'generation' | 'workloads' | 'volumes' | 'volumeSizes' | 'volumeFaults'>

/** Parallel starts. Stops never wait for starts. */
const WIDTH = 8
const BACK_OFF_MS = [500, 1_000, 2_000, 5_000, 10_000, 30_000] as const
const MAX_MESSAGE_CHARS = 500
/** For the customer, in place of an error of the runtime, which names paths and daemons of the host. */
export const START_FAILED = 'The host could not start this machine and is trying again.'

interface Task {
  /** undefined: between attempts. */
  running: AbortController | undefined
  doing: 'start' | 'stop' | 'halt' | 'reboot' | 'disks' | 'group' | 'announce' | undefined
  failures: number
  notBefore: number
  message: string | undefined
  /** The last task, if it has succeeded. */
  done: Task['doing']
  /** Why it can never start. */
  never: { reason: string; message: string } | undefined
}

export class Keeper {
  readonly #options: KeeperOptions
  #desired: Desired | undefined
  #report: KeeperReport | undefined
  readonly #tasks = new Map<string, Task>()
  readonly #secrets = new SecretMask()
  readonly #volumes: VolumeKeeper | undefined
  #busy = 0
  #passing: Promise<void> | undefined
  #again = false
  #closed = false

  constructor(options: KeeperOptions) {
    this.#options = options
    const { runtime, onError } = options
    if (runtime.volumes === undefined) return
    this.#volumes = new VolumeKeeper({
      volumes: runtime.volumes,
      changed: (signal) => this.#passAgain(signal),
      onError,
      messageOf: (error) => this.#messageOf(error),
    })
  }

  /** Replaces the desired state; `pass` acts on it. */
  desire(desired: Desired): void {
    this.#desired = desired
    this.#secrets.learn(desired.workloads)
    for (const workload of desired.workloads) {
      if (workload.want === 'gone' || workload.power === 'off') this.#abort(workload.id, 'start')
      // A host may take minutes to boot; what should go does not wait for it.
      if (workload.want === 'gone') this.#abort(workload.id, 'reboot')
    }
  }

  /** Removes the values of secrets. Used for every text that is logged or shown. */
  hide(text: string): string {
    return this.#secrets.hide(text)
  }

  get generation(): number {
    return this.#desired?.generation ?? 0
  }

  /** undefined: before the first pass. */
  report(): KeeperReport | undefined {
    return this.#report
  }

  /** Lists and acts once. Tasks run on in the background and trigger another pass when they end. */
  pass(signal: AbortSignal): Promise<void> {
    if (this.#passing !== undefined) {
      this.#again = true
      return this.#passing
    }
    this.#passing = this.#passOnce(signal).finally(() => {
      this.#passing = undefined
      if (this.#again && !this.#closed) {
        this.#again = false
        void this.pass(signal).catch((error: unknown) => this.#options.onError('pass', error))
      }
    })
    return this.#passing
  }

  #passAgain(signal: AbortSignal): void {
    if (!this.#closed) void this.pass(signal).catch((error: unknown) => this.#options.onError('pass', error))
  }

  /** Aborts tasks. Workloads keep running. */
  close(): void {
    this.#closed = true
    for (const task of this.#tasks.values()) task.running?.abort()
  }

  async #passOnce(signal: AbortSignal): Promise<void> {
    const desired = this.#desired
    const { runtime } = this.#options
    const statuses = new Map((await runtime.list(signal)).map((one) => [one.id, one]))
    if (desired === undefined) return
    const volumes = (await this.#volumes?.reconcile(desired.volumes, signal)) ?? { volumes: [] }
    // The desired state changed meanwhile: do not start a workload that should go.
    if (this.#desired !== desired) {
      this.#again = true
      return
    }
    const desiredIds = new Set(desired.workloads.map(({ id }) => id))
    for (const [id, task] of this.#tasks) if (!desiredIds.has(id) && task.running === undefined) this.#tasks.delete(id)
    for (const workload of desired.workloads) this.#reconcileWorkload(workload, statuses.get(workload.id), signal)
    const observations = desired.workloads.flatMap(
      (workload) => this.#observe(workload, statuses.get(workload.id)) ?? [],
    )
    const unknown = [...statuses.values()].filter((one) => !desiredIds.has(one.id)).map(observationOf)
    this.#publish({ generation: desired.generation, workloads: [...observations, ...unknown], ...volumes })
  }

  #publish(report: KeeperReport): void {
    const before = JSON.stringify(this.#report)
    const workloads = report.workloads.map((one) =>
      one.message === undefined ? one : { ...one, message: this.hide(one.message) },
    )
    this.#report = { ...report, workloads }
    if (before !== JSON.stringify(this.#report)) this.#options.changed()
  }

  #reconcileWorkload(workload: Workload, status: WorkloadStatus | undefined, signal: AbortSignal): void {
    const task = this.#taskOf(workload.id)
    if (workload.want === 'gone') {
      // The workload may come back, if it moves here once more.
      task.never = undefined
      if (status !== undefined || !this.#isProvenGone(task)) this.#begin(workload, task, 'stop', signal)
      return
    }
    if (workload.spec === null) return
    if (workload.power === 'off') {
      // The obstacle to its start may be over when it is turned on again.
      task.never = undefined
      if (!isOff(status, task) && this.#options.runtime.halt !== undefined) this.#begin(workload, task, 'halt', signal)
      return
    }
    if (task.never !== undefined) return
    const isNew = status === undefined && !hasRun(workload)
    // The next pass looks again.
    if (status?.state === 'ended' && (status.waitMs ?? 0) > 0) return
    if (status?.state === 'starting' && status.group !== undefined) {
      if (mayJoin(workload, status.group)) this.#begin(workload, task, 'group', signal)
    } else if (isNew || status?.state === 'ended' || status?.state === 'starting')
      this.#begin(workload, task, 'start', signal)
    else if (status?.state === 'running' && this.#needsReboot(workload, status))
      this.#begin(workload, task, 'reboot', signal)
    else if (status?.state === 'running' && this.#options.runtime.setDisks !== undefined && differs(workload, status))
      this.#begin(workload, task, 'disks', signal)
    else if (status?.state === 'running' && this.#needsNotice(workload, status))
      this.#begin(workload, task, 'announce', signal)
  }

  #isProvenGone(task: Task | undefined): boolean {
    return this.#options.runtime.leavesTraces !== true || task?.done === 'stop'
  }

  #taskOf(id: string): Task {
    const existingTask = this.#tasks.get(id)
    if (existingTask !== undefined) return existingTask
    const task: Task = {
      running: undefined,
      doing: undefined,
      failures: 0,
      notBefore: 0,
      message: undefined,
      done: undefined,
      never: undefined,
    }
    this.#tasks.set(id, task)
    return task
  }

  #abort(id: string, doing: Task['doing']): void {
    const task = this.#tasks.get(id)
    if (task?.doing === doing) task?.running?.abort()
  }

  #begin(workload: Workload, task: Task, doing: NonNullable<Task['doing']>, signal: AbortSignal): void {
    const { now } = this.#options
    if (task.running !== undefined || this.#closed) return
    if (doing === 'start' && this.#busy >= WIDTH) return
    if (task.doing === doing && now() < task.notBefore) return
    if (task.doing !== doing) Object.assign(task, { failures: 0, notBefore: 0, message: undefined })
    const control = new AbortController()
    Object.assign(task, { running: control, doing, done: undefined })
    if (doing === 'start') this.#busy += 1
    const work = this.#do(workload, task, doing, AbortSignal.any([signal, control.signal]))
    void work
      .then(
        () => Object.assign(task, { failures: 0, notBefore: 0, message: undefined, done: doing }),
        (error: unknown) => this.#failed(workload, task, doing, error),
      )
      .finally(() => {
        task.running = undefined
        if (doing === 'start') this.#busy -= 1
        this.#passAgain(signal)
      })
  }

  async #do(workload: Workload, task: Task, doing: NonNullable<Task['doing']>, signal: AbortSignal): Promise<void> {
    const { runtime } = this.#options
    if (doing === 'stop') {
      await this.#options.beforeStop?.(workload.id)
      return runtime.stop(workload.id, signal)
    }
    if (doing === 'halt') return runtime.halt?.(workload.id, signal)
    if (doing === 'reboot') return runtime.reboot?.(workload, signal)
    if (doing === 'group') return runtime.joinGroup?.(workload, signal)
    if (doing === 'disks') return runtime.setDisks?.(workload, signal)
    if (doing === 'announce') return runtime.announceEnd?.(workload, signal)
    await runtime.start(
      workload,
      (message) => {
        if (task.message === message) return
        task.message = message
        this.#restate(workload.id, message)
      },
      signal,
    )
  }

  #failed(workload: Workload, task: Task, doing: string, error: unknown): void {
    task.notBefore = this.#options.now() + (BACK_OFF_MS[Math.min(task.failures, BACK_OFF_MS.length - 1)] ?? 30_000)
    task.failures += 1
    if (error instanceof NeverStarts) {
      task.never = { reason: error.reason, message: error.message }
      return
    }
    const isForOthers = doing === 'start' && !(error instanceof CustomerError)
    task.message = isForOthers ? START_FAILED : this.#messageOf(error)
    this.#options.onError(`${doing} ${workload.tag}`, error)
  }

  /** Secrets are hidden before the text is cut: half of one is still too much. */
  #messageOf(error: unknown): string {
    return this.hide(error instanceof Error ? error.message : String(error)).slice(0, MAX_MESSAGE_CHARS)
  }

  /** Publishes progress without another pass. */
  #restate(id: string, message: string): void {
    if (this.#report === undefined) return
    this.#publish({
      ...this.#report,
      workloads: this.#report.workloads.map((one) =>
        one.id === id && one.state === 'starting' ? { ...one, message } : one,
      ),
    })
  }

  #observe(workload: Workload, status: WorkloadStatus | undefined): Observation | undefined {
    const { id, tag } = workload
    const task = this.#tasks.get(id)
    if (workload.want === 'gone') {
      // Left out of the report: gone.
      if (status === undefined && task?.running === undefined && this.#isProvenGone(task)) return undefined
      const message = task?.message === undefined ? {} : { message: task.message }
      return { id, tag, state: 'stopping', disks: [...(status?.disks ?? [])], ...message }
    }
    if (workload.power === 'off' && workload.spec !== null) return this.#observeOff(workload, status)
    if (task?.never !== undefined) {
      return { id, tag, state: 'failed', failure: task.never.reason, message: task.never.message, disks: [] }
    }
    // A workload that we did not create is gone: nothing to report.
    if (status === undefined && workload.spec === null) return undefined
    const doing = task?.running === undefined ? undefined : task.doing
    // Off and on again on request is no outage.
    if (doing === 'reboot') {
      const base = status?.state === 'running' ? status : { id, tag, disks: status?.disks ?? [] }
      return { ...observationOf({ ...base, state: 'running' }), message: REBOOTING }
    }
    if (status === undefined && hasRun(workload) && doing !== 'start')
      return { id, tag, state: 'failed', ...lost, disks: [] }
    const isStep = doing === 'start' && status?.state !== 'running'
    if (status === undefined || isStep || status.state === 'starting' || status.state === 'ended') {
      const message = task?.message ?? status?.message
      return {
        id,
        tag,
        state: 'starting',
        disks: [],
        ...(message === undefined ? {} : { message }),
        ...(status?.group?.links === undefined ? {} : { group: { links: [...status.group.links] } }),
      }
    }
    const observation = observationOf(status)
    // A disk could not be attached or detached.
    const isLacking = task?.doing === 'disks' && task.message !== undefined
    return isLacking ? { ...observation, message: task.message } : observation
  }

  #needsReboot(workload: Workload, status: WorkloadStatus): boolean {
    return this.#options.runtime.reboot !== undefined && (workload.reboots ?? 0) > (status.reboots ?? 0)
  }

  #needsNotice(workload: Workload, status: WorkloadStatus): boolean {
    return this.#options.runtime.announceEnd !== undefined && workload.endsAt !== status.endsAt
  }

  /** A workload counts as running until it is off. */
  #observeOff(workload: Workload, status: WorkloadStatus | undefined): Observation {
    const { id, tag } = workload
    const task = this.#tasks.get(id)
    if (task?.running === undefined && isOff(status, task)) {
      const { failure, message } = status ?? (workload.started ? lost : {})
      return { id, tag, state: 'stopped', ...(failure === undefined ? {} : { failure, message }), disks: [] }
    }
    const message = task?.message === undefined ? {} : { message: task.message }
    return { id, tag, state: 'running', disks: [...(status?.disks ?? [])], ...message }
  }
}

/** A workload may join until it is in its group's network, and again when its program may start. */
function mayJoin({ group }: Workload, { links }: NonNullable<WorkloadStatus['group']>): boolean {
  return group !== undefined && (links === undefined || group.isOpen)
}

/** Whether a workload has run here. It has not if its disk is on another host. */
function hasRun({ started, copies }: Workload): boolean {
  return started && copies !== true
}

const lost = { failure: 'vanished', message: 'The machine disappeared from its host.' }

/** Whether a workload is off. One that cannot run is off once it was halted. */
function isOff(status: WorkloadStatus | undefined, task: Task | undefined): boolean {
  return status === undefined || status.state === 'ended' || (status.state === 'failed' && task?.done === 'halt')
}

function observationOf(status: WorkloadStatus): Observation {
  return {
    id: status.id,
    tag: status.tag,
    state: status.state === 'ended' ? 'failed' : status.state,
    ...(status.state === 'ended' ? { failure: 'ended' } : {}),
    ...(status.failure === undefined ? {} : { failure: status.failure }),
    ...(status.message === undefined ? {} : { message: status.message }),
    ...(status.exitCode === undefined ? {} : { exitCode: status.exitCode }),
    ...(status.endedAt === undefined ? {} : { endedAt: status.endedAt }),
    ...(status.sshUser === undefined ? {} : { sshUser: status.sshUser }),
    ...(status.incarnation === undefined ? {} : { incarnation: status.incarnation }),
    disks: [...status.disks],
  }
}

function differs(workload: Workload, status: WorkloadStatus): boolean {
  const desiredIds = workload.disks.map((one) => one.volumeId).sort()
  const there = [...status.disks].sort()
  return desiredIds.join() !== there.join()
}
