/**
 * The agent's work for bare-metal hosts, done by a server over SSH. Each host has a lane: a lease held by one server, a
 * connection, and a `Keeper`. A pass only starts due work, which continues in the background, so that a cleaning of
 * twenty minutes blocks nothing.
 *
 * Two rules prevent cleaning under a tenant: a lane acts only on data read after it got the lease, and after it moved a
 * host (admitted, quarantined) only on data read after that.
 *
 *   ready, draining     reconcile and report
 *   cleaning            new host: check it; from quarantine: clean it. Then ready, or quarantined again
 *   quarantined         lock the last tenant out repeatedly, in case a reboot or a person restored access; nothing else
 *   left                nothing
 */
import type { HostMetrics, HostReport } from '../../contract/agent.ts'
import { Keeper } from '../../runtimes/keeper.ts'
import { CleaningFailed, type CleaningStep } from '../../runtimes/ssh/cleaning.ts'
import type { RestartLimits } from '../../runtimes/ssh/restart.ts'
import { Sampler } from '../../runtimes/ssh/measure.ts'
import { metalRuntime, type MetalRuntime } from '../../runtimes/ssh/runtime.ts'
import type { MetalHost, MetalWorld } from './world.ts'

export interface KeepMetalOptions {
  readonly world: MetalWorld
  readonly clusterSecret: string | Buffer
  readonly log: { warn(facts: object, message: string): void }
  /** Receives the usage of rented hosts. Absent: usage is not measured. */
  readonly measured?: (hostId: string, metrics: HostMetrics) => void
  readonly everyMs?: number
  /** Interval for locking tenants out of a quarantined host. */
  readonly guardEveryMs?: number
  readonly limits?: RestartLimits
}

/** This has the shape of a `Reconciler`. */
export interface MetalKeeping {
  readonly name: 'metal'
  readonly everyMs: number
  run(signal: AbortSignal): Promise<boolean>
  close(): Promise<void>
}

const EVERY_MS = 1_500
/**
 * How long a killed server keeps its hosts from the others. Together with one polling interval it must stay below
 * `SILENT_MS`, after which the state of the host is unknown.
 */
const LEASE_MS = 6_000
/** Age at which a lease is renewed; passes continue during long work. */
const RENEW_AFTER_MS = 1_000
/** Polling interval without changes. */
const POLL_MS = 3_000
const GUARD_EVERY_MS = 30_000
const MAX_REASON_CHARS = 500

export function keepMetal(options: KeepMetalOptions): MetalKeeping {
  const lanes = new Map<string, Lane>()
  return {
    name: 'metal',
    everyMs: options.everyMs ?? EVERY_MS,
    async run(signal) {
      const listedAt = performance.now()
      const hosts = await options.world.listMetalHosts()
      const active = new Map(hosts.filter(({ state }) => state !== 'left').map((host) => [host.id, host]))
      const ended = [...lanes].filter(([id, lane]) => !active.has(id) && !lane.hasUnsavedFailure)
      for (const [id] of ended) lanes.delete(id)
      await Promise.all(ended.map(([, lane]) => lane.close()))
      if (signal.aborted) return false
      const started = [...active.values()].map(async (host) => {
        const lane = lanes.get(host.id) ?? new Lane(options, host.id)
        lanes.set(host.id, lane)
        return lane.tick(host, listedAt)
      })
      return (await Promise.all(started)).includes(true)
    },
    async close() {
      await Promise.all([...lanes.values()].map((lane) => lane.close()))
      lanes.clear()
    },
  }
}

interface HostSession {
  /** Identifies the access data; a change needs a new connection. */
  readonly identity: string
  readonly hostKey: string | undefined
  readonly runtime: MetalRuntime
  readonly keeper: Keeper
  readonly stop: AbortController
}

class Lane {
  readonly #options: KeepMetalOptions
  readonly #id: string
  readonly #sampler: Sampler | undefined
  #expiry: NodeJS.Timeout | undefined
  #lease: { token: string; until: number; takenAt: number } | undefined
  #work: HostSession | undefined
  #host: MetalHost | undefined
  /** A check, admission or cleaning is running. Tasks of the keeper are not counted. */
  #isBusy = false
  #saving: Promise<void> = Promise.resolve()
  #passedAt = Number.NEGATIVE_INFINITY
  #passedGeneration = -1
  /** When this lane last changed the state of the host. */
  #movedAt = Number.NEGATIVE_INFINITY
  /** A failure to report before anything else. */
  #failure: { reason: string; workloadId: string | null } | undefined
  /** Warnings already logged, by message. */
  readonly #logged = new Map<string, string>()
  #step: CleaningStep | undefined
  #guardedAt = Number.NEGATIVE_INFINITY
  #guardFailure: string | undefined
  #learnedHostKey: string | undefined

  constructor(options: KeepMetalOptions, id: string) {
    this.#options = options
    this.#id = id
    const { measured } = options
    const warn = (error: unknown): void => this.#warn(error, 'could not measure a bare-metal host')
    this.#sampler = measured && new Sampler((metrics) => measured(id, metrics), warn)
  }

  /** Tells whether a failure is not saved yet. */
  get hasUnsavedFailure(): boolean {
    return this.#failure !== undefined
  }

  /** Starts due work. Returns true if the lane just got the lease and needs fresh data. */
  async tick(host: MetalHost, listedAt: number): Promise<boolean> {
    try {
      if (!(await this.#holdLease())) return false
    } catch (error) {
      this.#warn(error, 'could not renew the lease on a bare-metal host')
      if (this.#lease === undefined || performance.now() > this.#lease.until) this.#release()
      return false
    }
    if (this.#failure !== undefined) {
      await this.#saveFailure()
      return false
    }
    if (this.#lease === undefined || listedAt < Math.max(this.#lease.takenAt, this.#movedAt)) return true
    this.#host = host
    if (this.#work !== undefined && !this.#isStillFor(this.#work, host)) this.#release()
    if (this.#isBusy || !this.#isDue(host)) return false
    this.#isBusy = true
    this.#workOn(host)
      .catch((error: unknown) => this.#warn(error, 'work on a bare-metal host failed; retrying'))
      .finally(() => (this.#isBusy = false))
    return false
  }

  async close(): Promise<void> {
    clearTimeout(this.#expiry)
    this.#release()
    const token = this.#lease?.token
    this.#lease = undefined
    if (token === undefined) return
    await this.#options.world.giveHost(this.#id, token).catch((error: unknown) => {
      this.#warn(error, 'could not release the lease on a bare-metal host; it expires by itself')
    })
  }

  async #holdLease(): Promise<boolean> {
    const { world } = this.#options
    const now = performance.now()
    if (this.#lease !== undefined) {
      if (this.#lease.until - now > LEASE_MS - RENEW_AFTER_MS) return true
      if (await world.renewHost(this.#id, this.#lease.token, LEASE_MS)) {
        this.#lease.until = now + LEASE_MS
        this.#releaseAt(now + LEASE_MS)
        return true
      }
      this.#lease = undefined
      this.#release()
    }
    const token = await world.takeHost(this.#id, LEASE_MS)
    if (token === undefined) return false
    this.#lease = { token, until: now + LEASE_MS, takenAt: performance.now() }
    this.#releaseAt(now + LEASE_MS)
    return true
  }

  /** Stops the work when the lease ends, even without a pass, since another server may act on the host then. */
  #releaseAt(until: number): void {
    clearTimeout(this.#expiry)
    this.#expiry = setTimeout(() => this.#release(), until - performance.now()).unref()
  }

  /** Aborts work of this server. The host continues with its own. */
  #release(): void {
    const work = this.#work
    this.#work = undefined
    this.#passedAt = Number.NEGATIVE_INFINITY
    if (work === undefined) return
    work.stop.abort()
    work.keeper.close()
    work.runtime.close()
  }

  /** A learned host key does not change the identity; one set by the operator does. */
  #isStillFor({ identity, hostKey }: HostSession, host: MetalHost): boolean {
    const key = host.access.hostKey
    return identity === identityOf(host) && (key === undefined || key === (hostKey ?? this.#learnedHostKey))
  }

  #workOn(host: MetalHost): Promise<void> {
    if (host.state === 'quarantined') return this.#guard(host)
    return host.state === 'cleaning' ? this.#admit(host) : this.#keep(host)
  }

  #isDue(host: MetalHost): boolean {
    if (host.state === 'cleaning') return true
    if (host.state === 'quarantined') {
      return performance.now() - this.#guardedAt >= (this.#options.guardEveryMs ?? GUARD_EVERY_MS)
    }
    return host.generation !== this.#passedGeneration || performance.now() - this.#passedAt >= POLL_MS
  }

  async #keep(host: MetalHost): Promise<void> {
    const { world } = this.#options
    const work = this.#workFor(host)
    const { keeper, stop } = work
    try {
      const desired = await world.readDesired(this.#id)
      if (stop.signal.aborted) return
      keeper.desire(desired)
      await keeper.pass(stop.signal)
      this.#passedGeneration = desired.generation
      this.#passedAt = performance.now()
      await this.#save()
      this.#works()
      this.#measure(work)
    } catch (error) {
      if (!stop.signal.aborted) this.#warn(error, 'could not check a bare-metal host')
    }
  }

  #measure({ runtime, stop }: HostSession): void {
    const tenant = this.#report()?.workloads.find(({ state, message }) => state === 'running' && message === undefined)
    if (tenant !== undefined) this.#sampler?.tick(() => runtime.measureHost(tenant.id, stop.signal), stop.signal)
  }

  async #guard(host: MetalHost): Promise<void> {
    const { runtime, stop } = this.#workFor(host)
    this.#guardedAt = performance.now()
    try {
      await runtime.lockOut(stop.signal)
      this.#guardFailure = undefined
    } catch (error) {
      if (stop.signal.aborted) return
      // The host may be off for weeks.
      const why = error instanceof Error ? error.message : String(error)
      if (why !== this.#guardFailure) this.#warn(error, 'could not lock the last tenant out of a quarantined host')
      this.#guardFailure = why
    } finally {
      this.#release()
    }
  }

  async #admit(host: MetalHost): Promise<void> {
    const { world } = this.#options
    const { runtime, stop } = this.#workFor(host)
    try {
      if (host.reason !== 'new') await runtime.clean(stop.signal)
      const faults = await runtime.check(stop.signal)
      stop.signal.throwIfAborted()
      if (faults.length > 0) return await this.#fail(faults.join(' '), null)
      await world.admit(this.#id)
      this.#works()
      this.#movedAt = performance.now()
    } catch (error) {
      if (stop.signal.aborted) return
      if (error instanceof CleaningFailed) await this.#fail(`${error.step}: ${error.message}`, null)
      else this.#warn(error, 'could not clean or check a bare-metal host; retrying')
    } finally {
      this.#step = undefined
    }
  }

  #workFor(host: MetalHost): HostSession {
    this.#work ??= this.#begin(host)
    return this.#work
  }

  #begin(host: MetalHost): HostSession {
    const { world, clusterSecret, limits } = this.#options
    const hostKey = host.access.hostKey ?? this.#learnedHostKey
    const runtime = metalRuntime({
      access: hostKey === undefined ? host.access : { ...host.access, hostKey },
      declared: host.declared,
      address: host.address,
      clusterSecret,
      ...(limits === undefined ? {} : { limits }),
      onLearnedHostKey: (fingerprint) => {
        this.#learnedHostKey = fingerprint
        world.learnHostKey(this.#id, fingerprint).catch((error: unknown) => {
          this.#warn(error, 'could not save the host key of a bare-metal host')
        })
      },
      onQuarantine: (workloadId, failure) => {
        this.#fail(`${failure.step}: ${failure.message}`, workloadId).catch((error: unknown) => {
          this.#warn(error, 'could not report a failed cleaning')
        })
      },
      onStep: (step) => {
        this.#step = step
        void this.#save().catch((error: unknown) => this.#warn(error, 'could not save a report'))
      },
    })
    const keeper = new Keeper({
      runtime,
      changed: () => {
        void this.#save().catch((error: unknown) => this.#warn(error, 'could not save a report'))
      },
      onError: (what, error) => this.#warn(error, `a bare-metal host: ${what}`),
      now: () => performance.now(),
    })
    return { identity: identityOf(host), hostKey, runtime, keeper, stop: new AbortController() }
  }

  /** Stops all work on the host and reports the failure until it is saved. */
  async #fail(reason: string, workloadId: string | null): Promise<void> {
    this.#failure = { reason: reason.slice(0, MAX_REASON_CHARS), workloadId }
    this.#release()
    await this.#saveFailure()
  }

  async #saveFailure(): Promise<void> {
    const failure = this.#failure
    if (failure === undefined) return
    try {
      await this.#saving
      await this.#options.world.quarantine(this.#id, failure.reason, failure.workloadId)
      this.#movedAt = performance.now()
      this.#failure = undefined
    } catch (error) {
      this.#warn(error, 'could not quarantine a bare-metal host; leaving it alone')
    }
  }

  /** Reports are saved in order, so that an older one is never saved last. */
  #save(): Promise<void> {
    const saved = this.#saveAfter(this.#saving)
    this.#saving = saved.catch(() => {})
    return saved
  }

  async #saveAfter(before: Promise<void>): Promise<void> {
    await before
    const report = this.#report()
    if (report !== undefined) await this.#options.world.saveReport(this.#id, report)
  }

  #report(): HostReport | undefined {
    const observed = this.#work?.keeper.report()
    if (this.#work === undefined || this.#host === undefined || observed === undefined) return undefined
    const workloads = observed.workloads.map((one) =>
      one.state === 'stopping' && this.#step !== undefined ? { ...one, message: `cleaning: ${this.#step}` } : one,
    )
    return { type: 'report', offer: this.#host.offer, notes: [...this.#work.runtime.notes()], ...observed, workloads }
  }

  /** Logs once per cause: a host that is off is retried every second or two. */
  #warn(error: unknown, message: string): void {
    const reason = error instanceof Error ? error.message : String(error)
    const text = this.#work?.keeper.hide(reason) ?? reason
    const kind = text.replaceAll(/\d+/g, '#')
    if (this.#logged.get(message) === kind) return
    this.#logged.set(message, kind)
    this.#options.log.warn({ host: this.#id, error: text }, message)
  }

  #works(): void {
    if (this.#logged.size === 0) return
    this.#logged.clear()
    this.#options.log.warn({ host: this.#id }, 'a bare-metal host has recovered')
  }
}

function identityOf({ access, declared, address }: MetalHost): string {
  return JSON.stringify({ access: { ...access, hostKey: null }, declared, address })
}
