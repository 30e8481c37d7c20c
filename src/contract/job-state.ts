/** The states of a job and of its tasks, one row for each. Moves, lists in SQL, interfaces and documentation follow from it. */
import type { EventType } from './event-type.ts'

/** The states in the order of a job's life. */
export const jobStates = ['Queued', 'Starting', 'Running', 'Succeeded', 'Failed', 'Cancelled', 'TimedOut'] as const
export type JobState = (typeof jobStates)[number]

/** The ends of an attempt. `lost`: without its fault, so that it may start again. */
export const attemptOutcomes = ['succeeded', 'failed', 'lost', 'cancelled', 'timed_out'] as const
export type AttemptOutcome = (typeof attemptOutcomes)[number]

export interface JobStateRow {
  readonly meaning: string
  readonly tone: 'good' | 'warn' | 'bad' | 'info' | 'plain'
  /** Whether a task in it has a living attempt. */
  readonly hasRental: boolean
  readonly isEnd: boolean
  /** States that a task may move to. */
  readonly next: readonly JobState[]
  /** The event that records the move of a job into it. null: none. */
  readonly event: Extract<EventType, `job.${string}`> | null
  readonly label: string
}

const end = { hasRental: false, isEnd: true, next: [] } as const

export const jobStateTable: Readonly<Record<JobState, JobStateRow>> = {
  Queued: {
    meaning: 'It waits for a machine, for money or for its turn. Nothing is charged.',
    tone: 'plain',
    hasRental: false,
    isEnd: false,
    next: ['Starting', 'Failed', 'Cancelled', 'TimedOut'],
    event: null,
    label: 'Queued',
  },
  Starting: {
    meaning: 'A machine was rented and the image is being pulled. Nothing is charged yet.',
    tone: 'info',
    hasRental: true,
    isEnd: false,
    // A command can end between two looks at its host.
    next: ['Running', 'Queued', 'Succeeded', 'Failed', 'Cancelled', 'TimedOut'],
    event: 'job.starting',
    label: 'Starting',
  },
  Running: {
    meaning: 'The command is running, or its output is being collected. Running time is charged by the millisecond.',
    tone: 'info',
    hasRental: true,
    isEnd: false,
    next: ['Queued', 'Succeeded', 'Failed', 'Cancelled', 'TimedOut'],
    event: 'job.running',
    label: 'Running',
  },
  Succeeded: {
    ...end,
    meaning: 'The command ended with exit code 0.',
    tone: 'good',
    event: 'job.succeeded',
    label: 'Succeeded',
  },
  Failed: {
    ...end,
    meaning: 'The command failed as often as `retries` allows, or could not run. The reason says why.',
    tone: 'bad',
    event: 'job.failed',
    label: 'Failed',
  },
  Cancelled: { ...end, meaning: 'It was cancelled.', tone: 'plain', event: 'job.cancelled', label: 'Cancelled' },
  TimedOut: {
    ...end,
    meaning: 'It ran for as long as `timeoutSeconds` allows and was ended.',
    tone: 'bad',
    event: 'job.timed_out',
    label: 'Timed out',
  },
}

export function isJobEnd(state: JobState): boolean {
  return jobStateTable[state].isEnd
}

/** The tasks of a job, counted by state. */
export type JobCounts = Readonly<Record<JobState, number>>

/** The state of a job: the liveliest of its tasks; of one that has ended, the worst. */
export function jobStateOf(counts: JobCounts): JobState {
  const order = ['Running', 'Starting', 'Queued', 'Failed', 'TimedOut', 'Cancelled'] as const
  return order.find((state) => counts[state] > 0) ?? 'Succeeded'
}

/** A list for the API reference. */
export function describeJobStates(): string {
  return jobStates.map((state) => `- \`${state}\`: ${jobStateTable[state].meaning}`).join('\n')
}
