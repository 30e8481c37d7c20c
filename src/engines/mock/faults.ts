/**
 * How simulated machines misbehave. A rental or volume whose label contains one of these words has that fault, so a
 * test, a demo or a curious person can see every failure through the ordinary API. Several words in one label add up.
 * The words use only what a volume's label allows.
 *
 * A fault is worked out when the machine is made: it becomes times and counts in the machine's row. Its times are
 * fixed and do not shrink with `bootMs`, so that with `bootMs: 0` and a manual clock a test knows the very
 * millisecond.
 */
import { addMs, MINUTE_MS, SECOND_MS, type Instant } from '../../base/instant.ts'
import type { MockMachine, MockThing } from './world.ts'

/** On top of the ordinary time to boot, and well inside what a start may take. */
export const SLOW_BOOT_MS = 10 * MINUTE_MS
/** Longer than an end may take before it is flagged as stuck. */
export const SLOW_DESTROY_MS = 20 * MINUTE_MS
/** After it ran. */
export const VANISH_AFTER_MS = MINUTE_MS
/** After it ran. */
export const FLAP_AFTER_MS = MINUTE_MS
export const FLAP_HIDDEN_MS = 3 * MINUTE_MS
/** On top of the lag that the driver admits to. */
export const LATE_LIST_MS = MINUTE_MS
export const DESTROY_REFUSALS = 3
export const ATTACH_REFUSALS = 2

const inS = (ms: number): string => `${ms / SECOND_MS} s`

export const mockFaults = {
  'fault-create-refused': 'The create is refused and nothing is made.',
  'fault-no-capacity': 'The create is refused for want of capacity and nothing is made.',
  'fault-create-lost': 'The create throws and nothing was made.',
  'fault-create-timeout': 'The create throws although the machine or volume was made.',
  'fault-duplicate': 'The create makes two with the same tag and answers with the first.',
  'fault-boot-fails': 'When it should run, it has failed.',
  'fault-boot-never': 'It starts for ever.',
  'fault-slow-boot': `It boots ${inS(SLOW_BOOT_MS)} longer than others.`,
  'fault-list-lag': 'The list shows it at the last moment that the driver admits to (`listLagMs`).',
  'fault-list-late': `The list shows it ${inS(LATE_LIST_MS)} later than the driver admits to.`,
  'fault-vanish': `It is gone ${inS(VANISH_AFTER_MS)} after it ran, without anybody having asked.`,
  'fault-flap': `${inS(FLAP_AFTER_MS)} after it ran, the list leaves it out for ${inS(FLAP_HIDDEN_MS)}.`,
  'fault-destroy-refused': `The first ${DESTROY_REFUSALS} destroys throw and change nothing.`,
  'fault-destroy-timeout': 'Every destroy throws although it is carried out, until it is gone.',
  'fault-destroy-slow': `It is gone ${inS(SLOW_DESTROY_MS)} after it was destroyed.`,
  'fault-attach-refused': `Volumes: the first ${ATTACH_REFUSALS} attaches throw and change nothing.`,
} as const satisfies Readonly<Record<`fault-${string}`, string>>

export type MockFault = keyof typeof mockFaults

const allFaults = Object.keys(mockFaults) as MockFault[]

export function faultsOf(label: string | null): ReadonlySet<MockFault> {
  return new Set(label === null ? [] : allFaults.filter((fault) => label.includes(fault)))
}

/** The ordinary times of one machine or volume, before its faults. */
export interface OrdinaryTimes {
  readonly now: Instant
  readonly bootMs: number
  readonly destroyMs: number
  readonly listLagMs: number
  /** The driver's, which bounds every ordinary one. */
  readonly admittedListLagMs: number
}

export type Life = Omit<MockThing, 'externalId' | 'tag'> & Pick<MockMachine, 'runningAt' | 'failedAt'>

/** Everything that will happen to it unless it is destroyed. A volume runs as soon as its boot time has passed, too. */
export function planLife(faults: ReadonlySet<MockFault>, times: OrdinaryTimes): Life {
  const upAt = addMs(times.now, times.bootMs + (faults.has('fault-slow-boot') ? SLOW_BOOT_MS : 0))
  const isUp = !faults.has('fault-boot-fails') && !faults.has('fault-boot-never')
  const hiddenFrom = faults.has('fault-flap') ? addMs(upAt, FLAP_AFTER_MS) : null
  return {
    createdAt: times.now,
    listedAt: addMs(times.now, listLagMs(faults, times)),
    runningAt: isUp ? upAt : null,
    failedAt: faults.has('fault-boot-fails') ? upAt : null,
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
