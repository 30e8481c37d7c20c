/** A machine is idle only if nothing at all speaks for its use, for the whole time. */
import { expect, test } from 'vitest'
import { addMs, instantOf, MINUTE_MS, SECOND_MS, type Instant } from '../base/instant.ts'
import type { IdleRule } from '../contract/workload.ts'
import { advanceIdle, decideIdle, inUse, isIdle, type IdleState } from './idle.ts'
import { SAMPLE_MS, type Sample } from './sample.ts'

const START = instantOf(Date.UTC(2026, 0, 1, 12))
const rule: IdleRule = { afterMinutes: 5, gpuUtilBelowPercent: 5, action: 'stop', graceSeconds: 120 }

function sample(at: Instant, change: { active?: boolean | null; utilization?: Array<number | null> } = {}): Sample {
  const { active = false, utilization = [0, 4.9] } = change
  const gpus = utilization.map((value, index) => ({ index, values: [value, 80_000, 60, 300] }))
  return { at, active, machine: [100, 1, 1, 1e9, 1e9], gpus }
}

const during = (from: Instant, to: Instant, change: Parameters<typeof sample>[1] = {}): Sample[] =>
  Array.from({ length: Math.floor((to - from) / SAMPLE_MS) }, (_, n) => sample(addMs(from, n * SAMPLE_MS), change))

test.each([
  ['all GPUs below the limit and nobody connected', {}, true],
  ['one GPU at the limit', { utilization: [0, 5] }, false],
  ['one GPU busy', { utilization: [0, 90] }, false],
  ['a GPU that was not measured', { utilization: [0, null] }, false],
  ['no GPU at all', { utilization: [] }, false],
  ['somebody connected', { active: true }, false],
  ['an agent that does not say', { active: null }, false],
])('a sample with %s', (_, change, expected) => {
  expect(isIdle(sample(START, change), rule)).toBe(expected)
})

/** Passes every 30 seconds over the samples; returns what was decided, and when. */
function follow(machines: Sample[][], forMs: number, own = rule): Array<[string, number]> {
  const decided: Array<[string, number]> = []
  let state: IdleState = inUse
  for (let at = START; at <= START + forMs; at = addMs(at, 30 * SECOND_MS)) {
    const known = machines.map((samples) => samples.filter((one) => one.at <= at))
    state = advanceIdle(own, state, known, at)
    const decision = decideIdle(own, state, at)
    if (decision !== 'wait') decided.push([decision, (at - START) / MINUTE_MS])
    if (decision === 'notify') state = { ...state, notifiedAt: at }
    if (decision === 'act') break
  }
  return decided
}

const END = addMs(START, 30 * MINUTE_MS)

test('tells after the wait, acts after the grace period', () => {
  expect(follow([during(START, addMs(START, 9 * MINUTE_MS))], 8 * MINUTE_MS)).toEqual([
    ['notify', 5],
    ['act', 7],
  ])
})

test('a rule that only notifies does so once in a stretch', () => {
  expect(follow([during(START, END)], 29 * MINUTE_MS, { ...rule, action: 'notify' })).toEqual([['notify', 5]])
})

test.each([
  ['a login', { active: true }],
  ['work on one GPU', { utilization: [0, 60] }],
  ['a GPU that is not measured', { utilization: [0, null] }],
])('%s begins the wait anew, also in the grace period', (_, change) => {
  const at = addMs(START, 6 * MINUTE_MS)
  const samples = [...during(START, at), sample(at, change), ...during(addMs(at, SAMPLE_MS), END)]
  expect(follow([samples], 14 * MINUTE_MS)).toEqual([
    ['notify', 5],
    ['notify', 11.5],
    ['act', 13.5],
  ])
})

test('a missing minute counts as use, and so does silence', () => {
  const gap = [...during(START, addMs(START, 3 * MINUTE_MS)), ...during(addMs(START, 4 * MINUTE_MS), END)]
  expect(follow([gap], 10 * MINUTE_MS)[0]).toEqual(['notify', 9.5])
  const silent = during(START, addMs(START, 5 * MINUTE_MS + SAMPLE_MS))
  expect(follow([silent], 29 * MINUTE_MS)).toEqual([['notify', 5]])
})

test('of several machines all have to be idle', () => {
  const busy = during(START, END, { utilization: [80] })
  expect(follow([during(START, END), busy], 29 * MINUTE_MS)).toEqual([])
  expect(follow([during(START, END), []], 29 * MINUTE_MS)).toEqual([])
})
