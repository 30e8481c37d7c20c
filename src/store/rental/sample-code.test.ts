/** Packed samples are read as they were written, and small. */
import { expect, test } from 'vitest'
import { addMs, instantOf } from '../../base/instant.ts'
import type { Point, Sample } from '../../domain/sample.ts'
import { packSamples, packSummaries, unpackSamples, unpackSummaries } from './sample-code.ts'

const START = instantOf(Date.UTC(2026, 0, 1, 12))

test('a minute of samples is read as it was written, with its gaps', () => {
  const sample = (seconds: number, active: boolean | null): Sample => ({
    at: addMs(START, seconds * 1_000),
    active,
    machine: [12.5, 2_048, null, 1_000, 0],
    gpus: [
      { index: 3, values: [99.9, 81_552, 61, 699.9] },
      { index: 7, values: [null, null, null, null] },
    ],
  })
  const samples = [sample(0, true), sample(20, false), sample(50, null)]
  const data = packSamples(START, samples)
  expect(unpackSamples(START, data)).toEqual(samples)
})

test('values beyond what can be stored are cut, not wrapped', () => {
  const gpus = [{ index: 0, values: [1e9, 1e9, -5, 1e9] }]
  const data = packSamples(START, [{ at: START, active: null, machine: [1e30, 0, 0, 0, 0], gpus }])
  const [read] = unpackSamples(START, data)
  expect(read?.gpus[0]?.values).toEqual([6_553.4, 1_048_544, 0, 6_553.4])
})

test('a minute of one GPU takes at most 180 bytes, an hour of summaries at most 700', () => {
  const values = { machine: [1, 2, 3, 4, 5], gpus: [{ index: 0, values: [1, 16, 3, 4] }] }
  const samples = Array.from({ length: 6 }, (_, n) => ({ at: addMs(START, n * 10_000), active: false, ...values }))
  expect(packSamples(START, samples).length).toBeLessThanOrEqual(180)
  const points = Array.from({ length: 12 }, (_, n): Point => {
    return { at: addMs(START, n * 300_000), average: values, maximum: values }
  })
  const data = packSummaries(START, points)
  expect(data.length).toBeLessThanOrEqual(700)
  expect(unpackSummaries(START, data)).toEqual(points)
})
