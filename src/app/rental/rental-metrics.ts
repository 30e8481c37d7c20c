/** The usage of rentals: now, over time, and as an export. A driver invents the usage of its simulated machines. */
import { addMs, earlier, instantOf, later, MINUTE_MS, SECOND_MS, type Instant } from '../../base/instant.ts'
import { gpuMetricNames, MAX_POINTS, SPARKLINE_MINUTES } from '../../contract/rental-metrics.ts'
import {
  floorTo,
  makeSeries,
  SAMPLE_MS,
  SUMMARY_MS,
  type NodePoints,
  type Sample,
  type Series,
  type Value,
  type Values,
} from '../../domain/sample.ts'
import type { Driver } from '../../drivers/driver.ts'
import { readMinutes, readPoints, type Minute } from '../../store/rental/rental-sample.ts'
import type { Rental } from '../../store/rental/rental.ts'
import type { App } from '../app.ts'
import { rentalTag } from './rental.ts'
import { shareOf } from './rental-power.ts'

export const SAMPLES_KEPT_MS = 24 * 60 * MINUTE_MS
export const SUMMARIES_KEPT_MS = 30 * 24 * 60 * MINUTE_MS
const DEFAULT_POINTS = 300
/** Steps that charts label well. */
const STEPS_S = [10, 20, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400] as const

export interface HistoryRange {
  readonly from: Instant
  readonly to: Instant
  readonly stepMs: number
}

/** Limits the requested range to the history that is stored and to the points of one answer. undefined: it is empty. */
export function rangeOf(
  query: { readonly from: Instant; readonly to?: Instant | undefined; readonly stepSeconds?: number | undefined },
  now: Instant,
): HistoryRange | undefined {
  const to = earlier(query.to ?? now, now)
  const from = later(query.from, addMs(now, -SUMMARIES_KEPT_MS))
  if (from >= to) return undefined
  const spanS = (to - from) / SECOND_MS
  const isOld = from < addMs(now, -SAMPLES_KEPT_MS)
  const least = Math.max(isOld ? SUMMARY_MS / SECOND_MS : SAMPLE_MS / SECOND_MS, spanS / MAX_POINTS)
  const stepSeconds = Math.max(query.stepSeconds ?? spanS / DEFAULT_POINTS, least)
  // Between steps of our own there is nothing to see: a step asked for is kept where it can be.
  const stepS =
    query.stepSeconds !== undefined && query.stepSeconds >= least ? query.stepSeconds : niceStep(stepSeconds)
  const stepMs = stepS * SECOND_MS
  return { from: floorTo(from, stepMs), to, stepMs }
}

function niceStep(seconds: number): number {
  return STEPS_S.find((one) => one >= seconds) ?? 86_400
}

export async function readHistory(app: App, rental: Rental, range: HistoryRange): Promise<Series[]> {
  const { from, to, stepMs } = range
  const steps = Math.ceil((to - from) / stepMs)
  const simulate = simulationOf(app, rental)
  const nodes =
    simulate === undefined
      ? await readPoints(
          app.database.db,
          rental.id,
          { from, to, fine: stepMs < SUMMARY_MS },
          app.recorder?.unsaved([rental.id]) ?? [],
        )
      : simulatedPoints(simulate, rental, range, app.clock.now())
  return makeSeries(nodes, from, steps, stepMs)
}

export type Simulate = (node: number, at: Instant) => Values

/** Returns a simulation of the metrics. undefined: the machines are real. */
export function simulationOf(app: App, rental: Rental): Simulate | undefined {
  const driver: Driver | undefined = app.drivers.get(rental.driver)
  const simulate = driver?.simulateUse?.bind(driver)
  if (simulate === undefined) return undefined
  const tag = rentalTag(app, rental)
  const spec = { ...rental.spec, ...shareOf(rental) }
  return (node, at) => simulate(tag, spec, node, at)
}

/** A simulated machine has been in use from its start until now, or until it was ended. */
function simulatedPoints(simulate: Simulate, rental: Rental, range: HistoryRange, now: Instant): NodePoints[] {
  const start = rental.started_at
  if (start === null) return []
  const end = earlier(rental.terminate_requested_at ?? now, range.to)
  const first = later(range.from, floorTo(addMs(start, range.stepMs - 1), range.stepMs))
  const times: Instant[] = []
  for (let at = first; at < end && times.length < MAX_POINTS; at = addMs(at, range.stepMs)) times.push(at)
  return rental.spec.nodes.map((_, node) => ({
    node,
    points: times.map((at) => {
      const values = simulate(node, at)
      return { at, average: values, maximum: values }
    }),
  }))
}

/** Samples of a simulated rental, to which nobody is ever connected. */
export function simulatedSamples(simulate: Simulate, rental: Rental, from: Instant, to: Instant): Sample[][] {
  const range: HistoryRange = { from: floorTo(addMs(from, SAMPLE_MS), SAMPLE_MS), to, stepMs: SAMPLE_MS }
  return simulatedPoints(simulate, rental, range, to).map(({ points }) =>
    points.map(({ at, average }) => ({ at, active: false, ...average })),
  )
}

export interface Sparkline {
  readonly rental: Rental
  readonly simulated: boolean
  readonly utilization: readonly Value[]
}

/** GPU utilization of the last hour by minute: the average of all GPUs. */
export async function readSparklines(
  app: App,
  rentals: readonly Rental[],
): Promise<{ from: Instant; sparklines: Sparkline[] }> {
  const now = app.clock.now()
  const from = addMs(floorTo(now, MINUTE_MS), -(SPARKLINE_MINUTES - 1) * MINUTE_MS)
  const range: HistoryRange = { from, to: now, stepMs: MINUTE_MS }
  const real = rentals.filter((rental) => simulationOf(app, rental) === undefined).map(({ id }) => id)
  const minutes = [...(await readMinutes(app.database.db, real, from, now)), ...(app.recorder?.unsaved(real) ?? [])]
  const samples = new Map<number, Minute[]>()
  for (const minute of minutes) {
    const rentalMinutes = samples.get(minute.rentalId) ?? []
    samples.set(minute.rentalId, rentalMinutes)
    rentalMinutes.push(minute)
  }
  const sparklines = rentals.map((rental) => {
    const simulate = simulationOf(app, rental)
    const points =
      simulate === undefined
        ? (samples.get(rental.id) ?? []).flatMap((minute) => minute.samples.map((one) => ({ at: one.at, values: one })))
        : simulatedPoints(simulate, rental, range, now).flatMap((node) =>
            node.points.map(({ at, average }) => ({ at, values: average })),
          )
    return { rental, simulated: simulate !== undefined, utilization: averageByMinute(points, from) }
  })
  return { from, sparklines }
}

const UTILIZATION = gpuMetricNames.indexOf('gpuUtilizationPercent')

function averageByMinute(points: ReadonlyArray<{ at: Instant; values: Values }>, from: Instant): Value[] {
  const sums = Array.from({ length: SPARKLINE_MINUTES }, () => ({ sum: 0, count: 0 }))
  for (const { at, values } of points) {
    const slot = sums[Math.floor((at - from) / MINUTE_MS)]
    if (slot === undefined) continue
    for (const gpu of values.gpus) {
      const value = gpu.values[UTILIZATION] ?? null
      if (value === null) continue
      slot.sum += value
      slot.count += 1
    }
  }
  return sums.map(({ sum, count }) => (count === 0 ? null : Math.round((sum / count) * 10) / 10))
}

/** The instant of the newest simulated values: they change every ten seconds, like real ones. */
export function simulatedNow(now: Instant): Instant {
  return instantOf(floorTo(now, SAMPLE_MS))
}
