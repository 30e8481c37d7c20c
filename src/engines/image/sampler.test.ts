import { describe, expect, test } from 'vitest'
import { sample } from './sampler.ts'

const never = new AbortController().signal
const onStep = (): void => {}

describe('follows the path', () => {
  /** x' = x cos t has the solution x(0) = x(1) exp(-sin 1). */
  async function faultAfter(steps: number, shift: number): Promise<number> {
    const velocity = async (x: Float32Array, t: number) => x.map((value) => value * Math.cos(t))
    const [end = NaN] = await sample({ noise: Float32Array.of(2), steps, shift, velocity, onStep, signal: never })
    return Math.abs(end - 2 * Math.exp(-Math.sin(1)))
  }

  test.each([1, 2, 3])('to second order with shift %d: twice the steps give a quarter of the error', async (shift) => {
    const faults = await Promise.all([12, 24, 48].map((steps) => faultAfter(steps, shift)))
    const [a = NaN, b = NaN, c = NaN] = faults
    for (const ratio of [a / b, b / c]) {
      expect(ratio).toBeGreaterThan(3.4)
      expect(ratio).toBeLessThan(4.8)
    }
  })

  test('exactly if the velocity is linear in time', async () => {
    // x' = 3 + 4t from x(1) = 5: x(0) = 0. Only the first step, which has no predecessor, is not exact: it uses its
    // initial velocity throughout, an error of half the square of its length times 4.
    const velocity = async (x: Float32Array, t: number) => x.map(() => 3 + 4 * t)
    const [end = NaN] = await sample({ noise: Float32Array.of(5), steps: 4, shift: 1, velocity, onStep, signal: never })
    expect(end).toBeCloseTo(-2 * 0.25 ** 2, 5)
  })
})

test('goes from time 1 to 0 with shorter steps near 1', async () => {
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

test('covers the whole path in one step if asked to', async () => {
  const velocity = async () => Float32Array.of(0.25, 4)
  const noise = Float32Array.of(1, 1)
  expect(await sample({ noise, steps: 1, shift: 2, velocity, onStep, signal: never })).toEqual(
    Float32Array.of(0.75, -3),
  )
})

test('previews the image that the velocity of the step leads to, and at the last step the image itself', async () => {
  // x' = 2 from x(1) = 5 stays on a straight line to x(0) = 3, so each preview is exact.
  const previews: number[][] = []
  const straight = { noise: Float32Array.of(5, -1), steps: 4, shift: 2, signal: never }
  await sample({
    ...straight,
    velocity: async () => Float32Array.of(2, -4),
    onStep: (_, preview) => void previews.push([...preview()].map((value) => Math.round(value * 1e5) / 1e5)),
  })
  expect(previews).toEqual(Array.from({ length: 4 }, () => [3, 3]))
  // x' = 4t bends: the first preview of two steps is x(1/2) - 1/2 * 4, with x(1/2) = 5 - 1/2 * 4.
  const bent: Float32Array[] = []
  const last = await sample({
    ...straight,
    noise: Float32Array.of(5),
    shift: 1,
    steps: 2,
    velocity: async (_, t) => Float32Array.of(4 * t),
    onStep: (_, preview) => void bent.push(preview()),
  })
  expect(bent).toEqual([Float32Array.of(1), last])
})

test('waits for what is done with a step before the next one', async () => {
  const order: string[] = []
  await sample({
    noise: Float32Array.of(1),
    steps: 2,
    shift: 1,
    velocity: async (x) => {
      order.push('run')
      return x
    },
    onStep: async (step) => {
      await Promise.resolve()
      order.push(`step ${step}`)
    },
    signal: never,
  })
  expect(order).toEqual(['run', 'step 1', 'run', 'step 2'])
})

test('reports each step, and starts none after a cancellation', async () => {
  const off = new AbortController()
  const reported: number[] = []
  let calls = 0
  const sampling = sample({
    noise: Float32Array.of(1),
    steps: 1_000,
    shift: 2,
    velocity: async (x) => {
      calls += 1
      return x
    },
    onStep: (step) => {
      reported.push(step)
      if (step === 3) off.abort(new Error('called off'))
    },
    signal: off.signal,
  })
  await expect(sampling).rejects.toThrow('called off')
  expect(reported).toEqual([1, 2, 3])
  expect(calls).toBe(3)
})
