import { describe, expect, test } from 'vitest'
import { sample } from './sampler.ts'

const never = new AbortController().signal
const onStep = (): void => {}

describe('the path is followed', () => {
  /** x' = x cos t has the solution x(0) = x(1) exp(-sin 1). */
  async function faultAfter(steps: number, shift: number): Promise<number> {
    const velocity = async (x: Float32Array, t: number) => x.map((value) => value * Math.cos(t))
    const [end = NaN] = await sample({ noise: Float32Array.of(2), steps, shift, velocity, onStep, signal: never })
    return Math.abs(end - 2 * Math.exp(-Math.sin(1)))
  }

  test.each([1, 2, 3])('to second order, with the shift %d: twice the steps, a quarter of the fault', async (shift) => {
    const faults = await Promise.all([12, 24, 48].map((steps) => faultAfter(steps, shift)))
    const [a = NaN, b = NaN, c = NaN] = faults
    for (const ratio of [a / b, b / c]) {
      expect(ratio).toBeGreaterThan(3.4)
      expect(ratio).toBeLessThan(4.8)
    }
  })

  test('exactly, where the velocity grows evenly with time', async () => {
    // x' = 3 + 4t from x(1) = 5: x(0) = 0. Only the first step, which has none before it, is not exact: it takes the
    // velocity of its beginning for the whole, a fault of half the square of its length times 4.
    const velocity = async (x: Float32Array, t: number) => x.map(() => 3 + 4 * t)
    const [end = NaN] = await sample({ noise: Float32Array.of(5), steps: 4, shift: 1, velocity, onStep, signal: never })
    expect(end).toBeCloseTo(-2 * 0.25 ** 2, 5)
  })
})

test('the times go from 1 to 0 and are closer together near 1', async () => {
  const times: number[] = []
  const noise = Float32Array.of(1, -1)
  const velocity = async (x: Float32Array, t: number) => {
    times.push(t)
    return x
  }
  await sample({ noise, steps: 4, shift: 2, velocity, onStep, signal: never })
  expect(times).toEqual([1, 1.5 / 1.75, 1 / 1.5, 0.5 / 1.25])
  expect(noise).toEqual(Float32Array.of(1, -1))
})

test('one step takes the whole way at once', async () => {
  const velocity = async () => Float32Array.of(0.25, 4)
  const noise = Float32Array.of(1, 1)
  expect(await sample({ noise, steps: 1, shift: 2, velocity, onStep, signal: never })).toEqual(
    Float32Array.of(0.75, -3),
  )
})

test('each step is told, and none is begun after it was called off', async () => {
  const off = new AbortController()
  const told: number[] = []
  let asked = 0
  const sampling = sample({
    noise: Float32Array.of(1),
    steps: 1_000,
    shift: 2,
    velocity: async (x) => {
      asked += 1
      return x
    },
    onStep: (step) => {
      told.push(step)
      if (step === 3) off.abort(new Error('called off'))
    },
    signal: off.signal,
  })
  await expect(sampling).rejects.toThrow('called off')
  expect(told).toEqual([1, 2, 3])
  expect(asked).toBe(3)
})
