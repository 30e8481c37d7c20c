import { expect, test } from 'vitest'
import { makeDownloadPlaces } from './download-places.ts'

test('one client has no more than its part, and all together no more than there are', () => {
  const places = makeDownloadPlaces({ all: 3, each: 2 })
  const [first, second] = [places.take('a'), places.take('a')]
  expect([first, second]).not.toContain(undefined)
  expect(places.take('a')).toBeUndefined()
  const other = places.take('b')
  expect(other).toBeDefined()
  expect(places.take('c')).toBeUndefined()
  first?.()
  expect(places.take('c')).toBeDefined()
  expect(places.take('a')).toBeUndefined()
  other?.()
  expect(places.take('a')).toBeDefined()
})
