import { expect, test } from 'vitest'
import { instantOf } from '../base/instant.ts'
import { coldStartOf } from './cold-start.ts'

const at = (ms: number) => instantOf(1_000_000 + ms)

test('a start is split into claim, pull, load and first token', () => {
  const times = { createdAt: at(0), askedAt: at(250), startedAt: at(61_250), loadedAt: at(73_250), readyAt: at(73_750) }
  expect(coldStartOf(times)).toEqual({
    claimSeconds: 0.25,
    pullSeconds: 61,
    loadSeconds: 12,
    firstTokenSeconds: 0.5,
  })
})

test('a phase that has not ended has no time, and clocks that differ give none below zero', () => {
  const times = { createdAt: at(10), askedAt: at(0), startedAt: null, loadedAt: null, readyAt: null }
  expect(coldStartOf(times)).toEqual({
    claimSeconds: 0,
    pullSeconds: null,
    loadSeconds: null,
    firstTokenSeconds: null,
  })
})
