/**
 * The agent applies the desired state that the server sends and reports the observed state. This file wires its parts:
 * hardware discovery, a `Runtime` driven by the `Keeper`, the connection to the server, and the control socket.
 * Workloads keep running when the agent stops; the next agent adopts them.
 */
import { systemClock } from '../base/instant.ts'
import type { Desired, HostFault, HostMetrics, HostOffer, HostReport } from '../contract/agent.ts'
import { Keeper } from '../runtimes/keeper.ts'
import { ActivityWatch } from './activity.ts'
import { AgentError } from './agent-error.ts'
import { openConnection, type Connection, type ConnectionState, type Refusal } from './connection.ts'
import { serveControl, type ControlRequest } from './control.ts'
import type { HostRuntime, MakeRuntime } from './host-runtime.ts'
import { lockFolder, type AgentFolder } from './folder.ts'
import { GpuRelease, occupiedGpus, withoutHeld } from './gpu-release.ts'
import { faultsOf, type GpuSnapshot, type GpuSource } from './gpu-source.ts'
import { readHardware } from './hardware.ts'
import { openKey, type Membership } from './identity.ts'
import { handOverOutput } from './job-output.ts'
import { LastLogs } from './last-log.ts'
import { makeMeter } from './metrics.ts'
import { Mover, type HostState } from './move.ts'
import { clusterOf } from './cluster.ts'
import { makeOffer } from './offer.ts'
import { serveStream } from '../runtimes/stream.ts'
import { openDesiredState } from './desired-state.ts'
import { makeDownloads, weightsGbOf, type AgentDownloads } from './downloads.ts'
import { WorkloadMeter } from './workload-meter.ts'

export interface AgentOptions {
  readonly folder: AgentFolder
  readonly membership: Membership
  readonly version: string
  readonly gpus: GpuSource
  readonly makeRuntime: MakeRuntime
  /** Events for the console output. */
  readonly onEvent: (event: AgentEvent) => void
  /** Stops the agent, not its workloads. */
  readonly signal: AbortSignal
}

export type AgentEvent =
  | { readonly kind: 'offer'; readonly offer: HostOffer; readonly notes: readonly string[] }
  | { readonly kind: 'workloads'; readonly running: number; readonly total: number }
  | { readonly kind: 'state'; readonly state: HostState }
  | { readonly kind: 'error'; readonly message: string }
  | ConnectionState

export type AgentEnd =
  | { readonly kind: 'stopped' }
  /** The agent must be started again, after an update. */
  | { readonly kind: 'restart' }
  | { readonly kind: 'left' }
  | { readonly kind: 'refused'; readonly refusal: Refusal }

export interface AgentStatus {
  /** Absent: an agent before this field. */
  readonly version?: string
  readonly hostId: string
  readonly server: string
  readonly connected: boolean
  /** null: not known yet. */
  readonly state: HostState | null
  readonly offer: HostOffer
  readonly notes: readonly string[]
  /** Why it accepts no tenants. */
  readonly fault: HostFault | null
  readonly workloads: HostReport['workloads']
}

const PASS_MS = 2_000
/** The interval at which hardware is read and the server gets metrics. */
const HARDWARE_MS = 10_000
const MAX_NOTES = 50
const MAX_NOTE_CHARS = 2_000

export async function runAgent(options: AgentOptions): Promise<AgentEnd> {
  const lock = lockFolder(options.folder)
  try {
    const snapshot = await options.gpus.read(options.signal)
    return await new Agent(options, snapshot).run()
  } finally {
    options.gpus.close()
    lock.release()
  }
}

class Agent {
  readonly #options: AgentOptions
  readonly #runtime: HostRuntime
  readonly #downloads: AgentDownloads
  readonly #keeper: Keeper
  readonly #desired
  readonly #mover = new Mover()
  readonly #meter: (snapshot: GpuSnapshot) => HostMetrics
  readonly #activity = new ActivityWatch(() => performance.now())
  readonly #workloads = new WorkloadMeter(() => performance.now(), this.#activity)
  readonly #lastLogs: LastLogs
  readonly #release = new GpuRelease(() => performance.now())
  /** Repeated in messages between two measurements. */
  #lastMeasured: Pick<HostMetrics, 'workloads' | 'weights'> = {}
  #isMeasuring = false
  #snapshot: GpuSnapshot
  #offer: HostOffer
  #connection: Connection | undefined
  /** Why the runtime's state could not be read last time. */
  #runtimeError: string | undefined
  #isErrorReported = false
  #lastReported = { workloads: '', state: '', error: '' }
  #finish: (end: AgentEnd) => void = () => {}

  constructor(options: AgentOptions, snapshot: GpuSnapshot) {
    this.#options = options
    const onError = (what: string, error: unknown): void => this.#reportError(`${what}: ${messageOf(error)}`)
    this.#downloads = makeDownloads(options.folder, options.membership, openKey(options.folder))
    this.#runtime = options.makeRuntime(snapshot, onError, this.#downloads)
    this.#desired = openDesiredState(options.folder, onError)
    this.#snapshot = withoutHeld(snapshot, this.#desired.current())
    this.#release.read(snapshot, -Infinity)
    this.#offer = this.#makeOffer(this.#snapshot)
    this.#meter = makeMeter(options.folder.dir)
    this.#lastLogs = new LastLogs(this.#runtime, onError)
    this.#keeper = new Keeper({
      runtime: this.#runtime,
      beforeStop: (id) => this.#beforeStop(id),
      changed: () => this.#changed(),
      onError,
      now: () => performance.now(),
    })
  }

  async run(): Promise<AgentEnd> {
    const { signal, membership, onEvent } = this.#options
    const ended = new Promise<AgentEnd>((resolve) => (this.#finish = resolve))
    const stop = new AbortController()
    onEvent({ kind: 'offer', offer: this.#offer, notes: this.#notes() })
    const last = this.#desired.current()
    if (last !== undefined) this.#keeper.desire(last)
    const control = await serveControl(this.#options.folder, (request) => this.#answer(request))
    const connection = openConnection({
      server: membership.server,
      hostId: membership.hostId,
      installation: membership.installation,
      key: openKey(this.#options.folder),
      version: this.#options.version,
      report: () => this.#report(),
      desired: (desired) => this.#applyDesired(desired),
      accept: (request, stream) => {
        const open: HostRuntime['open'] = (parsed, signal) => this.#activity.open(this.#runtime, parsed, signal)
        serveStream({ open }, request, stream).catch((error: unknown) => this.#reportError(messageOf(error)))
      },
      state: (state) => this.#connectionChanged(state),
    })
    this.#connection = connection
    void this.#awaitRefusal(connection)
    const unwatch = this.#runtime.watch?.(() => void this.#pass(stop.signal))
    const timers = [
      setInterval(() => void this.#pass(stop.signal), PASS_MS),
      setInterval(() => void this.#measure(stop.signal), HARDWARE_MS),
    ]
    signal.addEventListener('abort', () => this.#finish({ kind: 'stopped' }), { once: true })
    if (signal.aborted) this.#finish({ kind: 'stopped' })
    void this.#pass(stop.signal)
    try {
      return await ended
    } finally {
      for (const timer of timers) clearInterval(timer)
      unwatch?.()
      this.#keeper.close()
      stop.abort()
      control.close()
      connection.close()
      await this.#runtime.close()
    }
  }

  async #awaitRefusal(connection: Connection): Promise<void> {
    const refusal = await connection.ended
    if (refusal === undefined) return
    this.#mover.onRefusal(refusal)
    this.#finish({ kind: 'refused', refusal })
  }

  #makeOffer(snapshot: GpuSnapshot): HostOffer {
    const { membership, folder } = this.#options
    const disk = this.#runtime.diskLimit?.()
    const hardware = {
      ...readHardware(folder.dir),
      storageGb: membership.storageGb - weightsGbOf(membership),
      ...(disk === undefined ? {} : { disk }),
    }
    const offer = makeOffer(membership.terms, hardware, snapshot)
    const cluster = clusterOf(membership)
    const hasPersistentStorage = this.#runtime.volumes !== undefined
    if (offer !== undefined) return { ...offer, hasPersistentStorage, ...(cluster === undefined ? {} : { cluster }) }
    throw new AgentError(`No GPU to offer. ${snapshot.notes.join(' ')}`.trim(), [
      'To try Berth without a GPU, simulate some: --simulate-gpus rtx4090:2',
    ])
  }

  #applyDesired(desired: Desired): void {
    const merged = this.#desired.take(desired)
    this.#keeper.desire(merged)
    this.#mover.onState(desired.state)
    if (this.#lastReported.state !== desired.state) this.#options.onEvent({ kind: 'state', state: desired.state })
    this.#lastReported.state = desired.state
    if (desired.state === 'left') return this.#finish({ kind: 'left' })
    void this.#pass()
  }

  async #pass(signal: AbortSignal = this.#options.signal): Promise<void> {
    try {
      const broken = this.#options.gpus.readFaults?.()
      if (broken !== undefined) this.#takeSnapshot(broken)
      this.#desired.save()
      await this.#keeper.pass(signal)
      if (this.#runtimeError !== undefined) this.#connection?.reportSoon()
      this.#checkReleased(signal)
      this.#runtimeError = undefined
      this.#isErrorReported = false
    } catch (error) {
      if (signal.aborted) return
      this.#runtimeError = this.#keeper.hide(messageOf(error))
      this.#reportError(this.#runtimeError)
      this.#connection?.reportSoon()
    }
  }

  /** One measurement at a time: a driver can hang on a lost device. */
  async #measure(signal: AbortSignal): Promise<void> {
    if (this.#isMeasuring) return
    this.#isMeasuring = true
    try {
      await this.#readHardware(signal)
      await this.#sendMetrics(signal)
    } catch (error) {
      if (!signal.aborted) this.#reportError(messageOf(error))
    } finally {
      this.#isMeasuring = false
    }
  }

  async #readHardware(signal: AbortSignal): Promise<void> {
    const startedAt = performance.now()
    const read = await this.#options.gpus.read(signal)
    if (signal.aborted) return
    this.#release.read(read, startedAt)
    this.#takeSnapshot(read)
    if (this.#release.hasEnded) this.#connection?.reportSoon()
    const desired = this.#desired.current()
    // Without the desired state, nobody knows which GPUs have tenants.
    if (desired !== undefined) this.#options.gpus.repair?.(occupiedGpus(desired), signal)
  }

  #takeSnapshot(read: GpuSnapshot): void {
    const snapshot = withoutHeld(read, this.#desired.current())
    const offer = this.#makeOffer(snapshot)
    const isChanged = JSON.stringify([offer, snapshot.notes]) !== JSON.stringify([this.#offer, this.#snapshot.notes])
    this.#snapshot = snapshot
    this.#offer = offer
    if (!isChanged) return
    this.#options.onEvent({ kind: 'offer', offer, notes: this.#notes() })
    this.#connection?.reportSoon()
  }

  /** The server keeps the GPUs of an ended machine until a reading shows that their memory is free. */
  #checkReleased(signal: AbortSignal): void {
    this.#pending()
    if (this.#release.isWaiting) void this.#measure(signal)
  }

  #pending(): HostReport['workloads'] {
    const report = this.#keeper.report()
    return report === undefined ? [] : this.#release.pending(this.#desired.current(), report.workloads)
  }

  async #sendMetrics(signal: AbortSignal): Promise<void> {
    const measured = await this.#runtime.measure?.(signal)
    const weights = await this.#downloads.weightsUse()
    if (signal.aborted) return
    this.#lastLogs.keep(this.#keeper.report()?.workloads.map(({ id }) => id) ?? [])
    const workloads = measured === undefined ? {} : { workloads: this.#workloads.read(measured) }
    this.#lastMeasured = { ...this.#lastMeasured, ...workloads, ...weights }
    this.#send()
  }

  #send(): void {
    const lastLogs = this.#lastLogs.take()
    const logs = lastLogs.length === 0 ? {} : { lastLogs }
    const metrics = { ...this.#meter(this.#snapshot), ...this.#lastMeasured, ...logs }
    if (this.#connection?.sendMetrics(metrics) !== true) this.#lastLogs.giveBack(lastLogs)
  }

  /** The log of a job is whole once its program has ended. */
  async #beforeStop(id: string): Promise<void> {
    const { membership, folder, signal } = this.#options
    const authorize = (path: string): string => openKey(folder).authorize(membership, path)
    await handOverOutput({ runtime: this.#runtime, server: membership.server, authorize }, id, signal)
    await this.#keepLastLog(id)
  }

  /** Sent at once: the server takes it only while the workload is still on this host. */
  async #keepLastLog(workloadId: string): Promise<void> {
    if (await this.#lastLogs.read(workloadId)) this.#send()
  }

  #changed(): void {
    const workloads = this.#keeper.report()?.workloads ?? []
    const updated = this.#desired.seen(workloads)
    if (updated !== undefined) this.#keeper.desire(updated)
    const running = workloads.filter((one) => one.state === 'running').length
    const summary = `${running} of ${workloads.length}`
    if (this.#lastReported.workloads !== summary) {
      this.#options.onEvent({ kind: 'workloads', running, total: workloads.length })
    }
    this.#lastReported.workloads = summary
    this.#checkReleased(this.#options.signal)
    this.#connection?.reportSoon()
  }

  /**
   * While the runtime's state cannot be read, one report says so and then none is sent: workloads may have ended, so the
   * server treats the host as offline, bills nobody for it and rents it to nobody.
   */
  #report(): HostReport | undefined {
    if (this.#runtimeError !== undefined && this.#isErrorReported) return undefined
    this.#isErrorReported = this.#runtimeError !== undefined
    const report = this.#keeper.report()
    const blind = report === undefined || this.#runtimeError !== undefined ? { blind: true } : {}
    const observed = report ?? { generation: 0, workloads: [], volumes: [] }
    const fault = this.#runtime.fault?.()
    const problem = fault === undefined ? {} : { fault }
    const workloads = [...observed.workloads, ...this.#pending()]
    const gpuFaults = faultsOf(this.#snapshot)
    const offered = { offer: this.#offer, gpuFaults, notes: this.#notes() }
    return { type: 'report', sentAt: systemClock.now(), ...offered, ...observed, workloads, ...problem, ...blind }
  }

  #notes(): string[] {
    const error =
      this.#runtimeError === undefined ? [] : [`Cannot read the state of the workloads: ${this.#runtimeError}`]
    return [...error, ...this.#snapshot.notes, ...this.#runtime.notes()]
      .slice(0, MAX_NOTES)
      .map((note) => note.slice(0, MAX_NOTE_CHARS))
  }

  #connectionChanged(state: ConnectionState): void {
    this.#options.onEvent(state)
    if (state.kind === 'refused') this.#mover.onRefusal(state.refusal)
    if (state.kind === 'connected') this.#send()
  }

  /** Repeats of the same error are dropped. */
  #reportError(text: string): void {
    const message = this.#keeper.hide(text)
    if (this.#lastReported.error !== message) this.#options.onEvent({ kind: 'error', message })
    this.#lastReported.error = message
  }

  async #answer(request: ControlRequest): Promise<AgentStatus | { state: HostState } | null> {
    if (request.command === 'restart') {
      // The answer goes out first.
      setImmediate(() => this.#finish({ kind: 'restart' }))
      return null
    }
    if (request.command === 'move') {
      if (this.#connection === undefined)
        throw new AgentError('The agent is still starting.', ['Try again in a few seconds.'])
      return { state: await this.#mover.ask(request.to, this.#connection) }
    }
    const { hostId, server } = this.#options.membership
    return {
      version: this.#options.version,
      hostId,
      server,
      connected: this.#connection?.isConnected ?? false,
      state: this.#desired.current()?.state ?? null,
      offer: this.#offer,
      notes: this.#notes(),
      fault: this.#runtime.fault?.() ?? null,
      workloads: this.#keeper.report()?.workloads ?? [],
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
