/** The limit that a gateway learns, against a simulated engine: full throughput, a short queue in the engine, no tuning. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { longestQueue, runToyLoad, type ToyLoad } from '../../test/sim/toy-load.ts'
import {
  autoTarget,
  initialLimit,
  learnLimit,
  MIN_WITHOUT_METRICS,
  queueOf,
  START_WITH_METRICS,
  type EngineFacts,
  type EngineLoad,
  type LimitSample,
  type LimitState,
} from './admission-limit.ts'

/** A Llama 8B on an H200, whose cache holds 880,000 tokens. */
const h200 = {
  slots: 1_024,
  kvTokens: 880_000,
  promptTokens: 100,
  outputTokens: 128,
  gateways: 1,
  seconds: 60,
} as const
const longPrompts = { ...h200, streams: 256, promptTokens: 8_000 } as const

function ratioToDirect(load: ToyLoad): { tokens: number; firstToken: number } {
  const direct = runToyLoad({ ...load, gateways: 0 })
  const ours = runToyLoad(load)
  return {
    tokens: ours.tokensPerSecond / direct.tokensPerSecond,
    firstToken: ours.firstTokenMs / direct.firstTokenMs,
  }
}

const facts: EngineFacts = { capacity: null, kvTokens: null, maximum: Infinity }

function sampleAt(atMs: number, fields: Partial<LimitSample> = {}): LimitSample {
  return { atMs, load: null, inFlight: 0, isWaiting: false, output: 0, refusals: 0, meanTokens: null, ...fields }
}

function loadOf(fields: Partial<EngineLoad>): EngineLoad {
  return { running: 0, waiting: 0, kvShare: 0, preemptions: 0, ...fields }
}

function learnAll(samples: readonly LimitSample[], given = facts, from: LimitState = initialLimit): LimitState {
  return samples.reduce((state, sample) => learnLimit(state, sample, given), from)
}

const started = learnAll([sampleAt(0, { load: loadOf({}) })])

describe('an engine with slots for all', () => {
  test.each([256, 1_024])(
    '%d streams with defaults reach the engine’s own rate after 5 s (gpus promise 1)',
    (streams) => {
      expect(ratioToDirect({ ...h200, streams }).tokens).toBeGreaterThanOrEqual(0.95)
    },
  )

  test.each([256, 1_024])('%d streams get their first token as early as directly (gpus promise 2)', (streams) => {
    expect(ratioToDirect({ ...h200, streams }).firstToken).toBeLessThanOrEqual(1.2)
  })
})

describe('an engine with fewer slots than streams', () => {
  const cases = [
    { ...h200, streams: 256, slots: 64 },
    { ...h200, streams: 1_024, slots: 64 },
    { ...h200, streams: 1_024, slots: 256 },
    { ...h200, streams: 2_000 },
    longPrompts,
    { ...longPrompts, outputTokens: 512 },
  ]

  test.each([1, 2])('is as busy through %d gateways as directly (gpus promise 1)', (gateways) => {
    for (const load of cases) expect(ratioToDirect({ ...load, gateways }).tokens).toBeGreaterThanOrEqual(0.95)
  })

  test.each([64, 256])('has a short queue in front of its %d slots; the others wait here (gpus promise 3)', (slots) => {
    const { waiting } = runToyLoad({ ...h200, streams: 1_024, slots, seconds: 90 })
    const steady = waiting.slice(-60)
    expect(Math.max(...steady)).toBeLessThanOrEqual(longestQueue(slots))
    // It never idles between two calls either.
    expect(Math.min(...steady)).toBeGreaterThan(0)
  })

  test.each([2, 4])('has a short queue behind %d gateways too, and none gets nothing (gpus promise 5)', (gateways) => {
    const { waiting, limits } = runToyLoad({ ...h200, streams: 1_024, slots: 64, gateways, seconds: 150 })
    expect(Math.max(...waiting.slice(-60))).toBeLessThanOrEqual(longestQueue(64))
    expect(Math.min(...limits.flat())).toBeGreaterThanOrEqual(1)
  })

  test('preempts no more calls than directly, also with prompts that fill its cache (gpus promise 8)', () => {
    for (const outputTokens of [128, 512, 2_048]) {
      const load = { ...longPrompts, outputTokens, seconds: 120 }
      const direct = runToyLoad({ ...load, gateways: 0 })
      expect(runToyLoad(load).preemptions).toBeLessThanOrEqual(direct.preemptions)
    }
  })

  test.each([1, 2, 4])(
    'under a constant load the limits of %d gateways stay within a tenth (gpus promise 12)',
    (gateways) => {
      for (const load of cases) {
        const { limits } = runToyLoad({ ...load, gateways, seconds: 180 })
        for (let n = 0; n < gateways; n += 1) {
          const steady = limits.slice(-60).map((all) => all[n] ?? 0)
          expect(Math.max(...steady) / Math.min(...steady)).toBeLessThan(1.1)
        }
      }
    },
  )

  test('a full cache whose calls become shorter gets more of them', () => {
    const full = loadOf({ running: 100, kvShare: 0.99 })
    const at = (ms: number, load: EngineLoad) => sampleAt(ms, { load, inFlight: 100, isWaiting: true })
    const before = { ...started, limit: 100, isProven: true }
    expect(learnLimit(before, at(1_000, full), facts).limit).toBe(100)
    expect(learnLimit(before, at(1_000, { ...full, kvShare: 0.9 }), facts).limit).toBe(107)
  })
})

test('is never below what the engine has proved to run, unless its cache is full (gpus promise 4)', () => {
  const loads = fc.record({
    streams: fc.integer({ min: 1, max: 600 }),
    slots: fc.integer({ min: 8, max: 512 }),
    promptTokens: fc.integer({ min: 1, max: 2_000 }),
    outputTokens: fc.integer({ min: 1, max: 400 }),
  })
  fc.assert(
    fc.property(loads, (load) => {
      const { samples } = runToyLoad({ ...load, kvTokens: 10_000_000, gateways: 1, seconds: 20 })
      for (const [n, { state }] of samples.entries()) {
        const most = Math.max(...samples.slice(Math.max(0, n - 9), n + 1).map((one) => one.load.running ?? 0))
        expect(state.limit).toBeGreaterThanOrEqual(most)
      }
    }),
    { numRuns: 25 },
  )
})

describe('lost metrics', () => {
  const learned = learnAll(
    [
      sampleAt(1_000, { load: loadOf({ running: 256 }), inFlight: 256, isWaiting: true }),
      sampleAt(2_000, { load: loadOf({ running: 512 }), inFlight: 512, isWaiting: true }),
    ],
    facts,
    started,
  )

  test('change no limit for a minute (gpus promise 9)', () => {
    expect(learned.limit).toBe(1_024)
    const minute = Array.from({ length: 59 }, (_, n) =>
      sampleAt(3_000 + n * 1_000, { inFlight: 1_024, isWaiting: true, refusals: n }),
    )
    expect(learnAll(minute, facts, learned).limit).toBe(1_024)
  })

  test('stop no traffic afterwards: our own output decides (gpus promise 9)', () => {
    const { tokensPerSecond } = runToyLoad({
      ...h200,
      streams: 512,
      seconds: 200,
      seen: (load, atMs) => (atMs < 10_000 ? load : null),
    })
    const direct = runToyLoad({ ...h200, streams: 512, gateways: 0, seconds: 60 })
    expect(tokensPerSecond / direct.tokensPerSecond).toBeGreaterThanOrEqual(0.9)
  })
})

describe('an explicit limit', () => {
  test('is a maximum (gpus promise 10)', () => {
    const { limits } = runToyLoad({ ...h200, streams: 1_024, facts: { maximum: 40 } })
    expect(Math.max(...limits.flat())).toBe(40)
  })

  test('above what the engine runs does not lengthen its queue (gpus promise 10)', () => {
    const { waiting } = runToyLoad({ ...h200, streams: 1_024, slots: 64, facts: { maximum: 512 }, seconds: 90 })
    expect(Math.max(...waiting.slice(-60))).toBeLessThanOrEqual(longestQueue(64))
  })
})

describe('the start', () => {
  test('is at the capacity that the engine states, and a short queue', () => {
    const known = { ...facts, capacity: 48 }
    expect(learnAll([sampleAt(0, { load: loadOf({}) })], known).limit).toBe(52)
    expect(learnAll([sampleAt(0)], known).limit).toBe(52)
    const { limits } = runToyLoad({ ...h200, streams: 512, slots: 48, facts: { capacity: 48 } })
    expect(new Set(limits.flat())).toEqual(new Set([52]))
  })

  test('is at 256 with metrics, less if the cache holds fewer requests, and at 32 without', () => {
    expect(started.limit).toBe(START_WITH_METRICS)
    const small = { ...facts, kvTokens: 80_000 }
    expect(learnAll([sampleAt(0, { load: loadOf({}), meanTokens: 2_000 })], small).limit).toBe(40)
    expect(learnAll([sampleAt(0)]).limit).toBe(MIN_WITHOUT_METRICS)
  })

  test('a burst whose prompts are being computed is no long queue', () => {
    const burst = [40, 90, 150, 220].map((running, n) =>
      sampleAt(1_000 * (n + 1), { load: loadOf({ running, waiting: 256 - running }), inFlight: 256, isWaiting: true }),
    )
    expect(learnAll(burst, facts, started).limit).toBeGreaterThanOrEqual(256)
  })
})

describe('without metrics', () => {
  const blind = { seen: () => null, seconds: 240 } as const

  test('the limit rises while the output does', () => {
    const ours = runToyLoad({ ...h200, ...blind, streams: 512 })
    const direct = runToyLoad({ ...h200, streams: 512, gateways: 0 })
    expect(ours.tokensPerSecond / direct.tokensPerSecond).toBeGreaterThanOrEqual(0.85)
  })

  test('a constant load moves it only at first (gpus promise 12)', () => {
    const { limits } = runToyLoad({ ...h200, ...blind, streams: 1_024, slots: 64, seconds: 120 })
    expect(new Set(limits.slice(-60).flat()).size).toBe(1)
  })

  test('a refusal lowers it, not below 32', () => {
    const high = { ...learnAll([sampleAt(0)]), limit: 100 }
    expect(learnLimit(high, sampleAt(1_000, { refusals: 1 }), facts).limit).toBe(70)
    const low = learnAll(
      Array.from({ length: 9 }, (_, n) => sampleAt(n, { refusals: n + 1 })),
      facts,
      high,
    )
    expect(low.limit).toBe(MIN_WITHOUT_METRICS)
  })
})

test('the automatic target of scaling is a part of a proven limit, and a whole guess (gpus promise 13)', () => {
  expect(autoTarget({ limit: 400, isProven: true })).toBeCloseTo(280)
  expect(autoTarget({ limit: 256, isProven: false })).toBe(256)
  expect(autoTarget({ limit: 1, isProven: true })).toBe(1)
})

test('any samples give a limit from 1 to the ceiling', () => {
  const loads = fc.option(
    fc.record({
      running: fc.option(fc.nat(5_000)),
      waiting: fc.nat(5_000),
      kvShare: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
      preemptions: fc.option(fc.nat(100)),
    }),
  )
  const moments = fc.array(
    fc.record({
      load: loads,
      inFlight: fc.nat(5_000),
      isWaiting: fc.boolean(),
      output: fc.nat(1_000_000),
      refusals: fc.nat(50),
      meanTokens: fc.option(fc.integer({ min: 1, max: 100_000 })),
    }),
    { maxLength: 60 },
  )
  const given = fc.record({
    capacity: fc.option(fc.integer({ min: 1, max: 5_000 })),
    kvTokens: fc.option(fc.integer({ min: 1, max: 1_000_000 })),
    maximum: fc.integer({ min: 1, max: 100_000 }),
  })
  fc.assert(
    fc.property(moments, given, (all, engine) => {
      let state = initialLimit
      for (const [n, moment] of all.entries()) {
        state = learnLimit(state, { ...moment, atMs: n * 1_000 }, engine)
        expect(Number.isSafeInteger(state.limit)).toBe(true)
        expect(state.limit).toBeGreaterThanOrEqual(1)
        expect(state.limit).toBeLessThanOrEqual(Math.min(engine.maximum, 5_000 + queueOf(5_000)))
      }
    }),
  )
})
