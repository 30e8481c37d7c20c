/**
 * Collects what hosts report about the machines of rentals and writes it in batches: once a second the latest metrics of
 * all hosts that were heard, and each minute's samples when the minute is over. However many hosts there are, that is
 * two statements a second at most. A killed server loses at most the minute that it had not written.
 */
import { MINUTE_MS, type Clock, type Instant } from '../../base/instant.ts'
import type { HostMetrics, WorkloadMetrics } from '../../contract/agent.ts'
import { gpuMetricNames, machineMetricNames } from '../../contract/rental-metrics.ts'
import { floorTo, SAMPLE_MS, SAMPLES_SPAN_MS, type GpuValues, type Sample } from '../../domain/sample.ts'
import type { Database } from '../../store/platform/database.ts'
import { insertMinutes, saveHostMetrics, type MeasuredNode, type Minute } from '../../store/rental/rental-sample.ts'

export interface MetricRecorder {
  /** The latest metrics of a host. `session` is null for a host without an agent. */
  take(hostId: string, session: string | null, metrics: HostMetrics): void
  /** A sample of a rental of one machine, from a provider without hosts. */
  record(rentalId: number, sample: Sample): void
  /** Samples that are not written yet. */
  unsaved(rentalIds: readonly number[]): Minute[]
  /** Writes what is due; called every second. */
  tick(): Promise<void>
  /** Writes everything. */
  close(): Promise<void>
}

/** Rows in one statement. */
const MAX_ROWS = 5_000
/** Minutes in memory while the database does not take them; then the oldest are dropped. */
const MAX_MINUTES = 50_000

interface Recording {
  readonly database: Database
  readonly clock: Clock
}

interface OpenMinute extends Minute {
  readonly samples: Sample[]
}

export function makeMetricRecorder(app: Recording): MetricRecorder {
  return new Recorder(app)
}

class Recorder implements MetricRecorder {
  readonly #app: Recording
  readonly #heard = new Map<string, { session: string | null; metrics: HostMetrics }>()
  readonly #minutes = new Map<string, OpenMinute>()
  #working: Promise<void> = Promise.resolve()

  constructor(app: Recording) {
    this.#app = app
  }

  take(hostId: string, session: string | null, metrics: HostMetrics): void {
    this.#heard.set(hostId, { session, metrics })
  }

  record(rentalId: number, sample: Sample): void {
    this.#add({ rentalId, node: 0 }, sample)
  }

  unsaved(rentalIds: readonly number[]): Minute[] {
    const ids = new Set(rentalIds)
    return [...this.#minutes.values()].filter(({ rentalId }) => ids.has(rentalId))
  }

  tick(): Promise<void> {
    return this.#after(async () => {
      const now = this.#app.clock.now()
      await this.#record(now)
      await this.#write((minute) => minute.at + SAMPLES_SPAN_MS <= now)
    })
  }

  close(): Promise<void> {
    return this.#after(async () => {
      await this.#record(this.#app.clock.now())
      while (this.#minutes.size > 0) await this.#write(() => true)
    })
  }

  /** Runs work one at a time, so that no sample is written twice. */
  #after(work: () => Promise<void>): Promise<void> {
    const done = this.#working.then(work)
    this.#working = done.catch(() => {})
    return done
  }

  async #record(now: Instant): Promise<void> {
    const messages = [...this.#heard].slice(0, MAX_ROWS)
    for (const [hostId] of messages) this.#heard.delete(hostId)
    const rows = messages.map(([hostId, one]) => ({ hostId, ...one }))
    const metricsByHost = new Map(messages.map(([hostId, { metrics }]) => [hostId, metrics]))
    for (const node of await saveHostMetrics(this.#app.database.db, rows, now)) {
      const metrics = metricsByHost.get(node.hostId)
      if (metrics !== undefined) this.#add(node, sampleOf(node, metrics, now))
    }
  }

  #add({ rentalId, node }: Pick<MeasuredNode, 'rentalId' | 'node'>, sample: Sample): void {
    const at = floorTo(sample.at, SAMPLES_SPAN_MS)
    const key = `${rentalId} ${node} ${at}`
    const minute = this.#minutes.get(key) ?? { rentalId, node, at, samples: [] }
    // An agent that sends more often than every ten seconds does not get more room.
    const slot = floorTo(sample.at, SAMPLE_MS)
    const same = minute.samples.findIndex((one) => floorTo(one.at, SAMPLE_MS) === slot)
    if (same >= 0) minute.samples.splice(same, 1)
    minute.samples.push(sample)
    this.#minutes.set(key, minute)
    for (const oldest of this.#minutes.keys()) {
      if (this.#minutes.size <= MAX_MINUTES) break
      this.#minutes.delete(oldest)
    }
  }

  /** Minutes stay in memory until they are written. */
  async #write(isDue: (minute: Minute) => boolean): Promise<void> {
    const due = [...this.#minutes].filter(([, minute]) => isDue(minute)).slice(0, MAX_ROWS)
    await insertMinutes(
      this.#app.database.db,
      due.map(([, minute]) => minute),
    )
    for (const [key] of due) this.#minutes.delete(key)
  }
}

export function sampleOf(
  { workloadId, gpuIndexes }: Pick<MeasuredNode, 'workloadId' | 'gpuIndexes'>,
  metrics: HostMetrics,
  at: Instant,
): Sample {
  const ownActivity = metrics.workloads?.find(({ id }) => id === workloadId)
  return {
    at,
    active: ownActivity === undefined ? null : isActive(ownActivity),
    machine: machineMetricNames.map((name) => ownActivity?.[name] ?? null),
    gpus: gpuIndexes.flatMap((index) => gpuOf(metrics, index)),
  }
}

/** Longer ago than the last sample is not this sample's activity. */
function isActive({ active, quietSeconds }: WorkloadMetrics): boolean {
  return active.length > 0 || quietSeconds * 1_000 < SAMPLE_MS
}

function gpuOf(metrics: HostMetrics, index: number): GpuValues[] {
  const gpu = metrics.gpus.find((one) => one.index === index)
  if (gpu === undefined) return []
  const values = {
    gpuUtilizationPercent: gpu.utilizationPercent,
    gpuMemoryUsedMib: gpu.memoryUsedMib,
    gpuTemperatureCelsius: gpu.temperatureCelsius,
    gpuPowerWatts: gpu.powerWatts,
  }
  return [{ index, values: gpuMetricNames.map((name) => values[name]) }]
}

/** How long samples may take to reach the database. */
export const RECORD_LAG_MS = 2 * MINUTE_MS
