/**
 * The life of a task of a job. Everything follows from its row, the rental of its living attempt and the clock, so a step
 * that is decided twice, or after a crash, is the same step.
 */
import { addMs, SECOND_MS, type Instant } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { AttemptOutcome, JobState } from '../contract/job-state.ts'
import { rentalStateTable, type RentalState } from '../contract/rental-state.ts'

/** How long contact with a host may be lost until the task starts elsewhere: 20 s pass before that is noticed. */
export const LOST_MS = 20 * SECOND_MS

export interface AttemptFacts {
  readonly task: {
    readonly state: JobState
    readonly restarts: number
    readonly failures: number
    /** Running time of its ended attempts. */
    readonly ranMs: number
  }
  readonly job: { readonly timeoutMs: number; readonly retries: number; readonly isCancelled: boolean }
  readonly rental: {
    readonly status: RentalState
    readonly since: Instant
    readonly reason: string | null
    readonly exitCode: number | null
    readonly startedAt: Instant | null
    /** When its end was recorded, or when it was to end. null: it lives. */
    readonly endedAt: Instant | null
    readonly autoTerminateAt: Instant | null
    /** Whether its host no longer has it. */
    readonly isReleased: boolean
  }
  /** Whether its output was handed over. */
  readonly isCollected: boolean
}

export type JobStep =
  | { readonly kind: 'wait' }
  /** `endAt`: when its time is used up. null: it does not run yet. */
  | { readonly kind: 'note'; readonly state: 'Starting' | 'Running'; readonly endAt: Instant | null }
  | { readonly kind: 'terminate'; readonly reason: 'job_cancelled' | 'job_lost' }
  | ({ readonly kind: 'finish' } & Finish)

export interface Finish {
  readonly outcome: AttemptOutcome
  /** The state of the task. `Queued`: another attempt follows. */
  readonly next: Extract<JobState, 'Queued' | 'Succeeded' | 'Failed' | 'Cancelled' | 'TimedOut'>
  readonly reason: string
  readonly ranMs: number
  /** How long the next attempt waits. */
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

/** The rental has ended: its output is awaited while its host can still hand it over. */
function stepOfEnded(facts: AttemptFacts, now: Instant): JobStep {
  const { rental, isCollected } = facts
  // A command may begin and end while its host is not heard.
  const hasRun = rental.startedAt !== null || rental.exitCode !== null
  const isReachable = hasRun && rental.reason !== 'job_lost' && !rental.isReleased
  const isDue = addMs(rental.since, limits.jobCollectMs) <= now
  return isReachable && !isCollected && !isDue ? { kind: 'wait' } : { kind: 'finish', ...finishOf(facts) }
}

/** The task failed by itself: another machine would not help. */
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
/** Its program ended: `retries` counts. */
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

/** The first restart is immediate: its host was lost. Later ones may have another cause. */
function restartDelayMs(restarts: number): number {
  return restarts === 0 ? 0 : Math.min(SECOND_MS * 2 ** restarts, MAX_RESTART_DELAY_MS)
}

/**
 * The part of the job's budget for the next attempt: an equal part of what is left for each task that waits, so that all
 * together never cost more. null: no limit.
 */
export function attemptBudget(
  maxCost: NanoUsd | null,
  { spent, reserved, waiting }: { readonly spent: NanoUsd; readonly reserved: NanoUsd; readonly waiting: number },
): NanoUsd | null {
  if (maxCost === null) return null
  const left = maxCost - spent - reserved
  return left <= 0n ? zeroUsd : nanoUsdOf(left / BigInt(Math.max(waiting, 1)))
}

/** Failures of an order that can pass: the task waits. All others end it. */
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
  // Another task has it.
  'volume_in_use',
])

/** `machine`: no machine is free. `account`: whatever it orders, the account gets nothing now. */
export function obstacleOf(reason: string): 'machine' | 'account' | 'final' {
  if (!PASSING.has(reason)) return 'final'
  const isOfAccount = ['quota_exceeded', 'insufficient_balance', 'key_spending_limit', 'budget_exceeded']
  return isOfAccount.includes(reason) ? 'account' : 'machine'
}
