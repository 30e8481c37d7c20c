/**
 * The life of a job's task. Each step follows from the task's row, the rental of its living attempt and the clock, so a
 * step that is decided twice, or again after a crash, is the same step.
 */
import { addMs, SECOND_MS, type Instant } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { AttemptOutcome, JobState } from '../contract/job-state.ts'
import { rentalStateTable, type RentalState } from '../contract/rental-state.ts'

/**
 * Contact with a host may be lost for this long until the task starts elsewhere. The loss is noticed only after 20 s.
 */
export const LOST_MS = 20 * SECOND_MS

export interface AttemptFacts {
  readonly task: {
    readonly state: JobState
    readonly restarts: number
    readonly failures: number
    /** The running time of earlier attempts. */
    readonly ranMs: number
  }
  readonly job: { readonly timeoutMs: number; readonly retries: number; readonly isCancelled: boolean }
  readonly rental: {
    readonly status: RentalState
    readonly since: Instant
    readonly reason: string | null
    readonly exitCode: number | null
    readonly startedAt: Instant | null
    /** When the rental's end was recorded or due. null: the rental lives. */
    readonly endedAt: Instant | null
    readonly autoTerminateAt: Instant | null
    /** Whether the host has removed the rental. */
    readonly isReleased: boolean
  }
  /** Whether the output has been handed over. */
  readonly isCollected: boolean
}

export type JobStep =
  | { readonly kind: 'wait' }
  /** `endAt`: when the task's time is used up. null: the task does not run yet. */
  | { readonly kind: 'note'; readonly state: 'Starting' | 'Running'; readonly endAt: Instant | null }
  | { readonly kind: 'terminate'; readonly reason: 'job_cancelled' | 'job_lost' }
  | ({ readonly kind: 'finish' } & Finish)

export interface Finish {
  readonly outcome: AttemptOutcome
  /** The next state of the task. `Queued`: another attempt follows. */
  readonly next: Extract<JobState, 'Queued' | 'Succeeded' | 'Failed' | 'Cancelled' | 'TimedOut'>
  readonly reason: string
  readonly ranMs: number
  /** The delay before the next attempt. */
  readonly delayMs: number
}

export function nextStep(facts: AttemptFacts, now: Instant): JobStep {
  const { job, rental, task } = facts
  if (rentalStateTable[rental.status].goal === 'gone') return stepOfEnded(facts, now)
  if (job.isCancelled) return { kind: 'terminate', reason: 'job_cancelled' }
  if (rental.status === 'Unknown' && addMs(rental.since, LOST_MS) <= now)
    return { kind: 'terminate', reason: 'job_lost' }
  if (rental.startedAt === null) return task.state === 'Starting' ? { kind: 'wait' } : noted('Starting', null)
  const endAt = addMs(rental.startedAt, Math.max(job.timeoutMs - task.ranMs, 1))
  const isNoted = task.state === 'Running' && rental.autoTerminateAt === endAt
  return isNoted ? { kind: 'wait' } : noted('Running', endAt)
}

function noted(state: 'Starting' | 'Running', endAt: Instant | null): JobStep {
  return { kind: 'note', state, endAt }
}

/** A rental that has ended is finished once its output has arrived, or its host cannot hand it over any more. */
function stepOfEnded(facts: AttemptFacts, now: Instant): JobStep {
  const { rental, isCollected } = facts
  // A command may begin and end while its host is out of contact.
  const hasRun = rental.startedAt !== null || rental.exitCode !== null
  const isReachable = hasRun && rental.reason !== 'job_lost' && !rental.isReleased
  const isDue = addMs(rental.since, limits.jobCollectMs) <= now
  return isReachable && !isCollected && !isDue ? { kind: 'wait' } : { kind: 'finish', ...finishOf(facts) }
}

/** Faults of the task itself, which another machine would not mend. */
const OWN_FAULTS: ReadonlySet<string> = new Set([
  'image_not_found',
  'image_refused',
  'image_invalid',
  'image_too_large',
  'image_without_command',
  'image_unavailable',
  'registry_refused',
  'bad_file_path',
  'disk_share_exceeded',
  'balance_empty',
  'budget_exceeded',
  'spending_limit',
])
/** Ends of the program, which `retries` limits. */
const EXITS: ReadonlySet<string> = new Set(['process_exited', 'out_of_memory'])

function finishOf({ task, job, rental }: AttemptFacts): Finish {
  const reason = rental.reason ?? 'ended'
  const spanMs = rental.startedAt === null ? 0 : Math.max(0, (rental.endedAt ?? rental.since) - rental.startedAt)
  const end = (outcome: AttemptOutcome, next: Finish['next'], why = reason): Finish => ({
    outcome,
    next,
    reason: why,
    ranMs: spanMs,
    delayMs: 0,
  })
  if (reason === 'completed') return end('succeeded', 'Succeeded')
  if (job.isCancelled || reason === 'job_cancelled' || reason === 'customer_request')
    return end('cancelled', 'Cancelled')
  if (reason === 'auto_terminate') return end('timed_out', 'TimedOut')
  if (EXITS.has(reason)) return task.failures < job.retries ? again('failed') : end('failed', 'Failed')
  if (OWN_FAULTS.has(reason)) return end('failed', 'Failed', reason === 'spending_limit' ? 'max_cost' : reason)
  if (task.restarts >= limits.jobRestarts) return end('lost', 'Failed')
  return again('lost')

  function again(outcome: 'failed' | 'lost'): Finish {
    if (task.ranMs + spanMs >= job.timeoutMs) return end(outcome, 'TimedOut', 'auto_terminate')
    const delayMs = outcome === 'lost' ? restartDelayMs(task.restarts) : 0
    return { ...end(outcome, 'Queued'), delayMs }
  }
}

const MAX_RESTART_DELAY_MS = 30 * SECOND_MS

/** The first restart is immediate, because the host was lost. Later ones may have another cause. */
function restartDelayMs(restarts: number): number {
  return restarts === 0 ? 0 : Math.min(SECOND_MS * 2 ** restarts, MAX_RESTART_DELAY_MS)
}

/**
 * The part of the job's budget for the next attempt: what is available, divided by the number of waiting tasks, so that
 * all attempts together never cost more. null: no limit.
 */
export function attemptBudget(
  maxCost: NanoUsd | null,
  { spent, reserved, waiting }: { readonly spent: NanoUsd; readonly reserved: NanoUsd; readonly waiting: number },
): NanoUsd | null {
  if (maxCost === null) return null
  const available = maxCost - spent - reserved
  return available <= 0n ? zeroUsd : nanoUsdOf(available / BigInt(Math.max(waiting, 1)))
}

/** Temporary failures of an order, for which the task waits. All others end the task. */
const PASSING: ReadonlySet<string> = new Set([
  'no_capacity',
  'job_only_simulated',
  'quota_exceeded',
  'insufficient_balance',
  'key_spending_limit',
  'budget_exceeded',
  'node_not_ready',
  'node_not_found',
  'price_changed',
  // Another task uses the volume.
  'volume_in_use',
])

/** `machine`: no machine is free. `account`: the account can order nothing now. */
export function obstacleOf(reason: string): 'machine' | 'account' | 'final' {
  if (!PASSING.has(reason)) return 'final'
  const isOfAccount = ['quota_exceeded', 'insufficient_balance', 'key_spending_limit', 'budget_exceeded']
  return isOfAccount.includes(reason) ? 'account' : 'machine'
}
