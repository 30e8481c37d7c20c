/**
 * Faults of simulated machines and volumes. A label that contains one of these words causes the fault, so that every
 * failure can be seen through the ordinary API. Several words add up. All words are valid volume labels.
 *
 * A fault becomes times and counts in the row of the machine when it is created. Its times are fixed and independent of
 * `bootMs`: with `bootMs: 0` and a manual clock a test knows them to the millisecond.
 */
import { addMs, MINUTE_MS, SECOND_MS, type Instant } from '../../base/instant.ts'
import type { MockMachine, MockResource } from './world.ts'

/** Added to the boot time; well below the start timeout. */
export const SLOW_BOOT_MS = 10 * MINUTE_MS
/** Longer than the limit after which a teardown counts as stuck. */
export const SLOW_DESTROY_MS = 20 * MINUTE_MS
/** The machine vanishes this long after it started to run. */
export const VANISH_AFTER_MS = MINUTE_MS
/** The machine flaps this long after it started to run. */
export const FLAP_AFTER_MS = MINUTE_MS
export const FLAP_HIDDEN_MS = 3 * MINUTE_MS
/** Added to the driver's list lag. */
export const LATE_LIST_MS = MINUTE_MS
export const DESTROY_REFUSALS = 3
export const ATTACH_REFUSALS = 2

const inS = (ms: number): string => `${ms / SECOND_MS} s`

export const mockFaults = {
  'fault-create-refused': 'The create is refused and nothing is made.',
  'fault-no-capacity': 'The create is refused for lack of capacity and nothing is made.',
  'fault-create-lost': 'The create throws and nothing was made.',
  'fault-create-timeout': 'The create throws although the machine or volume was made.',
  'fault-duplicate': 'The create makes two with the same tag and answers with the first.',
  'fault-boot-fails': 'It fails instead of running.',
  'fault-boot-never': 'It never finishes starting.',
  'fault-slow-boot': `It boots ${inS(SLOW_BOOT_MS)} longer than others.`,
  'fault-list-lag': 'The list shows it only at the end of the list lag (`listLagMs`).',
  'fault-list-late': `The list shows it ${inS(LATE_LIST_MS)} after the end of the list lag.`,
  'fault-vanish': `It is gone ${inS(VANISH_AFTER_MS)} after it ran, without a destroy call.`,
  'fault-flap': `${inS(FLAP_AFTER_MS)} after it ran, the list leaves it out for ${inS(FLAP_HIDDEN_MS)}.`,
  'fault-destroy-refused': `The first ${DESTROY_REFUSALS} destroys throw and change nothing.`,
  'fault-destroy-timeout': 'Every destroy throws although it is carried out, until it is gone.',
  'fault-destroy-slow': `It is gone ${inS(SLOW_DESTROY_MS)} after it was destroyed.`,
  'fault-stop-timeout': 'Every stop throws although it is carried out.',
  'fault-start-refused': 'Every start is refused, and it stays stopped.',
  'fault-start-fails': 'When it should run again after a stop, it has failed.',
  'fault-attach-refused': `Volumes: the first ${ATTACH_REFUSALS} attaches throw and change nothing.`,
} as const satisfies Readonly<Record<`fault-${string}`, string>>

export type MockFault = keyof typeof mockFaults

const allFaults = Object.keys(mockFaults) as MockFault[]

export function faultsOf(label: string | null): ReadonlySet<MockFault> {
  return new Set(label === null ? [] : allFaults.filter((fault) => label.includes(fault)))
}

/** Times of a machine or volume without faults. */
export interface OrdinaryTimes {
  readonly now: Instant
  readonly bootMs: number
  readonly destroyMs: number
  readonly listLagMs: number
  /** The driver's upper bound. */
  readonly admittedListLagMs: number
}

export type Life = Omit<MockResource, 'externalId' | 'tag'> &
  Pick<MockMachine, 'runningAt' | 'failedAt' | 'offAt' | 'reboots'>

/** Everything that will happen unless it is destroyed. Volumes have a boot time too. */
export function planLife(faults: ReadonlySet<MockFault>, times: OrdinaryTimes): Life {
  const upAt = addMs(times.now, times.bootMs + (faults.has('fault-slow-boot') ? SLOW_BOOT_MS : 0))
  const isUp = !faults.has('fault-boot-fails') && !faults.has('fault-boot-never')
  const hiddenFrom = faults.has('fault-flap') ? addMs(upAt, FLAP_AFTER_MS) : null
  return {
    createdAt: times.now,
    listedAt: addMs(times.now, listLagMs(faults, times)),
    runningAt: isUp ? upAt : null,
    failedAt: faults.has('fault-boot-fails') ? upAt : null,
    offAt: null,
    reboots: 0,
    hiddenFrom,
    hiddenUntil: hiddenFrom === null ? null : addMs(hiddenFrom, FLAP_HIDDEN_MS),
    goneAt: faults.has('fault-vanish') ? addMs(upAt, VANISH_AFTER_MS) : null,
    destroyAskedAt: null,
    destroyMs: faults.has('fault-destroy-slow') ? SLOW_DESTROY_MS : times.destroyMs,
    destroyRefusalsLeft: faults.has('fault-destroy-refused') ? DESTROY_REFUSALS : 0,
  }
}

function listLagMs(faults: ReadonlySet<MockFault>, times: OrdinaryTimes): number {
  if (faults.has('fault-list-late')) return times.admittedListLagMs + LATE_LIST_MS
  return faults.has('fault-list-lag') ? times.admittedListLagMs : times.listLagMs
}
