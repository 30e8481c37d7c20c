/**
 * Decides when a machine counts as idle: every GPU is below the limit, and nobody is connected (no SSH session,
 * terminal, program or connection to a port). GPU memory is no signal, because model servers hold it all the time.
 * Anything unknown counts as use: a missing sample, a GPU that was not measured, an agent that does not say.
 */
import { addMs, later, MINUTE_MS, SECOND_MS, type Instant } from '../base/instant.ts'
import { gpuMetricNames } from '../contract/rental-metrics.ts'
import type { IdleRule } from '../contract/workload.ts'
import { SAMPLE_MS, type Sample } from './sample.ts'

export interface IdleState {
  /** Every sample since then was idle. null: the machine is in use. */
  readonly idleSince: Instant | null
  /** The last sample that was considered. null: none yet. */
  readonly seenUntil: Instant | null
  /** When the customer was notified of this idle period. */
  readonly notifiedAt: Instant | null
}

export const inUse: IdleState = { idleSince: null, seenUntil: null, notifiedAt: null }

/** The maximum time between two samples of a machine. In a longer gap, unmeasured activity is possible. */
const MAX_GAP_MS = 3 * SAMPLE_MS + 5 * SECOND_MS
/** Samples reach the database up to two minutes late. */
const MAX_AGE_MS = 3 * MINUTE_MS

const UTILIZATION = gpuMetricNames.indexOf('gpuUtilizationPercent')

export function isIdle({ active, gpus }: Pick<Sample, 'active' | 'gpus'>, rule: IdleRule): boolean {
  if (active !== false || gpus.length === 0) return false
  return gpus.every(({ values }) => {
    const utilization = values[UTILIZATION] ?? null
    return utilization !== null && utilization < rule.gpuUtilBelowPercent
  })
}

/** The samples of each machine since `seenUntil`, in the order of time. A machine without any has an empty list. */
export function advanceIdle(
  rule: IdleRule,
  state: IdleState,
  machines: ReadonlyArray<readonly Sample[]>,
  now: Instant,
): IdleState {
  const start = state.seenUntil
  const fresh = machines.map((samples) => samples.filter(({ at }) => start === null || at > start))
  const events = fresh
    .flatMap((samples) =>
      samples.map((sample, n) => {
        const before = samples[n - 1]?.at ?? start
        const hasGap = before !== null && sample.at - before > MAX_GAP_MS
        return { at: sample.at, idle: !hasGap && isIdle(sample, rule) }
      }),
    )
    .toSorted((a, b) => a.at - b.at)
  let { idleSince, notifiedAt } = state
  for (const { at, idle } of events) {
    if (idle) idleSince ??= at
    else [idleSince, notifiedAt] = [null, null]
  }
  const ends = fresh.map((samples) => samples.at(-1)?.at ?? start)
  const seenUntil =
    ends.some((end) => end === null) || ends.length === 0 ? start : (Math.min(...(ends as number[])) as Instant)
  // The machines are silent: the wait begins anew when they are back.
  if (seenUntil === null || now - seenUntil > MAX_AGE_MS)
    return { ...inUse, seenUntil: start === null ? null : seenUntil }
  return { idleSince, seenUntil, notifiedAt }
}

/** `notify`: tell the customer, and wait for the grace period. `act`: do what the rule says. */
export function decideIdle(rule: IdleRule, state: IdleState, now: Instant): 'wait' | 'notify' | 'act' {
  const { idleSince, seenUntil, notifiedAt } = state
  if (idleSince === null || seenUntil === null) return 'wait'
  if (seenUntil - idleSince < rule.afterMinutes * MINUTE_MS) return 'wait'
  if (notifiedAt === null) return 'notify'
  const actsAt = actsAtOf(rule, notifiedAt)
  // The time of the last sample decides, not the clock: a sample with activity may be on its way.
  return rule.action !== 'notify' && now >= actsAt && addMs(seenUntil, MAX_GAP_MS) >= actsAt ? 'act' : 'wait'
}

export function actsAtOf(rule: IdleRule, notifiedAt: Instant): Instant {
  return addMs(notifiedAt, rule.graceSeconds * SECOND_MS)
}

/** The time from which samples are needed. */
export function readFrom(state: IdleState, now: Instant): Instant {
  const recent = addMs(now, -MAX_AGE_MS)
  return state.seenUntil === null ? recent : later(state.seenUntil, recent)
}
