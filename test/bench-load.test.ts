/** The load of the benches: what a peer does wrong is counted, what Berth does wrong fails the bench. */
import { expect, test } from 'vitest'
import { sideFigures } from '../bench/gateway/figures.ts'
import { checkResult, type LoadResult } from '../bench/gateway/load.ts'

const none = { p50: 1, p99: 2 }
const result: LoadResult = {
  answered: 40,
  tookMs: 1_000,
  latencyMs: none,
  firstByteMs: none,
  faults: 1,
  faultTexts: ['the connection was closed'],
}

test('a closed stream of a peer is counted and does not end the bench (issue 31, 14)', () => {
  expect(checkResult({ port: 1, countsFaults: true }, result)).toBe(result)
  expect(() => checkResult({ port: 1, countsFaults: true }, { ...result, answered: 0 })).toThrow('0 right ones')
  expect(() => checkResult({ port: 1, countsFaults: false }, result)).toThrow('the connection was closed')
  const side = { name: 'peer', port: 1, pid: 1, headers: {}, stop: async () => {} }
  const measured = { side, cpuUs: [1], rates: [1], p50Ms: [1], p99Ms: [1], firstByteMs: [1], besideUs: {} }
  const shown = (faults: number[]) =>
    sideFigures({ ...measured, faults }, 'stream').find(({ name }) => /wrong/.test(name))
  expect(shown([0, 2, 1])).toEqual({ name: 'peer: wrong streams', value: 3, unit: '' })
  expect(shown([0, 0])).toBeUndefined()
})
