import { describe, expect, test } from 'vitest'
import { addMs, instantOf, MINUTE_MS, SECOND_MS } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { usd, zeroUsd } from '../base/money.ts'
import { jobStateOf, jobStates, jobStateTable, type JobCounts } from '../contract/job-state.ts'
import { rentalStates } from '../contract/rental-state.ts'
import { attemptBudget, LOST_MS, nextStep, obstacleOf, type AttemptFacts } from './job.ts'

const START = instantOf(Date.parse('2026-01-01T00:00:00Z'))

interface Change {
  readonly task?: Partial<AttemptFacts['task']>
  readonly job?: Partial<AttemptFacts['job']>
  readonly rental?: Partial<AttemptFacts['rental']>
  readonly isCollected?: boolean
}

function facts({ task, job, rental, isCollected = false }: Change = {}): AttemptFacts {
  return {
    task: { state: 'Running', restarts: 0, failures: 0, ranMs: 0, ...task },
    job: { timeoutMs: MINUTE_MS, retries: 0, isCancelled: false, ...job },
    rental: {
      status: 'Running',
      since: START,
      reason: null,
      exitCode: null,
      startedAt: START,
      endedAt: null,
      autoTerminateAt: addMs(START, MINUTE_MS),
      isReleased: false,
      ...rental,
    },
    isCollected,
  }
}

const stepAfter = (ms: number, change: Change) => nextStep(facts(change), addMs(START, ms))
const ended = (reason: string, more: Change = {}) =>
  stepAfter(10_000, {
    ...more,
    rental: {
      status: 'Terminating',
      reason,
      since: addMs(START, 10_000),
      endedAt: addMs(START, 10_000),
      ...more.rental,
    },
    isCollected: true,
  })

describe('while its rental lives', () => {
  test('a step that was taken is not taken again', () => {
    expect(stepAfter(1, {})).toEqual({ kind: 'wait' })
    expect(stepAfter(1, { task: { state: 'Starting' }, rental: { status: 'Pending', startedAt: null } })).toEqual({
      kind: 'wait',
    })
  })

  test('promise 51: the time of earlier attempts counts', () => {
    const step = stepAfter(1, { task: { ranMs: 45_000 } })
    expect(step).toEqual({ kind: 'note', state: 'Running', endAt: addMs(START, 15_000) })
  })

  test('promise 54: a host that is out of contact is given up', () => {
    expect(stepAfter(LOST_MS - 1, { rental: { status: 'Unknown' } })).toEqual({ kind: 'wait' })
    expect(stepAfter(LOST_MS, { rental: { status: 'Unknown' } })).toEqual({ kind: 'terminate', reason: 'job_lost' })
    // Twenty seconds pass before contact counts as lost.
    expect(LOST_MS + 20 * SECOND_MS).toBeLessThan(MINUTE_MS)
  })

  test('a cancelled job ends it, in each state', () => {
    for (const status of rentalStates.filter((state) => !['Failed', 'Terminating', 'Terminated'].includes(state)))
      expect(stepAfter(0, { job: { isCancelled: true }, rental: { status } })).toMatchObject({
        reason: 'job_cancelled',
      })
  })
})

describe('when its rental has ended', () => {
  test('promise 55: its output is awaited, while its host can hand it over', () => {
    const rental = { status: 'Terminating', reason: 'completed', exitCode: 0, since: START } as const
    expect(stepAfter(limits.jobCollectMs - 1, { rental })).toEqual({ kind: 'wait' })
    // It began and ended while nobody heard its host.
    expect(stepAfter(1, { rental: { ...rental, startedAt: null } })).toEqual({ kind: 'wait' })
    expect(stepAfter(1, { rental: { ...rental, startedAt: null, exitCode: null } })).toMatchObject({ kind: 'finish' })
    expect(stepAfter(limits.jobCollectMs, { rental })).toMatchObject({ kind: 'finish', next: 'Succeeded' })
    expect(stepAfter(1, { rental, isCollected: true })).toMatchObject({ kind: 'finish', next: 'Succeeded' })
    expect(stepAfter(1, { rental: { ...rental, isReleased: true } })).toMatchObject({ kind: 'finish' })
    expect(stepAfter(1, { rental: { ...rental, reason: 'job_lost' } })).toMatchObject({
      kind: 'finish',
      outcome: 'lost',
    })
  })

  // oxfmt-ignore
  const ends = [
    ['completed',        {},                            'succeeded', 'Succeeded', 'completed'],
    ['process_exited',   {},                            'failed',    'Failed',    'process_exited'],
    ['process_exited',   { job: { retries: 1 } },       'failed',    'Queued',    'process_exited'],
    ['out_of_memory',    { job: { retries: 1 }, task: { failures: 1 } }, 'failed', 'Failed', 'out_of_memory'],
    ['image_not_found',  { job: { retries: 9 } },       'failed',    'Failed',    'image_not_found'],
    ['spending_limit',   {},                            'failed',    'Failed',    'max_cost'],
    ['balance_empty',    {},                            'failed',    'Failed',    'balance_empty'],
    ['auto_terminate',   {},                            'timed_out', 'TimedOut',  'auto_terminate'],
    ['customer_request', {},                            'cancelled', 'Cancelled', 'customer_request'],
    ['job_cancelled',    {},                            'cancelled', 'Cancelled', 'job_cancelled'],
    ['process_exited',   { job: { isCancelled: true } }, 'cancelled', 'Cancelled', 'process_exited'],
    // A command that was done before the cancel is done.
    ['completed',        { job: { isCancelled: true } }, 'succeeded', 'Succeeded', 'completed'],
    ['job_lost',         {},                            'lost',      'Queued',    'job_lost'],
    ['gpu_missing',      { task: { restarts: 9 } },     'lost',      'Queued',    'gpu_missing'],
    ['gpu_missing',      { task: { restarts: 10 } },    'lost',      'Failed',    'gpu_missing'],
    ['job_lost',         { task: { ranMs: 50_000 } },   'lost',      'TimedOut',  'auto_terminate'],
  ] as const
  test.each(ends)('promise 49: %s with %o is %s, then %s', (reason, change, outcome, next, finalReason) => {
    expect(ended(reason, change)).toMatchObject({ kind: 'finish', outcome, next, reason: finalReason, ranMs: 10_000 })
  })

  test('the first restart is immediate, and later ones wait up to half a minute', () => {
    const delays = [0, 1, 2, 9].map((restarts) => ended('job_lost', { task: { restarts } }))
    expect(delays).toMatchObject([{ delayMs: 0 }, { delayMs: 2_000 }, { delayMs: 4_000 }, { delayMs: 30_000 }])
  })
})

test('promise 51: parts of the budget never add up to more than the budget', () => {
  const budget = (spent: string, reserved: string, waiting: number) =>
    attemptBudget(usd('1'), { spent: usd(spent), reserved: usd(reserved), waiting })
  expect(budget('0', '0', 4)).toBe(usd('0.25'))
  expect(budget('0.1', '0.5', 2)).toBe(usd('0.2'))
  expect(budget('0.4', '0.6', 1)).toBe(zeroUsd)
  expect(attemptBudget(null, { spent: usd('5'), reserved: zeroUsd, waiting: 1 })).toBeNull()
})

test('a lack of machines or money is waited for, and anything else ends the task', () => {
  expect(obstacleOf('no_capacity')).toBe('machine')
  expect(obstacleOf('insufficient_balance')).toBe('account')
  expect(obstacleOf('secret_not_found')).toBe('final')
})

test('the table of states: an end has no way out, and every other state leads to an end', () => {
  for (const state of jobStates) {
    const { isEnd, next } = jobStateTable[state]
    expect(next.length === 0).toBe(isEnd)
    expect(next.some((other) => jobStateTable[other].isEnd)).toBe(!isEnd)
  }
})

test('a job is in the state of its liveliest task, and at its end in that of the worst', () => {
  const none = Object.fromEntries(jobStates.map((state) => [state, 0])) as unknown as JobCounts
  expect(jobStateOf({ ...none, Queued: 9, Running: 1, Failed: 3 })).toBe('Running')
  expect(jobStateOf({ ...none, Queued: 1, Succeeded: 3 })).toBe('Queued')
  expect(jobStateOf({ ...none, Succeeded: 3, Failed: 1, Cancelled: 1 })).toBe('Failed')
  expect(jobStateOf({ ...none, Succeeded: 3 })).toBe('Succeeded')
})
