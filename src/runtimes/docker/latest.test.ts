import { expect, test } from 'vitest'
import { latestOnly } from './latest.ts'

test('runs the first and the last of many calls, one at a time', async () => {
  const begun: number[] = []
  let underWay = 0
  const ask = latestOnly<number>(async (value) => {
    underWay += 1
    expect(underWay).toBe(1)
    begun.push(value)
    await new Promise((resolve) => setImmediate(resolve))
    underWay -= 1
  })
  await Promise.all(Array.from({ length: 1_000 }, (_, n) => ask(n)))
  expect(begun).toEqual([0, 999])
  await ask(7)
  expect(begun).toEqual([0, 999, 7])
})

test('runs the next call after a failure', async () => {
  const done: string[] = []
  const ask = latestOnly<string>(async (value) => {
    await new Promise((resolve) => setImmediate(resolve))
    if (value === 'bad') throw new Error(value)
    done.push(value)
  })
  const results = await Promise.allSettled([ask('bad'), ask('dropped'), ask('good')])
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled'])
  expect(done).toEqual(['good'])
})
