/** Decisions about replicas, case by case. */
import { describe, expect, test } from 'vitest'
import { addMs, HOUR_MS, instantOf, MINUTE_MS, SECOND_MS } from '../base/instant.ts'
import { usd } from '../base/money.ts'
import {
  affordableReplicas,
  deploymentStatusOf,
  isNews,
  planServing,
  type ReplicaFacts,
  type ServingAction,
  type ServingFacts,
} from './serving.ts'

const now = instantOf(Date.UTC(2026, 0, 1))
const before = (ms: number) => addMs(now, -ms)

function replica(id: string, more: Partial<ReplicaFacts> = {}): ReplicaFacts {
  return {
    id,
    version: 1,
    state: 'ready',
    createdAt: before(10 * MINUTE_MS),
    readyAt: more.state === 'starting' ? null : before(5 * MINUTE_MS),
    drainingAt: null,
    rental: { status: 'Running', since: before(9 * MINUTE_MS) },
    inFlight: 0,
    isUnrouted: false,
    ...more,
  }
}

const starting = (id: string, more: Partial<ReplicaFacts> = {}) =>
  replica(id, { state: 'starting', createdAt: before(MINUTE_MS), ...more })

function facts(replicas: readonly ReplicaFacts[], more: Partial<ServingFacts> = {}): ServingFacts {
  return {
    replicas,
    desired: replicas.length,
    version: 1,
    readyVersion: 1,
    isVersionFailed: false,
    inPlace: false,
    isDeleted: false,
    failures: 0,
    failedAt: null,
    blocked: null,
    startMs: 10 * MINUTE_MS,
    drainMs: 2 * MINUTE_MS,
    ...more,
  }
}

/** `start 2`, `drain a`, `end b start_timed_out!` (`!`: a failure). */
function plan(input: ServingFacts): string[] {
  const text = (action: ServingAction): string => {
    if (action.kind === 'start') return `start ${action.version}`
    const failure = action.kind === 'end' && action.isFailure ? '!' : ''
    return `${action.kind} ${action.replicaId} ${action.why}${failure}`
  }
  return planServing(input, now).map(text)
}

describe('scaling', () => {
  test('starts what is missing, and pending replicas count', () => {
    expect(plan(facts([], { desired: 3 }))).toEqual(['start 1', 'start 1', 'start 1'])
    expect(plan(facts([starting('a'), replica('b')], { desired: 3 }))).toEqual(['start 1'])
    expect(plan(facts([starting('a'), starting('b')], { desired: 2 }))).toEqual([])
  })

  test('ends replicas that nobody waits for first, then drains the one with the fewest requests', () => {
    const three = [replica('a', { inFlight: 5 }), replica('b', { inFlight: 1 }), starting('c')]
    expect(plan(facts(three, { desired: 2 }))).toEqual(['end c not_needed'])
    expect(plan(facts(three, { desired: 1 }))).toEqual(['end c not_needed', 'drain b not_needed'])
  })

  test('an order that found no machine is not repeated at once', () => {
    const blocked = { at: before(2 * SECOND_MS), noCapacity: true }
    expect(plan(facts([], { desired: 1, blocked }))).toEqual([])
    expect(plan(facts([], { desired: 1, blocked: { ...blocked, at: before(6 * SECOND_MS) } }))).toEqual(['start 1'])
  })

  test('the hourly budget covers whole replicas', () => {
    expect(affordableReplicas(usd('2'), [usd('0.4'), usd('0.6')])).toBe(3)
    expect(affordableReplicas(usd('0.1'), [usd('0.4')])).toBe(0)
    expect(affordableReplicas(null, [usd('0.4')])).toBe(Infinity)
  })
})

describe('draining', () => {
  const draining = (more: Partial<ReplicaFacts>) =>
    facts([replica('a', { state: 'draining', drainingAt: before(MINUTE_MS), ...more })], { desired: 0 })

  test('ends only after every gateway has stopped sending requests and the last one has ended', () => {
    expect(plan(draining({ isUnrouted: false, inFlight: 0 }))).toEqual([])
    expect(plan(draining({ isUnrouted: true, inFlight: 1 }))).toEqual([])
    expect(plan(draining({ isUnrouted: true, inFlight: 0 }))).toEqual(['end a drained'])
  })

  test('ends at its limit, whatever still runs', () => {
    const overdue = { drainingAt: before(3 * MINUTE_MS), inFlight: 2 }
    expect(plan(draining(overdue))).toEqual(['end a drain_timed_out'])
  })

  test('missing reports of an idle replica do not block it: with no gateways, nothing routes', () => {
    expect(plan(draining({ isUnrouted: true }))).toEqual(['end a drained'])
  })
})

describe('losses', () => {
  test('a replica whose rental ended is replaced at once', () => {
    const failed = replica('a', { rental: { status: 'Failed', since: before(SECOND_MS) } })
    expect(plan(facts([failed, replica('b')]))).toEqual(['end a rental_ended', 'start 1'])
  })

  test('contact that is lost for a moment changes nothing; for longer it is replaced, and is no failure', () => {
    const unknown = (ms: number) => replica('a', { rental: { status: 'Unknown', since: before(ms) } })
    expect(plan(facts([unknown(5 * SECOND_MS)]))).toEqual([])
    expect(plan(facts([unknown(MINUTE_MS)]))).toEqual(['end a contact_lost', 'start 1'])
  })

  test('a replica whose engine is stuck is replaced, once it was in use (gpus promise 11)', () => {
    expect(plan(facts([replica('a', { isStuck: true }), replica('b')]))[0]).toBe('end a stuck')
    expect(plan(facts([starting('a', { isStuck: true })]))).toEqual([])
  })

  test('one that never answers, or ends right after its first answer, is a failure', () => {
    const overdue = starting('a', { createdAt: before(11 * MINUTE_MS) })
    expect(plan(facts([overdue], { failures: 0 }))[0]).toBe('end a start_timed_out!')
    const ended = { status: 'Failed', since: before(SECOND_MS) } as const
    expect(plan(facts([starting('a', { rental: ended })]))[0]).toBe('end a rental_ended!')
    expect(plan(facts([replica('a', { readyAt: before(10 * SECOND_MS), rental: ended })]))[0]).toBe(
      'end a rental_ended!',
    )
  })

  test.each([
    [1, 10],
    [2, 20],
    [5, 160],
    [6, 300],
    [7, 300],
  ])('after %i failures in a row the next start waits %i seconds', (failures, seconds) => {
    const failed = (ms: number) => facts([], { desired: 2, readyVersion: null, failures, failedAt: before(ms) })
    expect(plan(failed((seconds - 1) * SECOND_MS))).toEqual([])
    expect(plan(failed((seconds + 1) * SECOND_MS))).toEqual(['start 1'])
  })

  test('a version that fails is given up even if it was ready once, and what still runs serves on', () => {
    expect(plan(facts([replica('a')], { desired: 2, isVersionFailed: true }))).toEqual([])
  })

  test('an old version that cannot be started again backs off too', () => {
    const failed = { version: 2, readyVersion: 1, isVersionFailed: true, desired: 1, failures: 2 }
    expect(plan(facts([], { ...failed, failedAt: before(15 * SECOND_MS) }))).toEqual([])
    expect(plan(facts([], { ...failed, failedAt: before(25 * SECOND_MS) }))).toEqual(['start 1'])
  })

  test('a crash loop stops', () => {
    expect(plan(facts([], { desired: 1, readyVersion: null, failures: 8, failedAt: before(60 * MINUTE_MS) }))).toEqual(
      [],
    )
  })
})

describe('rollouts', () => {
  const rollout = { version: 2, readyVersion: 1 }
  const fresh = (id: string, more: Partial<ReplicaFacts> = {}) => replica(id, { version: 2, ...more })

  test('add one new replica at a time, and drain an old one only when a new one is ready', () => {
    const old = [replica('a'), replica('b', { inFlight: 3 })]
    expect(plan(facts(old, { ...rollout, desired: 2 }))).toEqual(['start 2'])
    expect(plan(facts([...old, starting('c', { version: 2 })], { ...rollout, desired: 2 }))).toEqual([])
    expect(plan(facts([...old, fresh('c')], { ...rollout, desired: 2 }))).toEqual(['drain a replaced', 'start 2'])
    expect(plan(facts([fresh('c'), fresh('d')], { ...rollout, desired: 2 }))).toEqual([])
  })

  test('never have fewer ready replicas than desired, whatever the order of events', () => {
    let replicas: ReplicaFacts[] = [replica('a'), replica('b'), replica('c')]
    for (let step = 0; step < 40; step += 1) {
      for (const action of planServing(facts(replicas, { ...rollout, desired: 3 }), now)) {
        if (action.kind === 'start') replicas.push(starting(`n${step}`, { version: 2 }))
        if (action.kind === 'drain') {
          replicas = replicas.map((one) =>
            one.id === action.replicaId ? { ...one, state: 'draining', drainingAt: now, isUnrouted: true } : one,
          )
        }
        if (action.kind === 'end') replicas = replicas.filter(({ id }) => id !== action.replicaId)
      }
      expect(replicas.filter(({ state }) => state === 'ready').length).toBeGreaterThanOrEqual(3)
      replicas = replicas.map((one) => (one.state === 'starting' ? { ...one, state: 'ready', readyAt: now } : one))
    }
    expect(replicas.map(({ version, state }) => `${version} ${state}`)).toEqual(['2 ready', '2 ready', '2 ready'])
  })

  test('a failed version leaves the old one serving, and replaces its losses', () => {
    const failed = { ...rollout, isVersionFailed: true, desired: 2 }
    expect(plan(facts([replica('a'), starting('c', { version: 2 })], failed))).toEqual(['end c replaced', 'start 1'])
    expect(plan(facts([replica('a'), replica('b')], failed))).toEqual([])
  })

  test('wait without a spare GPU, unless they may replace in place, one at a time', () => {
    const blocked = { at: before(2 * SECOND_MS), noCapacity: true }
    const old = [replica('a', { inFlight: 2 }), replica('b')]
    expect(plan(facts(old, { ...rollout, desired: 2, blocked }))).toEqual([])
    expect(plan(facts(old, { ...rollout, desired: 2, blocked, inPlace: true }))).toEqual(['drain b replaced'])
    const draining = replica('b', { state: 'draining', drainingAt: before(SECOND_MS) })
    expect(plan(facts([replica('a'), draining], { ...rollout, desired: 2, blocked, inPlace: true }))).toEqual([])
  })

  test('a deployment at zero starts the new version with its next request', () => {
    expect(plan(facts([], { ...rollout, desired: 1 }))).toEqual(['start 2'])
  })
})

test('deleting drains what serves and ends what starts', () => {
  expect(plan(facts([replica('a'), starting('b')], { isDeleted: true }))).toEqual(['drain a deleted', 'end b deleted'])
})

test('the status says what a deployment waits for', () => {
  const nothing = {
    isDeleted: false,
    ready: 0,
    starting: 0,
    desired: 0,
    failed: null,
    blocked: null,
    startingDetail: null,
  }
  expect(deploymentStatusOf(nothing)).toEqual({ status: 'idle', message: null })
  expect(deploymentStatusOf({ ...nothing, desired: 1, blocked: 'no GPU' })).toEqual({
    status: 'waiting',
    message: 'no GPU',
  })
  expect(deploymentStatusOf({ ...nothing, desired: 1, starting: 1, startingDetail: 'loading' })).toEqual({
    status: 'starting',
    message: 'loading',
  })
  expect(deploymentStatusOf({ ...nothing, ready: 1, failed: 'exit 3' })).toEqual({ status: 'ready', message: 'exit 3' })
  expect(deploymentStatusOf({ ...nothing, desired: 1, failed: 'exit 3' })).toEqual({
    status: 'failed',
    message: 'exit 3',
  })
})

test('the same news is told again only after an hour, and other news at once', () => {
  const lastTold = { budget: now }
  expect([
    isNews(lastTold, 'budget', addMs(now, HOUR_MS - 1)),
    isNews(lastTold, 'budget', addMs(now, HOUR_MS)),
  ]).toEqual([false, true])
  expect(isNews(lastTold, 'blocked:no_capacity', now)).toBe(true)
})
