import { expect, test } from 'vitest'
import { nativeContextOf, orderSampling, type NativeContext } from './ordered-sampling.ts'

/** Records what begins and ends; each sampling ends when the test says so. */
function recordingContext() {
  const record: string[] = []
  const ends = new Map<unknown, (fails?: boolean) => void>()
  const native: NativeContext = {
    decodeBatch: async () => void record.push('batch'),
    sampleToken: (index) => {
      record.push(`begin ${String(index)}`)
      return new Promise((resolve, reject) =>
        ends.set(index, (fails = false) => {
          record.push(`end ${String(index)}`)
          if (fails) reject(new Error('no token'))
          else resolve(index)
        }),
      )
    },
  }
  return { native, record, end: (index: number, fails?: boolean) => ends.get(index)?.(fails) }
}

test('after each batch one sequence is sampled alone, then the others at once', async () => {
  const { native, record, end } = recordingContext()
  orderSampling(native)
  for (const fails of [false, true]) {
    record.length = 0
    await native.decodeBatch()
    const [first, ...others] = [0, 1, 2].map((index) => native.sampleToken(index).catch(String))
    expect(record).toEqual(['batch', 'begin 0'])
    end(0, fails)
    expect(await first).toBe(fails ? 'Error: no token' : 0)
    await Promise.resolve()
    expect(record.slice(2)).toEqual(['end 0', 'begin 1', 'begin 2'])
    end(2)
    end(1)
    expect(await Promise.all(others)).toEqual([1, 2])
  }
})

test('a library that keeps its native context elsewhere is refused', () => {
  expect(() => nativeContextOf({ _ctx: {} })).toThrow('elsewhere')
})
