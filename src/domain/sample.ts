/**
 * A machine of a rental gives one sample of its usage every ten seconds; samples become the points of a chart. A value
 * that was not measured is null and stays null: a gap is never drawn as zero.
 */
import { instantOf, SECOND_MS, MINUTE_MS, HOUR_MS, type Instant } from '../base/instant.ts'
import { gpuMetricNames, machineMetricNames, type MetricName } from '../contract/rental-metrics.ts'

export const SAMPLE_MS = 10 * SECOND_MS
/** Samples of one machine are stored by the minute. */
export const SAMPLES_SPAN_MS = MINUTE_MS
export const SUMMARY_MS = 5 * MINUTE_MS
/** Summaries of one machine are stored by the hour. */
export const SUMMARIES_SPAN_MS = HOUR_MS

export type Value = number | null

/** Values in the order of `machineMetricNames`, and per GPU in that of `gpuMetricNames`. */
export interface Values {
  readonly machine: readonly Value[]
  readonly gpus: readonly GpuValues[]
}

export interface GpuValues {
  readonly index: number
  readonly values: readonly Value[]
}

export interface Sample extends Values {
  readonly at: Instant
  /** false: nobody was connected, and nothing was starting. null: not known. */
  readonly active: boolean | null
}

/**
 * Average and maximum of the samples in the `SUMMARY_MS` from `at` on. A single sample is its own average and maximum.
 */
export interface Point {
  readonly at: Instant
  readonly average: Values
  readonly maximum: Values
}

export interface NodePoints {
  readonly node: number
  readonly points: readonly Point[]
}

export interface Series {
  readonly metric: MetricName
  readonly node: number
  /** null: a value of the whole machine. */
  readonly gpu: number | null
  readonly average: readonly Value[]
  readonly maximum: readonly Value[]
}

export function pointOf(sample: Sample): Point {
  return { at: sample.at, average: sample, maximum: sample }
}

export function floorTo(at: Instant, stepMs: number): Instant {
  return instantOf(Math.floor(at / stepMs) * stepMs)
}

/** Returns a series for each metric with at least one value. Each series has a value for every step from `from` on. */
export function makeSeries(nodes: readonly NodePoints[], from: Instant, steps: number, stepMs: number): Series[] {
  return nodes.flatMap(({ node, points }) => {
    const series = new Map<string, SeriesSum>()
    for (const { at, average, maximum } of points) {
      const step = Math.floor((at - from) / stepMs)
      if (step < 0 || step >= steps) continue
      machineMetricNames.forEach((metric, n) =>
        sumOf(series, metric, null, steps).add(step, average.machine[n] ?? null, maximum.machine[n] ?? null),
      )
      for (const { index, values } of average.gpus) {
        const peaks = maximum.gpus.find((gpu) => gpu.index === index)?.values
        gpuMetricNames.forEach((metric, n) =>
          sumOf(series, metric, index, steps).add(step, values[n] ?? null, peaks?.[n] ?? null),
        )
      }
    }
    return [...series.values()].filter((one) => !one.isEmpty).map((one) => ({ node, ...one.series() }))
  })
}

function sumOf(series: Map<string, SeriesSum>, metric: MetricName, gpu: number | null, steps: number): SeriesSum {
  const key = `${metric} ${gpu}`
  const existingSum = series.get(key)
  if (existingSum !== undefined) return existingSum
  const sum = new SeriesSum(metric, gpu, steps)
  series.set(key, sum)
  return sum
}

class SeriesSum {
  readonly #metric: MetricName
  readonly #gpu: number | null
  readonly #sums: Float64Array
  readonly #counts: Uint32Array
  readonly #peaks: Float64Array
  isEmpty = true

  constructor(metric: MetricName, gpu: number | null, steps: number) {
    this.#metric = metric
    this.#gpu = gpu
    this.#sums = new Float64Array(steps)
    this.#counts = new Uint32Array(steps)
    this.#peaks = new Float64Array(steps).fill(Number.NEGATIVE_INFINITY)
  }

  add(step: number, average: Value, peak: Value): void {
    if (average === null) return
    this.isEmpty = false
    this.#sums[step] = (this.#sums[step] ?? 0) + average
    this.#counts[step] = (this.#counts[step] ?? 0) + 1
    this.#peaks[step] = Math.max(this.#peaks[step] ?? 0, peak ?? average)
  }

  series(): Omit<Series, 'node'> {
    const counts = [...this.#counts]
    return {
      metric: this.#metric,
      gpu: this.#gpu,
      average: counts.map((count, n) => (count === 0 ? null : round((this.#sums[n] ?? 0) / count))),
      maximum: counts.map((count, n) => (count === 0 ? null : round(this.#peaks[n] ?? 0))),
    }
  }
}

/** Two decimals are more than any source measures. */
function round(value: number): number {
  return Math.round(value * 100) / 100
}

/** The summaries of an hour, from its samples. A stretch of five minutes without samples has none. */
export function summarize(samples: readonly Sample[]): Point[] {
  const groups = new Map<number, Sample[]>()
  for (const sample of samples) {
    const at = floorTo(sample.at, SUMMARY_MS)
    const group = groups.get(at) ?? []
    groups.set(at, group)
    group.push(sample)
  }
  return [...groups]
    .toSorted(([a], [b]) => a - b)
    .map(([at, group]) => ({
      at: instantOf(at),
      average: combine(group, (values) => values.reduce((sum, one) => sum + one, 0) / values.length),
      maximum: combine(group, (values) => Math.max(...values)),
    }))
}

function combine(group: readonly Values[], aggregate: (values: number[]) => number): Values {
  const combineOne = (read: (one: Values) => Value | undefined): Value => {
    const measuredValues = group.flatMap((one) => read(one) ?? [])
    return measuredValues.length === 0 ? null : aggregate(measuredValues)
  }
  const indexes = [...new Set(group.flatMap(({ gpus }) => gpus.map(({ index }) => index)))].toSorted((a, b) => a - b)
  return {
    machine: machineMetricNames.map((_, n) => combineOne((one) => one.machine[n])),
    gpus: indexes.map((index) => ({
      index,
      values: gpuMetricNames.map((_, n) => combineOne((one) => one.gpus.find((gpu) => gpu.index === index)?.values[n])),
    })),
  }
}
