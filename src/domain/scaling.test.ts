/** Load traces in, replicas and queue times out: a simulation of a deployment second by second. */
import { describe, expect, test } from 'vitest'
import { addMs, instantOf, SECOND_MS } from '../base/instant.ts'
import { automaticTarget, decideScale, initialScaling, type ScalingReason, type ScalingRule } from './scaling.ts'

const rule: ScalingRule = {
  min: 0,
  max: 8,
  targetOutstanding: 4,
  upDelayMs: 5 * SECOND_MS,
  downDelayMs: 60 * SECOND_MS,
  idleMs: 120 * SECOND_MS,
}
const start = instantOf(Date.UTC(2026, 0, 1))

interface Simulated {
  readonly replicas: readonly number[]
  readonly reasons: readonly ScalingReason[]
  /** The longest wait of all requests, in seconds. */
  readonly longestWait: number
  readonly unserved: number
  /** Changes from growing to shrinking or back. */
  readonly turns: number
}

interface World {
  readonly rule?: Partial<ScalingRule>
  readonly startSeconds?: number
  readonly requestSeconds?: number
  readonly affordable?: number
}

/** `arrivals(second)`: new requests in that second. A replica runs eight requests at once. */
function simulate(seconds: number, arrivals: (second: number) => number, world: World = {}): Simulated {
  const { startSeconds = 20, requestSeconds = 2, affordable } = world
  const used = { ...rule, ...world.rule }
  let state = initialScaling(used, start)
  let starting: number[] = []
  let ready = 0
  let running: number[] = []
  const waiting: number[] = []
  const replicas: number[] = []
  const reasons: ScalingReason[] = []
  let longestWait = 0
  for (let second = 0; second < seconds; second += 1) {
    const now = addMs(start, second * SECOND_MS)
    for (let n = 0; n < arrivals(second); n += 1) waiting.push(second)
    running = running.filter((endsAt) => endsAt > second)
    ready += starting.filter((readyAt) => readyAt <= second).length
    starting = starting.filter((readyAt) => readyAt > second)
    while (running.length < ready * 8 && waiting.length > 0) {
      longestWait = Math.max(longestWait, second - (waiting.shift() ?? second))
      running.push(second + requestSeconds)
    }
    const outstanding = waiting.length + running.length
    const demand = { outstanding, current: outstanding, activeAt: null, starting: starting.length, ready }
    const decided = decideScale(used, state, demand, now, affordable)
    state = decided.state
    if (decided.why !== 'steady') reasons.push(decided.why)
    while (ready + starting.length < state.desired) starting.push(second + startSeconds)
    const surplus = ready + starting.length - state.desired
    starting.splice(0, Math.max(0, Math.min(surplus, starting.length)))
    ready = Math.min(ready, state.desired)
    replicas.push(state.desired)
  }
  const steps = replicas.flatMap((n, i) =>
    i > 0 && n !== replicas[i - 1] ? [Math.sign(n - (replicas[i - 1] ?? 0))] : [],
  )
  const turns = steps.filter((step, i) => i > 0 && step !== steps[i - 1]).length
  return { replicas, reasons, longestWait, unserved: waiting.length, turns }
}

/** Repeatable noise between 0 and 1. */
function noise(second: number): number {
  const x = Math.sin(second * 12.9898) * 43_758.5453
  return x - Math.floor(x)
}

describe('scaling', () => {
  test('one request at zero starts exactly one replica, and others share it', () => {
    const { replicas, longestWait } = simulate(100, (second) => (second === 10 ? 1 : second === 12 ? 2 : 0))
    expect(replicas.slice(0, 10).every((n) => n === 0)).toBe(true)
    expect(Math.max(...replicas)).toBe(1)
    expect(replicas[10]).toBe(1)
    expect(longestWait).toBeLessThanOrEqual(21)
  })

  test('never scales to zero while a request waits or runs, or a replica starts', () => {
    const { replicas, unserved } = simulate(900, (second) => (second === 0 ? 1 : 0), { startSeconds: 600 })
    expect(replicas.slice(1, 601).every((n) => n === 1)).toBe(true)
    expect(unserved).toBe(0)
    const long = simulate(500, (second) => (second === 0 ? 1 : 0), { requestSeconds: 400 })
    expect(long.replicas.slice(0, 420).every((n) => n === 1)).toBe(true)
    const now = addMs(start, 3_600_000)
    const state = { ...initialScaling(rule, start), desired: 1 }
    const quiet = { outstanding: 0, current: 0, activeAt: null, starting: 0, ready: 1 }
    expect(decideScale(rule, state, quiet, now).state.desired).toBe(0)
    expect(decideScale(rule, state, { ...quiet, starting: 1 }, now).state.desired).toBe(1)
    expect(decideScale(rule, state, { ...quiet, current: 1 }, now).state.desired).toBe(1)
  })

  test('goes back to zero after the idle time, and not before', () => {
    const { replicas } = simulate(300, (second) => (second === 0 ? 1 : 0))
    const ended = replicas.indexOf(0, 1)
    expect(ended).toBeGreaterThanOrEqual(120)
    expect(ended).toBeLessThan(150)
  })

  test.each([1, 3, 4, 7, 13, 15])('a constant load of %i requests per second settles and never oscillates', (rate) => {
    const { replicas, turns, unserved } = simulate(1_200, () => rate)
    // The queue of the cold start is a crest of its own.
    expect(turns).toBeLessThanOrEqual(1)
    expect(new Set(replicas.slice(200)).size).toBe(1)
    expect(unserved).toBeLessThanOrEqual(rate)
  })

  test.each([3, 6, 10])('a noisy load around %i requests per second makes at most one turn', (rate) => {
    const { turns } = simulate(1_800, (second) => Math.round(rate * (0.6 + 0.8 * noise(second))))
    expect(turns).toBeLessThanOrEqual(1)
  })

  test('pending replicas count as capacity: the same load orders nothing twice', () => {
    const { replicas } = simulate(120, () => 6, { startSeconds: 90, rule: { max: 100 } })
    // Nothing is served in this time, so the queue and the need grow; the order follows the need and never runs ahead.
    for (const [second, n] of replicas.entries()) expect(n).toBeLessThanOrEqual(Math.ceil((6 * (second + 1)) / 4))
    const now = addMs(start, 60_000)
    const state = { ...initialScaling(rule, start), desired: 3 }
    const decided = decideScale(
      rule,
      state,
      { outstanding: 12, current: 12, activeAt: null, starting: 3, ready: 0 },
      now,
    )
    expect(decided).toMatchObject({ state: { desired: 3, above: null }, why: 'steady' })
  })

  test('eight clients at zero start one replica (issue 31, 16)', () => {
    // Each sends its next request when the last is answered; a request takes a moment once the replica is there.
    const { replicas, unserved } = simulate(100, (second) => (second === 10 ? 8 : 0), { startSeconds: 60 })
    expect([Math.max(...replicas), unserved]).toEqual([1, 0])
  })

  test.each([1, 2, 5])('one of %i replicas that is lost is replaced by one (issue 31, 16)', (desired) => {
    const state = { ...initialScaling(rule, start), desired }
    const crowd = { outstanding: 40, current: 40, activeAt: null, starting: 1, ready: desired - 1 }
    for (let second = 0; second < 120; second += 1) {
      const decided = decideScale(rule, state, crowd, addMs(start, second * SECOND_MS))
      expect(decided).toMatchObject({ state: { desired, above: null }, why: 'steady' })
    }
    // Once it is back, the same crowd counts, from then on.
    const back = decideScale(rule, state, { ...crowd, starting: 0, ready: desired }, addMs(start, 120 * SECOND_MS))
    expect(back.state).toMatchObject({ desired, above: { since: addMs(start, 120 * SECOND_MS) } })
  })

  test('a spike shorter than the up delay starts nothing', () => {
    const { replicas } = simulate(300, (second) => (second === 250 ? 24 : 1), { requestSeconds: 1 })
    expect(new Set(replicas.slice(200))).toEqual(new Set([1]))
  })

  test('a wave is followed up and down with one turn per crest', () => {
    const wave = (second: number): number => Math.round(8 + 7 * Math.sin((second / 600) * 2 * Math.PI))
    const { turns, longestWait } = simulate(2_400, wave)
    expect(turns).toBeLessThanOrEqual(8)
    expect(longestWait).toBeLessThanOrEqual(40)
  })

  test('never exceeds the maximum or the budget, and says which', () => {
    const flood = simulate(200, () => 500)
    expect(Math.max(...flood.replicas)).toBe(8)
    expect(flood.reasons).toContain('maximum')
    const poor = simulate(200, () => 500, { affordable: 2 })
    expect(Math.max(...poor.replicas)).toBe(2)
    expect(poor.reasons).toContain('budget')
    expect(Math.max(...simulate(50, () => 5, { affordable: 0 }).replicas)).toBe(0)
  })

  test('goes from N to N-1 only if the load then fits, with headroom', () => {
    const later = addMs(start, 3_600_000)
    const down = (outstanding: number): number => {
      const state = { ...initialScaling(rule, start), desired: 3, below: { since: start, need: 1 } }
      return decideScale(rule, state, { outstanding, current: 1, activeAt: null, starting: 0, ready: 1 }, later).state
        .desired
    }
    expect(down(8)).toBe(3)
    expect(down(7.3)).toBe(3)
    expect(down(7.2)).toBe(2)
    expect(down(0)).toBe(1)
  })

  test('a new minimum applies at once, and a maximum of zero pauses the deployment', () => {
    const state = initialScaling(rule, start)
    const quiet = { outstanding: 0, current: 0, activeAt: null, starting: 0, ready: 1 }
    expect(decideScale({ ...rule, min: 2 }, state, quiet, start)).toMatchObject({
      state: { desired: 2 },
      why: 'minimum',
    })
    const busy = { ...quiet, outstanding: 9, current: 9 }
    const paused = decideScale({ ...rule, max: 0 }, { ...state, desired: 2 }, busy, start)
    expect(paused).toMatchObject({ state: { desired: 0 }, why: 'maximum' })
  })
})

describe('an automatic target (gpus promise 13)', () => {
  const load = (target: number) => ({ inFlight: 0, isUnrouted: false, target })

  test('adds up what gateways have learned of a replica, and averages over replicas', () => {
    expect(automaticTarget([{ a: load(100), b: load(300) }, { a: load(100) }], ['a', 'b'])).toBe(250)
    expect(automaticTarget([{ a: load(100), gone: load(900) }], ['a'])).toBe(100)
    expect(automaticTarget([], ['a'])).toBe(32)
  })

  test('rents no second replica while the first has room', () => {
    // A limit of 412, of which 70 % are the target.
    const targetOutstanding = automaticTarget([{ a: load(288) }], ['a'])
    const auto: ScalingRule = { min: 1, max: 4, targetOutstanding, upDelayMs: 0, downDelayMs: 0, idleMs: 0 }
    const state = { ...initialScaling(auto, instantOf(0)), desired: 1 }
    const desiredAt = (outstanding: number): number => {
      const demand = { outstanding, current: outstanding, activeAt: null, starting: 0, ready: 1 }
      return decideScale(auto, state, demand, instantOf(1_000)).state.desired
    }
    expect([desiredAt(5), desiredAt(256), desiredAt(288), desiredAt(289)]).toEqual([1, 1, 1, 2])
  })
})
