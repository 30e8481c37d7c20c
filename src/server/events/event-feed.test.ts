import { expect, test } from 'vitest'
import { makeFeed } from './event-feed.ts'

const event = {
  id: '8',
  at: '2026-01-01T00:00:00Z',
  type: 'rental.created',
  subject: { kind: 'rental', id: 'r1' },
  data: {},
} as const

function countedFeed(answer: () => Promise<Array<typeof event>> = () => Promise.resolve([event])) {
  const reads: bigint[] = []
  const feed = makeFeed({
    newestId: () => Promise.resolve(7n),
    listAfter: (id) => {
      reads.push(id)
      return answer()
    },
  })
  return { feed, reads }
}

test('a thousand streams at the same id share one read and one encoding', async () => {
  const { feed, reads } = countedFeed()
  const answers = await Promise.all(Array.from({ length: 1_000 }, () => feed.framesAfter(7n)))
  expect(reads).toEqual([7n])
  expect(new Set(answers).size).toBe(1)
  expect(answers[0]?.[0]).toMatchObject({ id: 8n })
})

test('after a wake-up, a read that has begun before it is not shared', async () => {
  const { feed, reads } = countedFeed()
  const before = feed.framesAfter(7n)
  feed.forget()
  const after = feed.framesAfter(7n)
  expect(await after).not.toBe(await before)
  expect(reads).toEqual([7n, 7n])
})

test('a read that failed is not shared with those who ask later', async () => {
  let isDown = true
  const { feed } = countedFeed(() => (isDown ? Promise.reject(new Error('down')) : Promise.resolve([event])))
  await expect(feed.framesAfter(7n)).rejects.toThrow('down')
  isDown = false
  expect(await feed.framesAfter(7n)).toHaveLength(1)
})

test('streams that catch up keep nothing in memory', async () => {
  const { feed, reads } = countedFeed()
  for (const id of [1n, 2n, 3n, 4n, 4n]) await feed.framesAfter(id)
  expect(reads).toEqual([1n, 2n, 3n, 4n, 4n])
})
