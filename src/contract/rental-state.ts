/**
 * The states of a rental, one row for each. This table is the only definition of what a state means: the moves of the
 * reconcilers, the lists in SQL, the bill, the API, the console, the command line and the documentation are derived from
 * it, and a test compares the schema's indexes, constraints and functions with it. It is light, because browsers and the
 * command line load it first.
 */
import { HOUR_MS, MINUTE_MS } from '../base/instant.ts'
import type { EventType } from './event-type.ts'
import type { RentalOutcome } from './rental-outcome.ts'

/** The states in the order of a rental's life. A state is shown to people by its name. */
export const rentalStates = [
  'Pending',
  'Running',
  'Unknown',
  'Stopping',
  'Stopped',
  'Starting',
  'Failed',
  'Terminating',
  'Terminated',
] as const
export type RentalState = (typeof rentalStates)[number]

/** The words of the given interfaces, which stay as they are. */
export const rentalStatuses = ['Failed', 'Pending', 'Running', 'Terminating', 'Terminated', 'Unknown'] as const
export type RentalStatus = (typeof rentalStatuses)[number]
export const instanceStatuses = [
  'creating',
  'starting',
  'online',
  'stopping',
  'stopped',
  'terminated',
  'failed',
  'unknown',
] as const
export type InstanceStatus = (typeof instanceStatuses)[number]

export const rentalActions = ['stop', 'start', 'reboot', 'terminate'] as const
export type RentalAction = (typeof rentalActions)[number]

export interface RentalStateRow {
  /** Tells people what is happening and what they pay for. (The console's build drops a `description`.) */
  readonly meaning: string
  readonly tone: 'good' | 'warn' | 'bad' | 'info' | 'plain'
  /** The state that its machine should reach. A rental is alive, and can be changed, unless its machine is to be gone. */
  readonly goal: 'on' | 'off' | 'gone'
  /** The call that brings the provider there. null: none is due. */
  readonly driverCall: 'create' | 'start' | 'stop' | 'destroy' | null
  readonly next: readonly RentalState[]
  readonly limit: StateLimit | null
  readonly billing: Billing
  /** Whether its GPUs are claimed. Those of an ended rental are, until its provider no longer shows it. */
  readonly holdsGpus: boolean
  /** Whether they count against the account's quota of GPUs. */
  readonly countsAgainstQuota: boolean
  /**
   * Whether a disk is kept that must not be lost: such a rental never fails, whatever its provider shows. A start that
   * does not succeed leads back through Stopping, and only its customer or an empty balance ends a stopped rental.
   */
  readonly keepsDisk: boolean
  /** Whether its SSH address, its ports and its terminal work. */
  readonly reachable: boolean
  /** The actions of its customer, if the driver supports them. */
  readonly actions: readonly RentalAction[]
  /** The nearest word of the given `status`, which has none for stopped rentals. */
  readonly status: RentalStatus
  /** The nearest word of the marketplace. Before its provider is called, a rental is `creating` there. */
  readonly instanceStatus: InstanceStatus
  /** The events that record a move into this state. */
  readonly events: readonly EventType[]
}

/**
 * `full`: the price of the machine. `paused`: the same, but nothing from the last time that its provider showed it.
 * `disk`: the price of its disk. `unchanged`: what the state before it paid for. `none`: nothing.
 */
export type Billing = 'full' | 'paused' | 'disk' | 'unchanged' | 'none'

/**
 * The longest time in a state. A provider can allow longer starts (`Driver.startLimitMs`). `fail`: it becomes Failed.
 * `stop`: it goes back to Stopped. `flag`: it is shown as stuck until it changes by itself.
 */
export interface StateLimit {
  readonly ms: number
  readonly past: 'fail' | 'stop' | 'flag'
  readonly reason: RentalOutcome
}

export const rentalStateTable: Readonly<Record<RentalState, RentalStateRow>> = {
  Pending: {
    meaning: 'The order was accepted and the machine is starting. Billing has not started.',
    tone: 'info',
    goal: 'on',
    driverCall: 'create',
    next: ['Running', 'Failed', 'Terminating'],
    limit: { ms: 30 * MINUTE_MS, past: 'fail', reason: 'start_timed_out' },
    billing: 'none',
    holdsGpus: true,
    countsAgainstQuota: true,
    keepsDisk: false,
    reachable: false,
    actions: ['terminate'],
    status: 'Pending',
    instanceStatus: 'starting',
    events: ['rental.created'],
  },
  Running: {
    meaning: 'The machine is running and billed by the millisecond.',
    tone: 'good',
    goal: 'on',
    driverCall: null,
    next: ['Unknown', 'Stopping', 'Failed', 'Terminating'],
    limit: null,
    billing: 'full',
    holdsGpus: true,
    countsAgainstQuota: true,
    keepsDisk: false,
    reachable: true,
    actions: ['stop', 'reboot', 'terminate'],
    status: 'Running',
    instanceStatus: 'online',
    events: ['rental.running', 'rental.recovered', 'rental.started'],
  },
  Unknown: {
    meaning: 'The provider does not report this machine at the moment. Billing is paused.',
    tone: 'warn',
    goal: 'on',
    driverCall: null,
    next: ['Running', 'Stopping', 'Failed', 'Terminating'],
    limit: { ms: HOUR_MS, past: 'fail', reason: 'machine_lost' },
    billing: 'paused',
    holdsGpus: true,
    countsAgainstQuota: true,
    keepsDisk: false,
    reachable: false,
    actions: ['terminate'],
    status: 'Unknown',
    instanceStatus: 'unknown',
    events: ['rental.unknown'],
  },
  Stopping: {
    meaning: 'The machine is shutting down. You pay the full price until it is off.',
    tone: 'info',
    goal: 'off',
    driverCall: 'stop',
    next: ['Stopped', 'Terminating'],
    limit: { ms: 15 * MINUTE_MS, past: 'flag', reason: 'stop_stuck' },
    billing: 'unchanged',
    holdsGpus: true,
    countsAgainstQuota: true,
    keepsDisk: true,
    reachable: false,
    actions: ['terminate'],
    status: 'Running',
    instanceStatus: 'stopping',
    events: ['rental.stopping', 'rental.start_failed'],
  },
  Stopped: {
    meaning: 'The machine is off and its GPUs are released. Its disk is kept and charged.',
    tone: 'plain',
    goal: 'off',
    driverCall: null,
    // Stopping follows where the provider runs it although it should not.
    next: ['Starting', 'Stopping', 'Terminating'],
    limit: null,
    billing: 'disk',
    holdsGpus: false,
    countsAgainstQuota: false,
    keepsDisk: true,
    reachable: false,
    actions: ['start', 'terminate'],
    status: 'Pending',
    instanceStatus: 'stopped',
    events: ['rental.stopped'],
  },
  Starting: {
    meaning: 'The machine is starting on its disk. Only the disk is charged until it runs.',
    tone: 'info',
    goal: 'on',
    driverCall: 'start',
    next: ['Running', 'Stopping', 'Terminating'],
    limit: { ms: 30 * MINUTE_MS, past: 'stop', reason: 'start_timed_out' },
    billing: 'disk',
    holdsGpus: true,
    countsAgainstQuota: true,
    keepsDisk: true,
    reachable: false,
    actions: ['stop', 'terminate'],
    status: 'Pending',
    instanceStatus: 'starting',
    events: ['rental.starting'],
  },
  Failed: {
    meaning: 'The machine failed. Billing has stopped.',
    tone: 'bad',
    goal: 'gone',
    driverCall: 'destroy',
    next: ['Terminating'],
    limit: { ms: 15 * MINUTE_MS, past: 'flag', reason: 'teardown_stuck' },
    billing: 'none',
    holdsGpus: true,
    countsAgainstQuota: false,
    keepsDisk: false,
    reachable: false,
    actions: ['terminate'],
    status: 'Failed',
    instanceStatus: 'failed',
    events: ['rental.failed'],
  },
  Terminating: {
    meaning: 'Billing has stopped. The provider is shutting the machine down.',
    tone: 'info',
    goal: 'gone',
    driverCall: 'destroy',
    next: ['Terminated'],
    limit: { ms: 15 * MINUTE_MS, past: 'flag', reason: 'teardown_stuck' },
    billing: 'none',
    holdsGpus: true,
    countsAgainstQuota: false,
    keepsDisk: false,
    reachable: false,
    actions: [],
    status: 'Terminating',
    instanceStatus: 'stopping',
    events: ['rental.terminating'],
  },
  Terminated: {
    meaning: 'The machine and the data on its disk have been deleted.',
    tone: 'plain',
    goal: 'gone',
    driverCall: null,
    next: [],
    limit: null,
    billing: 'none',
    holdsGpus: false,
    countsAgainstQuota: false,
    keepsDisk: false,
    reachable: false,
    actions: [],
    status: 'Terminated',
    instanceStatus: 'terminated',
    events: ['rental.terminated'],
  },
}

/** `statesWhere(({ goal }) => goal === 'on')` */
export function statesWhere(matches: (row: RentalStateRow) => boolean): RentalState[] {
  return rentalStates.filter((state) => matches(rentalStateTable[state]))
}

/** A list for the API reference. */
export function describeStates(): string {
  return rentalStates.map((state) => `- \`${state}\`: ${rentalStateTable[state].meaning}`).join('\n')
}
